"""Spaces in and out: export, load, copy. `lines` is their one format."""

from __future__ import annotations

from justmem.transfer.lines import fingerprint
from justmem.transfer.markdown import markdown
from justmem.transfer.moves import Copied, OnMoved, copy, export, load, wholes

__all__ = ["Copied", "OnMoved", "copy", "export", "fingerprint", "load", "markdown", "wholes"]
