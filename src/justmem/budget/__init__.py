"""Counted model calls, receipts and the ledger."""
