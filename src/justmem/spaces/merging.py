"""The evidence of several spaces, in one ranking."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from justmem import rank
from justmem.domain import (
    Budget,
    Candidate,
    Card,
    Evidence,
    Profile,
    Receipt,
    SpaceCard,
    SpacesEvidence,
)
from justmem.language.words import content_stems, overlap
from justmem.rank import Scores


def merged(found: Mapping[str, Evidence], budget: Budget, profile: Profile) -> SpacesEvidence:
    """The candidates of all spaces are scored together, with the weights of the profile: scores of
    one space are relative to its own candidates and cannot be compared."""
    first = next(iter(found.values()))
    all = [(space, one) for space, evidence in found.items() for one in _candidates(evidence)]
    # Sessions of two spaces may have the same id.
    cards = [
        one.card.model_copy(update={"session_id": f"{space}\0{one.card.session_id}"})
        for space, one in all
    ]
    scores = _scores(first, [one for _, one in all], cards, profile)
    weights = profile.weights
    chosen = rank.choose(scores, cards, budget.cards, weights.session, weights.far)
    pinned = [i for i, (space, one) in enumerate(all) if one.card.id in found[space].pinned]
    return SpacesEvidence(
        question=first.question,
        at=max(evidence.at for evidence in found.values()),
        cards=tuple(
            SpaceCard(
                space=space,
                card=one.card,
                score=float(scores[i]),
                earlier=one.card.id in found[space].earlier,
                pinned=one.card.id in found[space].pinned,
            )
            for i in dict.fromkeys([*chosen, *pinned])
            for space, one in [all[i]]
        ),
        receipt=_summed([evidence.receipt for evidence in found.values()]),
    )


def _candidates(evidence: Evidence) -> list[Candidate]:
    """Also pinned cards, and turns of sessions whose cards are not made yet: they are read without
    being candidates."""
    read = [Candidate(card=card) for card in evidence.cards]
    every = (*read, *evidence.chosen, *evidence.candidates)
    return list({one.card.id: one for one in every}.values())


def _scores(
    asked: Evidence, candidates: list[Candidate], cards: list[Card], profile: Profile
) -> Scores:
    if not cards:
        return np.zeros(0, np.float32)
    wanted = set(content_stems(asked.question))
    near = np.array([[one.scores.get("cosine", 0.0) for one in candidates]], np.float32)
    shared = np.array([[overlap(wanted, content_stems(card.text)) for card in cards]], np.float32)
    signals = {
        "dense": rank.averaged(near),
        "lexical": rank.averaged(shared),
        "subject": rank.names_subject(cards, [asked.question]),
        "date": rank.in_period(cards, asked.plan.period),
    }
    return rank.scored(signals, profile.weights)


def _summed(receipts: list[Receipt]) -> Receipt:
    return Receipt(
        calls=tuple(call for one in receipts for call in one.calls),
        embedding=tuple(usage for one in receipts for usage in one.embedding),
        reranking=tuple(usage for one in receipts for usage in one.reranking),
        history_tokens=sum(one.history_tokens for one in receipts),
        notes=tuple(dict.fromkeys(note for one in receipts for note in one.notes)),
    )
