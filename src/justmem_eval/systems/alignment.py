"""Text of a peer that keeps no source -> the turns it most likely comes from.

The rule, stated so that its recall can be judged:

- A content word of the text weighs log((n + 1) / (df + 0.5)): n turns in the history, df of them
  with the word. Rare words say more about the place than common ones.
- The turn that holds the largest weight is the place, if it holds at least 30 percent of the
  whole. The speaker's name counts as said in each of their turns. The earlier turn wins a tie.
- Up to two more turns are added, each within three turns of the first, if each adds 15 percent.
- Otherwise the text has no place and counts for nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from justmem_eval.benchmarks import History
from justmem_eval.records import Piece, Place, Retrieved
from justmem_eval.text import content

LEAST = 0.3  # of the text's weight, held by the first turn
MORE = 0.15  # of the text's weight, added by each further turn
FURTHER = 2  # turns besides the first
NEAR = 3  # how many turns away they may be
NOWHERE: Place = ("", ())
Weights = Mapping[str, float]


class Alignment:
    """The turns of a history by their words."""

    def __init__(self, history: History) -> None:
        self._turns = {
            (session.id, number): frozenset((*content(turn.text), *content(turn.speaker)))
            for session in history.sessions
            for number, turn in enumerate(session.turns, 1)
        }
        self._often = Counter(word for said in self._turns.values() for word in said)

    def place(self, text: str, *, within: str | None = None) -> Place:
        """`within`: the session is known, and only the turn is looked for: any share will do."""
        most = len(self._turns) + 1
        left = {word: math.log(most / (self._often[word] + 0.5)) for word in content(text)}
        whole = sum(left.values())
        turns = [key for key in self._turns if within in (None, key[0])]
        first = max(turns, key=lambda key: self._held(left, key), default=None)
        least = LEAST * whole if within is None else 0.0
        if first is None or self._held(left, first) <= 0 or self._held(left, first) < least:
            return NOWHERE
        session, number = first
        chosen = [number]
        near = [n for n in range(number - NEAR, number + NEAR + 1) if (session, n) in self._turns]
        for _ in range(FURTHER):
            said = self._turns[session, chosen[-1]]
            left = {word: weight for word, weight in left.items() if word not in said}
            best = max(near, key=lambda n: self._held(left, (session, n)))
            if self._held(left, (session, best)) < MORE * whole:
                break
            chosen.append(best)
        return session, tuple(sorted(chosen))

    def _held(self, weights: Weights, turn: tuple[str, int]) -> float:
        # `fsum`: the sum does not depend on the order of a set, so ties are ties in each process.
        return math.fsum(weights[word] for word in weights.keys() & self._turns[turn])

    def realigned(self, found: Retrieved) -> Retrieved:
        """The same evidence, as if its system kept no sources."""

        def placed(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
            texts = (piece.text for piece in pieces)
            return tuple(Piece(place=self.place(t), text=t, aligned=True) for t in texts)

        update = {"chosen": placed(found.chosen), "read": placed(found.read)}
        return found.model_copy(update=update)
