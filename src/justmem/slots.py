"""From a ranking to slots: which cards are chosen, and what is read with each. Pure; no I/O.

A slot is a list of places in the pool: the card that was chosen, then those that share its slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from justmem.domain import Card
from justmem.ports import Vectors
from justmem.ranking import Scores

_NEAR = 8  # turns: how long people mostly stay with a matter
_MOST_BESIDE = 1.5  # cards a slot, over all slots
_DEPTH = 60  # below it nothing is near enough to what was chosen


def distinct(
    order: Sequence[int], cards: Sequence[Card], vectors: Vectors, *, alike: float, depth: int
) -> list[list[int]]:
    """Walks down a ranking and puts each card that adds nothing to a better one into its slot:
    [[best, those it stands for...], ...]. A card adds nothing if it says nearly the same, or rests
    only on turns that the slot rests on already. Below `depth`, where nothing is chosen any more,
    each card stands alone."""
    walked = list(order[:depth])
    near = vectors[walked]
    same = near @ near.T >= alike
    alone = (same.sum(axis=1) <= 1).tolist()  # like none but itself
    slots: list[list[int]] = []
    heads: list[int] = []  # the place of each slot's first in the walk
    held: list[set[tuple[str, int]]] = []
    taken: set[tuple[str, int]] = set()  # by any slot
    for place, index in enumerate(walked):
        turns = {(cards[index].session_id, turn) for turn in cards[index].turns}
        slot = None
        if not alone[place] or turns <= taken:  # most cards need not be compared with the slots
            slot = next(
                (n for n, head in enumerate(heads) if same[place, head] or turns <= held[n]), None
            )
        if slot is None:
            slots.append([index])
            heads.append(place)
            held.append(turns)
        else:
            slots[slot].append(index)
            held[slot] |= turns
        taken |= turns
    return slots + [[index] for index in order[depth:]]


def spread(
    slots: Sequence[list[int]], scores: Scores, cards: Sequence[Card], *, again: float, count: int
) -> list[list[int]]:
    """The same slots with the first `count` taken one by one: each that was taken already makes
    the others of its session worth `again` more, or less."""
    left = list(slots)
    taken: list[list[int]] = []
    times: Counter[str] = Counter()
    while left and len(taken) < count:
        best = max(left, key=lambda s: scores[s[0]] + again * times[cards[s[0]].session_id])
        left.remove(best)
        taken.append(best)
        times[cards[best[0]].session_id] += 1
    return taken + left


def beside(
    slots: Sequence[list[int]],
    order: Sequence[int],
    scores: Scores,
    cards: Sequence[Card],
    *,
    least: float,
) -> dict[int, list[int]]:
    """What was told a few turns from a chosen card, by that card: if it scores `least` and is in
    no slot, the best first, and not too many in all. What is asked about is rarely told in one
    breath, and what stands around a good card is worth more than its own words say."""
    heads: dict[str, list[int]] = {}
    for head, *_ in slots:
        heads.setdefault(cards[head].session_id, []).append(head)
    found: dict[int, list[int]] = {head: [] for head, *_ in slots}
    taken = {index for slot in slots for index in slot}
    left = int(_MOST_BESIDE * len(slots))
    for index in order[:_DEPTH]:
        if scores[index] < least or not left:
            break
        if index in taken or cards[index].session_id not in heads:
            continue
        near = heads[cards[index].session_id]
        head = min(near, key=lambda one: _turns_apart(cards[one], cards[index]))
        if _turns_apart(cards[head], cards[index]) <= _NEAR:
            found[head].append(index)
            left -= 1
    return found


def without(slots: Sequence[list[int]], near: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The slots without what is read beside others."""
    gone = {index for each in near.values() for index in each}
    left = ([index for index in slot if index not in gone] for slot in slots)
    return [slot for slot in left if slot]


def _turns_apart(one: Card, other: Card) -> int:
    return min((abs(a - b) for a in one.turns for b in other.turns), default=_NEAR + 1)
