"""Any input becomes a Session: validation of sessions, and redaction.

sessions         checks sessions, times and filters, in all forms that a caller may pass
redaction        removes secrets before anything is stored or sent to a model
"""
