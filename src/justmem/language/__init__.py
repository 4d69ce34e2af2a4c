"""All code that knows a human language."""
