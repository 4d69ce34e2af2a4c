"""Many spaces in one process."""

from justmem.spaces.spaces import Spaces

__all__ = ["Spaces"]
