"""What the processes that are killed have at hand when they are born."""

import justmem.cli.app
import justmem.store.postgres
import justmem.store.sqlite
import justmem.transfer
import torture._children
import torture._talk
from justmem.runtime import tokens

__all__ = ["justmem", "torture"]

tokens.count("its tables take a second to load")
