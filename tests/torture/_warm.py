"""Imports that every child process has from the start."""

import justmem.cli.app
import justmem.memory
import justmem.store.postgres
import justmem.store.sqlite
import justmem.transfer
import torture._life
from justmem.runtime import tokens

__all__ = ["justmem", "torture"]

tokens.count("loads the tables, which takes a second")
