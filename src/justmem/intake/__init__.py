"""Any input becomes a Session: validation of sessions, and redaction."""
