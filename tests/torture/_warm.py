"""What the processes that are killed have at hand when they are born."""

import justmem.cli.app
import justmem.copying
import justmem.stores.opening
import justmem.stores.postgres
import justmem.stores.whole
import torture._children
import torture._talk
from justmem import tokens

__all__ = ["justmem", "torture"]

tokens.count("its tables take a second to load")
