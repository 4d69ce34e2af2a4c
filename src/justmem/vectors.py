"""What is stored of a session besides its turns: passages, and vectors of cards and passages.

Passages index both sides of a conversation without a model call, so that REPLAY can find a reply
that no card holds. The word index has all words of a passage. Its vector comes from its first 400
characters: a local embedder takes twenty times longer for a long reply than for a card, and a
reply names its topic first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from justmem.budget import Tally
from justmem.domain import Card, Passage, Session, SessionState
from justmem.language.words import sentences
from justmem.memory_parts import Parts
from justmem.ports import (
    Derived,
    Extraction,
    Index,
    Language,
    Store,
    StoredSession,
    Vectors,
)
from justmem.runtime import tokens

_LONGEST = 2000  # characters of a passage
_EMBEDDED = 400  # characters of it that are embedded


def passages(session: Session) -> list[Passage]:
    return [
        Passage(session_id=session.id, turn=number, start=start, end=end)
        for number, turn in enumerate(session.turns, 1)
        for start, end in _stretches(turn.text)
    ]


def _stretches(text: str) -> list[tuple[int, int]]:
    """Runs of whole sentences of at most _LONGEST characters that together hold every word."""
    if len(text) <= _LONGEST:
        return [(0, len(text))] if text.strip() else []
    found: list[tuple[int, int]] = []
    start = end = 0
    for sentence in sentences(text):
        if end and sentence.end - start > _LONGEST:
            found.append((start, end))
            start = sentence.start
        while sentence.end - start > _LONGEST:  # one endless sentence, such as a line of data
            found.append((start, start + _LONGEST))
            start += _LONGEST
        end = sentence.end
    if end > start:
        found.append((start, end))
    return found


# ---------------------------------------------------------------- vectors


def texts_to_embed(
    session: Session, cards: Sequence[Card], passages: Sequence[Passage], language: Language
) -> list[str]:
    """The texts whose vectors are stored: those of the cards, then those of the passages."""
    found = [language.search_text(card.dated) for card in cards]
    said = [session.turn(each.turn).text[each.start : each.end] for each in passages]
    return found + [text[:_EMBEDDED] for text in said]


async def derive(
    stored: StoredSession, extraction: Extraction, parts: Parts, tally: Tally
) -> Derived:
    """Everything that is stored of a session besides its turns. Texts whose vectors are stored are
    not embedded again."""
    session = stored.session
    cards, stretches = extraction.cards, await asyncio.to_thread(passages, session)
    wanted = texts_to_embed(session, cards, stretches, parts.language)
    known = _known_vectors(stored, parts.language)
    fresh = list(dict.fromkeys(text for text in wanted if text not in known))
    made = await tally.embed(parts.embedder, fresh)
    known.update(zip(fresh, made, strict=True))
    vectors = np.stack([known[text] for text in wanted]) if wanted else made
    return Derived(
        state=SessionState.STORED if cards else SessionState.EMPTY,
        cards=cards,
        card_vectors=vectors[: len(cards)],
        passages=stretches,
        passage_vectors=vectors[len(cards) :],
        quarantined=extraction.quarantined,
        corrections=stored.derived.corrections,
        tokens=tally.history_tokens,
        card_tokens=tokens.count("\n".join(card.text for card in cards)),
    )


def _known_vectors(stored: StoredSession, language: Language) -> dict[str, Vectors]:
    """The stored vectors of the session, by the text that they were made from."""
    made = stored.derived
    if not len(made.passage_vectors):
        return {}
    turns = len(stored.session.turns)
    complete = len(made.card_vectors) == len(made.cards)
    if not complete or any(passage.turn > turns for passage in made.passages):
        return {}  # the file is damaged: embed everything again
    embedded = texts_to_embed(stored.session, made.cards, made.passages, language)
    vectors = [*made.card_vectors, *made.passage_vectors]
    return dict(zip(embedded, vectors, strict=True)) if len(embedded) == len(vectors) else {}


async def reembed(store: Store, parts: Parts) -> int:
    """Replaces all vectors of a store, in one transaction. Returns how many there are."""

    async def embed(index: Index, stored: Sequence[str]) -> Vectors:
        search_text = parts.language.search_text
        is_card = index == "cards"
        texts = [search_text(text) if is_card else text[:_EMBEDDED] for text in stored]
        return await Tally().embed(parts.embedder, texts)

    return await store.bind(parts.embedder.name, parts.embedder.dim, embed)
