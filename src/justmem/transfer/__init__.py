"""Export, import and copy of a space."""
