"""Writes what is derived from the text of a session: cards, passages, vectors, terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from justmem.domain import Card, Passage, Session, living_corrections
from justmem.errors import EmbedderMismatch, StoreBusy, StoreError
from justmem.ports import Derived, Index, Vectors
from justmem.store import codes, log, reads, rows, terms
from justmem.store.engine import Connection

TABLES = ("cards", "passages", "quarantine", "corrections")


def put_derived(db: Connection, session: Session, derived: Derived) -> list[Card]:
    """Replaces everything that was derived from the session before, and returns its cards: each id
    once, without forgotten ones."""
    id, (dim, key, removals) = session.id, db.head("dim, next_key, removals")
    ids = [card.id for card in derived.cards]
    vectors = dict(zip(ids, _packed(derived.card_vectors, len(ids), dim), strict=True))
    said_vectors = _packed(derived.passage_vectors, len(derived.passages), dim)
    removed = [db.delete(table, session=id) for table in TABLES]
    gone = {mark for (mark,) in db.among("id", "forgotten", "id", ids)}
    cards = [*{card.id: card for card in derived.cards if card.id not in gone}.values()]
    db.insert(
        "cards",
        f"{rows.CARD}, mark, terms, vector",
        [
            (*rows.card_row(key + n, card), card_terms(card), vectors[card.id])
            for n, card in enumerate(cards)
        ],
    )
    db.insert(
        "passages",
        f"{rows.PASSAGE}, said_at, terms, vector",
        [
            (
                *(key + n, id, said.turn, said.start, said.end),
                *(session.said_at(said.turn).isoformat(), passage_terms(session, said), vector),
            )
            for n, (said, vector) in enumerate(zip(derived.passages, said_vectors, strict=True))
        ],
    )
    held = [(id, n, e.subject, e.fact, e.reason) for n, e in enumerate(derived.quarantined)]
    db.insert("quarantine", "session, number, subject, fact, reason", held)
    left = derived.corrections
    if derived.state.finished:
        left = living_corrections(left, cards)
    corrected = [(id, n, each.model_dump_json()) for n, each in enumerate(left)]
    db.insert("corrections", "session, number, correction", corrected)
    for matrix in (derived.card_vectors, derived.passage_vectors):
        dim = matrix.shape[1] if len(matrix) else dim
    space = {
        "dim": dim,
        "next_key": key + max(1, len(cards), len(derived.passages)),
        "removals": removals + int(any(removed[:2])),
    }
    db.update("spaces", space)
    sums = {
        "state": derived.state,
        "reason": derived.reason,
        "cards": len(cards),
        "quarantined": len(derived.quarantined),
        "tokens": derived.tokens,
        "card_tokens": derived.card_tokens,
    }
    db.update("sessions", sums, id=id)
    return cards


def card_terms(card: Card) -> bytes:
    return terms.pack(card.text, card.session_id, card.turns)


def passage_terms(session: Session, said: Passage) -> bytes:
    return terms.pack(rows.passage_text(session, said), session.id, [said.turn])


def _packed(vectors: Vectors, count: int, dim: int) -> Sequence[bytes | None]:
    if not len(vectors):
        return [None] * count
    if len(vectors) != count:
        raise StoreError(f"{count} texts came with {len(vectors)} vectors: embed each of them.")
    if dim not in (0, vectors.shape[1]):
        raise EmbedderMismatch(
            f"The vectors of this space have {dim} dimensions, these have {vectors.shape[1]}: "
            "use the embedder that the space was made with, or run `justmem reembed`."
        )
    return codes.pack(vectors)


# ---------------------------------------------------------------- the embedder


def bind(db: Connection, embedder: str, dim: int) -> None:
    stored, size = reads.embedder(db)
    with_vector = "AND vector IS NOT NULL LIMIT 1"
    there = [db.first("1", index, with_vector) for index in ("cards", "passages")]
    if (stored, size) != (embedder, dim) and any(there) and (stored or size != dim):
        raise EmbedderMismatch(
            f"The vectors of this space come from {stored or 'another embedder'} ({size} "
            f"dimensions), but the embedder is now {embedder} ({dim}): use the earlier one, "
            "or run `justmem reembed` to embed everything again."
        )
    db.update("spaces", {"embedder": embedder, "dim": dim})


def embedded_texts(db: Connection, sessions: Sequence[str]) -> list[tuple[Index, int, str]]:
    """The texts that the vectors of these sessions stand for, with index and key."""
    said = reads.texts(db, sessions, checked=False)
    found: list[tuple[Index, int, str]] = []
    for key, *row in db.among(rows.CARD, "cards", "session", sessions):
        found.append(("cards", key, rows.card_of(row).dated))
    for key, *row in db.among(rows.PASSAGE, "passages", "session", sessions):
        passage = rows.passage_of(row)
        found.append(("passages", key, rows.passage_text(said[passage.session_id], passage)))
    return sorted(found)


def replace_vectors(
    db: Connection,
    embedder: str,
    dim: int,
    made: Mapping[tuple[Index, int], bytes],
    state: reads.IndexState,
) -> None:
    """`made`: packed vectors by index and key. `state`: that of the space when it was read. The
    rows get new keys, so that every cache reads them again."""
    if reads.state(db) != state:
        raise StoreBusy("Another process changed the space while it was embedded: run it again.")
    for (index, key), vector in made.items():
        db.update(index, {"key": key + state.next_key, "vector": vector}, key=key)
    space = {"next_key": 2 * state.next_key, "removals": state.removals + 1}
    db.update("spaces", {"embedder": embedder, "dim": dim, **space})
    log.add(db, "reembed", texts=len(made))
