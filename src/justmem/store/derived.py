"""Writes what is derived from the text of a session: cards, passages, vectors, terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from justmem.domain import Card, Passage, Session, living_corrections
from justmem.errors import EmbedderMismatch, InputError, StoreBusy, StoreError
from justmem.ports import Derived, Index, StoredSession, Vectors
from justmem.store import codes, log, reads, rows, terms
from justmem.store.engine import Connection, one, row

TABLES = ("cards", "passages", "quarantine", "corrections")


def put_derived(db: Connection, session: Session, derived: Derived) -> list[Card]:
    """Replaces everything that was derived from the session before, and returns its cards: each id
    once, without forgotten ones."""
    here = (db.space, session.id)
    dim, key = one(db, "SELECT dim, next_key FROM spaces WHERE space = ?", db.space)
    card_vectors = _packed(derived.card_vectors, len(derived.cards), dim)
    passage_vectors = _packed(derived.passage_vectors, len(derived.passages), dim)
    removed = [
        db.run(f"DELETE FROM {table} WHERE space = ? AND session = ?", *here) for table in TABLES
    ]
    forgotten = reads.forgotten_among(db, [card.id for card in derived.cards])
    vector_of = dict(zip((card.id for card in derived.cards), card_vectors, strict=True))
    cards = [*{card.id: card for card in derived.cards if card.id not in forgotten}.values()]
    db.run_many(
        f"INSERT INTO cards (space, {rows.CARD}, mark, terms, vector) VALUES",
        [
            (db.space, *rows.card_row(key + n, card), card_terms(card), vector_of[card.id])
            for n, card in enumerate(cards)
        ],
    )
    db.run_many(
        f"INSERT INTO passages (space, {rows.PASSAGE}, said_at, terms, vector) VALUES",
        [
            (
                *(db.space, key + n, session.id, said.turn, said.start, said.end),
                session.said_at(said.turn).isoformat(),
                passage_terms(session, said),
                vector,
            )
            for n, (said, vector) in enumerate(zip(derived.passages, passage_vectors, strict=True))
        ],
    )
    db.run_many(
        "INSERT INTO quarantine (space, session, number, subject, fact, reason) VALUES",
        [
            (*here, n, held.subject, held.fact, held.reason)
            for n, held in enumerate(derived.quarantined)
        ],
    )
    left = derived.corrections
    if derived.state.settled:
        left = living_corrections(left, cards)
    db.run_many(
        "INSERT INTO corrections (space, session, number, correction) VALUES",
        [(*here, n, each.model_dump_json()) for n, each in enumerate(left)],
    )
    sizes = {len(each) for each in (*card_vectors, *passage_vectors) if each}
    db.run(
        "UPDATE spaces SET next_key = ?, removals = removals + ?, dim = ? WHERE space = ?",
        *(key + max(1, len(cards), len(derived.passages)), int(any(removed[:2]))),
        *(codes.dim_of(max(sizes)) if sizes else dim, db.space),
    )
    db.run(
        "UPDATE sessions SET state = ?, reason = ?, cards = ?, quarantined = ?, tokens = ?, "
        "card_tokens = ? WHERE space = ? AND id = ?",
        *(derived.state, derived.reason, len(cards), len(derived.quarantined)),
        *(derived.tokens, derived.card_tokens, *here),
    )
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
    there = [
        row(db, f"SELECT 1 FROM {index} WHERE space = ? AND vector IS NOT NULL LIMIT 1", db.space)
        for index in ("cards", "passages")
    ]
    if (stored, size) != (embedder, dim) and any(there) and (stored or size != dim):
        raise EmbedderMismatch(
            f"The vectors of this space come from {stored or 'another embedder'} ({size} "
            f"dimensions), but the embedder is now {embedder} ({dim}): use the earlier one, "
            "or run `justmem reembed` to embed everything again."
        )
    db.run("UPDATE spaces SET embedder = ?, dim = ? WHERE space = ?", embedder, dim, db.space)


def texts(derived: Derived, session: Session) -> dict[Index, list[str]]:
    """The texts that the vectors of a session stand for."""
    return {
        "cards": [card.dated for card in derived.cards],
        "passages": [rows.passage_text(session, passage) for passage in derived.passages],
    }


def replace_vectors(
    db: Connection,
    embedder: str,
    dim: int,
    made: Mapping[tuple[Index, str], Vectors],
    state: reads.State,
) -> None:
    """`made`: vectors by index and session. `state`: that of the space when it was read. The rows
    get new keys, so that every cache reads them again."""
    if reads.state(db) != state:
        raise StoreBusy("Another process changed the space while it was embedded: run it again.")
    for (index, session), vectors in made.items():
        keys = db.rows(
            f"SELECT key FROM {index} WHERE space = ? AND session = ? ORDER BY key",
            *(db.space, session),
        )
        for (key,), vector in zip(keys, codes.pack(vectors), strict=True):
            db.run(
                f"UPDATE {index} SET key = ?, vector = ? WHERE space = ? AND key = ?",
                *(key + state.next_key, vector, db.space, key),
            )
    db.run(
        "UPDATE spaces SET embedder = ?, dim = ?, next_key = 2 * next_key, "
        "removals = removals + 1 WHERE space = ?",
        *(embedder, dim, db.space),
    )
    log.add(db, "reembed", texts=sum(map(len, made.values())))


# ---------------------------------------------------------------- corrections


def revise(db: Connection, before: StoredSession, after: Derived) -> None:
    id, made = before.session.id, before.derived
    now = [each.derived for each in reads.whole_sessions(db, [id])]
    if not now or any(
        [*getattr(now[0], name)] != [*getattr(made, name)]
        for name in ("cards", "corrections", "quarantined")
    ):
        raise StoreBusy(f"Session {id!r} was changed or forgotten meanwhile: try again.")
    if len(put_derived(db, before.session, after)) < len(after.cards):
        raise InputError("The session has, or had, another card with these words: use other words.")
    verb = "correct" if len(after.corrections) > len(made.corrections) else "undo"
    changed = [each for each in after.corrections if each not in made.corrections]
    changed += [each for each in made.corrections if each not in after.corrections]
    log.add(db, verb, [id, *(card.id for each in changed for card in (each.before, each.after))])
