"""Text of a peer that keeps no source -> the turn it most likely comes from.

The rule, stated so that its recall can be judged: the turn that holds the largest share of the
text's content words, if that is at least 40 percent; the earlier turn wins a tie. Below that the
text has no place and counts for nothing.
"""

from __future__ import annotations

from justmem.language.words import content
from justmem_eval.benchmarks import History
from justmem_eval.rows import Place

LEAST = 0.4
NOWHERE: Place = ("", ())


def aligned(text: str, history: History) -> Place:
    wanted = set(content(text))
    best, share = NOWHERE, 0.0
    for session in history.sessions if wanted else ():
        for number, turn in enumerate(session.turns, 1):
            held = len(wanted & set(content(turn.text))) / len(wanted)
            if held > share:
                best, share = (session.id, (number,)), held
    return best if share >= LEAST else NOWHERE
