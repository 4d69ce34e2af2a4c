"""The routes: parse the request, call AsyncMemory, return the result."""
