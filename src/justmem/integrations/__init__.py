"""Memory inside other frameworks: one module for each, imported only where it is used."""
