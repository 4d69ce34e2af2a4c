"""Parse, call AsyncMemory, translate."""
