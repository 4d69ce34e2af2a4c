"""The `justmem-eval` command."""

from justmem_eval.cli.app import main

__all__ = ["main"]
