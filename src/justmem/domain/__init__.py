"""The domain types of JustMem: pure values, no I/O.

Everything here is frozen. Turn numbers count from 1, as people count.
"""

from justmem.domain.asking import *
from justmem.domain.cards import *
from justmem.domain.outcomes import *
