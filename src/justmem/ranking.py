"""Pure scores: fusion, entity match, date overlap, near-duplicates. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Card, Plan
from justmem.ports import Vectors
from justmem.words import content

Scores = NDArray[np.float32]

RRF_K = 60  # the customary constant of reciprocal rank fusion


def fuse(rankings: Iterable[Sequence[tuple[int, float]]]) -> dict[int, float]:
    """Reciprocal rank fusion: what several rankings agree on comes first, whatever scale each
    one's scores have."""
    fused: dict[int, float] = {}
    for ranking in rankings:
        for rank, (key, _) in enumerate(ranking, 1):
            fused[key] = fused.get(key, 0.0) + 1.0 / (RRF_K + rank)
    return fused


def bonuses(card: Card, plan: Plan, entities: Sequence[frozenset[str]]) -> Mapping[str, float]:
    """Signals between 0 and 1 that order candidates. They never filter: a wrong filter is a miss
    that nothing downstream can repair."""
    words = set(content(card.text))
    return {
        "entity": sum(bool(entity & words) for entity in entities) / len(entities)
        if entities
        else 0.0,
        "date": float(card.event_date.overlaps(plan.period)),
        "kind": float(card.kind in plan.routes),
    }


def entity_words(plan: Plan) -> list[frozenset[str]]:
    return [words for entity in plan.entities if (words := frozenset(content(entity)))]


def standardised(scores: Scores) -> Scores:
    """Mean 0, deviation 1: so that scores of different origin can be added."""
    spread = float(scores.std())
    centred: Scores = scores - scores.mean()
    return centred / np.float32(spread if spread > 1e-6 else 1.0)


def distinct(order: Sequence[int], vectors: Vectors, *, alike: float) -> list[list[int]]:
    """Walks down a ranking and puts each item that is nearly the same as a better one into that
    one's slot: [[best, its near-duplicates...], ...]."""
    slots: list[list[int]] = []
    heads: list[int] = []
    for index in order:
        if heads:
            similarity = vectors[heads] @ vectors[index]
            nearest = int(similarity.argmax())
            if similarity[nearest] >= alike:
                slots[nearest].append(index)
                continue
        heads.append(index)
        slots.append([index])
    return slots
