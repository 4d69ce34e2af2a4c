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
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from justmem.domain import Session, Turn
from justmem_eval.benchmarks import History
from justmem_eval.records import Piece, Place, Retrieved
from justmem_eval.text import content

LEAST = 0.3  # of the text's weight, held by the first turn
MORE = 0.15  # of the text's weight, added by each further turn
FURTHER = 2  # turns besides the first
NEAR = 3  # how many turns away they may be
NOWHERE: Place = ("", ())


def aligned(text: str, history: History, *, within: str | None = None) -> Place:
    """`within`: the session is known, and only the turn is looked for: any share will do."""
    words = set(content(text))
    index = _index(history.sessions)
    weights = {word: index.weight(word) for word in words}
    whole = sum(weights.values())
    if not whole:
        return NOWHERE
    best, share = NOWHERE, 0.0
    for (session, number), said in index.turns.items():
        if within is None or session == within:
            held = _held(weights, said) / whole
            if held > share:
                best, share = (session, (number,)), held
    found = share >= LEAST or (within is not None and share > 0)
    return index.widened(best, weights) if found else NOWHERE


def realigned(found: Retrieved, history: History) -> Retrieved:
    """The same evidence, as if its system kept no sources."""

    def placed(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        return tuple(
            Piece(place=aligned(piece.text, history), text=piece.text, aligned=True)
            for piece in pieces
        )

    update = {"chosen": placed(found.chosen), "read": placed(found.read)}
    return found.model_copy(update=update)


@dataclass(frozen=True)
class _Index:
    """The words of each turn, split once."""

    turns: Mapping[tuple[str, int], frozenset[str]]
    counts: Mapping[str, int]

    def weight(self, word: str) -> float:
        return math.log((len(self.turns) + 1) / (self.counts.get(word, 0) + 0.5))

    def widened(self, place: Place, weights: Mapping[str, float]) -> Place:
        session, (first,) = place
        whole = sum(weights.values())
        left = {word: w for word, w in weights.items() if word not in self.turns[session, first]}
        chosen = [first]
        near = [n for n in range(first - NEAR, first + NEAR + 1) if (session, n) in self.turns]
        for _ in range(FURTHER):
            best = max(near, key=lambda n: _held(left, self.turns[session, n]))
            if _held(left, self.turns[session, best]) < MORE * whole:
                break
            chosen.append(best)
            left = {word: w for word, w in left.items() if word not in self.turns[session, best]}
        return session, tuple(sorted(chosen))


def _held(weights: Mapping[str, float], said: Iterable[str]) -> float:
    return sum(weights[word] for word in weights.keys() & said)


_indexes: OrderedDict[int, tuple[Sequence[Session], _Index]] = OrderedDict()


def _index(sessions: Sequence[Session]) -> _Index:
    """By identity of the sessions, which are never changed. The last sixteen are kept."""
    known = _indexes.get(id(sessions))
    if known is not None and known[0] is sessions:
        return known[1]
    turns = {
        (session.id, number): _words(turn)
        for session in sessions
        for number, turn in enumerate(session.turns, 1)
    }
    made = _Index(turns, Counter(word for said in turns.values() for word in said))
    _indexes[id(sessions)] = sessions, made
    if len(_indexes) > 16:
        _indexes.popitem(last=False)
    return made


def _words(turn: Turn) -> frozenset[str]:
    return frozenset((*content(turn.text), *content(turn.speaker)))
