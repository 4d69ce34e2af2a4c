"""A year with Lena: the history that `justmem demo` remembers and asks about."""
