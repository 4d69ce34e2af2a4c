"""Writes what is derived from the text of a session: cards, passages, vectors, terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from justmem.domain import Card, Passage, Session, living_corrections
from justmem.errors import EmbedderMismatch, InputError, StoreBusy, StoreError
from justmem.ports import Derived, Index, StoredSession, Vectors
from justmem.store import log, reads, rows
from justmem.store.engine import Connection, one, row
from justmem.store.session_index import TERMS, Block


def put_derived(
    db: Connection, session: Session, derived: Derived, *, corrected: bool = False
) -> list[Card]:
    """Replaces everything that was derived from the session before, and returns its cards.
    `corrected`: replaces the corrections too."""
    removed = _remove_derived(db, session.id)
    if removed:
        mark_replaced(db)
    dim, key, generation = one(
        db, "SELECT dim, next_key, generation FROM spaces WHERE space = ?", db.space
    )
    stay = _to_store(db, derived.cards)
    cards = [derived.cards[place] for place in stay]
    card_vectors = _checked(derived.card_vectors, len(derived.cards), dim)
    passage_vectors = _checked(derived.passage_vectors, len(derived.passages), dim)
    if card_vectors is not None:
        card_vectors = card_vectors[stay]
    _put_cards(db, cards, key)
    blocks = (
        card_block(session, cards, key, card_vectors),
        passage_block(session, derived.passages, key + len(cards), passage_vectors),
    )
    for block in blocks:
        _put_block(db, block, generation + 1)
    dim = next((block.vectors.dim for block in blocks if block.vectors is not None), dim)
    db.run_many(
        "INSERT INTO quarantine (space, session, place, subject, fact, reason) VALUES",
        [
            (db.space, session.id, n, held.subject, held.fact, held.reason)
            for n, held in enumerate(derived.quarantined)
        ],
    )
    if corrected:
        left = derived.corrections
        if derived.state.settled:
            left = living_corrections(left, cards)
        db.run("DELETE FROM corrections WHERE space = ? AND session = ?", db.space, session.id)
        db.run_many(
            "INSERT INTO corrections (space, session, number, correction) VALUES",
            [(db.space, session.id, n, each.model_dump_json()) for n, each in enumerate(left)],
        )
    before = "(SELECT {} FROM sessions WHERE space = ? AND id = ?)"
    db.run(
        "UPDATE spaces SET generation = generation + 1, removals = removals + ?, next_key = ?, "
        f"dim = ?, cards = cards + ? - {before.format('cards')}, "
        f"tokens = tokens + ? - {before.format('tokens')} WHERE space = ?",
        *(int(removed), key + sum(map(len, blocks)), dim),
        *(len(cards), db.space, session.id, derived.tokens, db.space, session.id, db.space),
    )
    db.run(
        "UPDATE sessions SET state = ?, reason = ?, cards = ?, quarantined = ?, tokens = ?, "
        "card_tokens = ? WHERE space = ? AND id = ?",
        *(derived.state, derived.reason, len(cards), len(derived.quarantined)),
        *(derived.tokens, derived.card_tokens, db.space, session.id),
    )
    return cards


def _to_store(db: Connection, cards: Sequence[Card]) -> list[int]:
    """Positions of the cards to store: each id once, without forgotten cards."""
    first = {card.id: place for place, card in reversed(list(enumerate(cards)))}
    forgotten = reads.forgotten_among(db, list(first))
    return sorted(place for id, place in first.items() if id not in forgotten)


def _checked(vectors: Vectors, count: int, dim: int) -> Vectors | None:
    if not len(vectors):
        return None
    if len(vectors) != count:
        raise StoreError(f"{count} texts came with {len(vectors)} vectors: embed each of them.")
    if dim not in (0, vectors.shape[1]):
        raise EmbedderMismatch(
            f"The vectors of this space have {dim} dimensions, these have {vectors.shape[1]}: "
            "use the embedder that the space was made with, or run `justmem reembed`."
        )
    return vectors


def card_block(
    session: Session, cards: Sequence[Card], first: int, vectors: Vectors | None
) -> Block:
    places = [(n, turn) for n, card in enumerate(cards) for turn in card.turns]
    texts = [card.text for card in cards]
    said = [card.said_at for card in cards]
    return Block.made("cards", session.id, first, texts, places, said, vectors)


def passage_block(
    session: Session, passages: Sequence[Passage], first: int, vectors: Vectors | None
) -> Block:
    spans = [(each.turn, each.start, each.end) for each in passages]
    texts = rows.passage_texts(session, spans)
    said = [session.said_at(each.turn) for each in passages]
    return Block.made("passages", session.id, first, texts, spans, said, vectors)


def _put_cards(db: Connection, cards: Sequence[Card], key: int) -> None:
    db.run_many(
        f"INSERT INTO cards (space, {rows.CARD}, mark) VALUES",
        [(db.space, *rows.card_row(key + n, card)) for n, card in enumerate(cards)],
    )


def _put_block(db: Connection, block: Block, generation: int) -> None:
    if len(block):
        db.run(
            "INSERT INTO blocks (space, kind, session, generation, first_key, postings, "
            "vectors) VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(db.space, block.kind, block.session, generation, block.first),
            *(block.packed(), block.packed_vectors()),
        )


def _remove_derived(db: Connection, session_id: str) -> bool:
    """Returns whether a search could have found anything of it."""
    deleted = [
        db.run(f"DELETE FROM {table} WHERE space = ? AND session = ?", db.space, session_id)
        for table in ("cards", "blocks", "quarantine")
    ]
    return any(deleted[:2])


def bound(db: Connection) -> tuple[str, int, str]:
    """The embedder, the dimension and the version of the term rules that the space uses."""
    name, dim, terms = one(db, "SELECT embedder, dim, terms FROM spaces WHERE space = ?", db.space)
    return name, dim, terms


def bind(db: Connection, embedder: str, dim: int) -> None:
    stored, size, terms = bound(db)
    there = row(
        db, "SELECT 1 FROM blocks WHERE space = ? AND vectors IS NOT NULL LIMIT 1", db.space
    )
    if (stored, size) != (embedder, dim) and there and (stored or size != dim):
        raise EmbedderMismatch(
            f"The vectors of this space come from {stored or 'another embedder'} ({size} "
            f"dimensions), but the embedder is now {embedder} ({dim}): use the earlier one, "
            "or run `justmem reembed` to embed everything again."
        )
    db.run("UPDATE spaces SET embedder = ?, dim = ? WHERE space = ?", embedder, dim, db.space)
    if terms != TERMS:
        put_all_again(db)


def texts(derived: Derived, session: Session) -> dict[Index, list[str]]:
    """The texts that the vectors of a session stand for."""
    spans = [(each.turn, each.start, each.end) for each in derived.passages]
    cards = [card.dated for card in derived.cards]
    return {"cards": cards, "passages": rows.passage_texts(session, spans)}


def replace_vectors(
    db: Connection,
    embedder: str,
    dim: int,
    made: Mapping[tuple[Index, str], Vectors],
    generation: int,
) -> None:
    """`made`: vectors by index and session. `generation`: that of the space when it was read."""
    if reads.generation(db) != generation:
        raise StoreBusy("Another process changed the space while it was embedded: run it again.")
    db.run("UPDATE spaces SET embedder = ?, dim = ? WHERE space = ?", embedder, dim, db.space)
    put_all_again(db, made)
    mark_replaced(db)
    log.add(db, "reembed", texts=sum(map(len, made.values())))


def put_all_again(db: Connection, made: Mapping[tuple[Index, str], Vectors] | None = None) -> None:
    """Makes the indexes of all sessions again: with other vectors, or by other rules for terms."""
    made = made or {}
    for whole in reads.each_whole_session(db, [record.id for record in reads.sessions(db)]):
        if whole.derived.cards or whole.derived.passages:
            id, own = whole.session.id, whole.derived
            own = replace(
                own,
                card_vectors=made.get(("cards", id), own.card_vectors),
                passage_vectors=made.get(("passages", id), own.passage_vectors),
            )
            put_derived(db, whole.session, own)
    db.run("UPDATE spaces SET terms = ? WHERE space = ?", TERMS, db.space)


def mark_replaced(db: Connection) -> None:
    """Notes that old words may be left in the file. The next thorough sweep removes them."""
    db.run("UPDATE spaces SET replaced = 1 WHERE space = ? AND replaced = 0", db.space)


# ---------------------------------------------------------------- corrections


def revise(db: Connection, before: StoredSession, after: Derived) -> None:
    id, made = before.session.id, before.derived
    now = [each.derived for each in reads.whole_sessions(db, [id])]
    if not now or any(
        [*getattr(now[0], name)] != [*getattr(made, name)]
        for name in ("cards", "corrections", "quarantined")
    ):
        raise StoreBusy(f"Session {id!r} was changed or forgotten meanwhile: try again.")
    if len(put_derived(db, before.session, after, corrected=True)) < len(after.cards):
        raise InputError("The session has, or had, another card with these words: use other words.")
    mark_replaced(db)
    verb = "correct" if len(after.corrections) > len(made.corrections) else "undo"
    changed = [each for each in after.corrections if each not in made.corrections]
    changed += [each for each in made.corrections if each not in after.corrections]
    log.add(db, verb, [id, *(card.id for each in changed for card in (each.before, each.after))])
