"""The domain types of JustMem: pure values, no I/O.

Everything here is frozen. Turn numbers count from 1, as people count.

cards            sessions with their turns, cards with their dates and corrections
asking           limits, ranking, receipts; plan, evidence and answer of a question
outcomes         what the other operations return: results, log entries, notes
marks            hashes by which forgotten turns and cards are recognised
"""

from justmem.domain.asking import *
from justmem.domain.cards import *
from justmem.domain.outcomes import *
