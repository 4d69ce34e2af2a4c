"""Forgetting, expiry and the proof of both."""
