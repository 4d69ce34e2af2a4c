"""The `justmem` command: see `app`."""

from justmem.cli.app import app, main

__all__ = ["app", "main"]
