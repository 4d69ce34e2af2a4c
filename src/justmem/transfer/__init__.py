"""Moves spaces: export to a file, load from one, copy between stores.

All three move whole sessions, a few at a time.

lines            the lines of an export
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from justmem.domain import Loaded
from justmem.errors import InputError, InvalidFile, StoreError
from justmem.intake.redaction import Redaction
from justmem.ports import Embedder, Language, Store, StoredSession
from justmem.transfer.lines import VERSION, End, Head, SessionLine, check, sessions_in
from justmem.vectors import texts_to_embed

BATCH = 20  # sessions that are moved at a time

OnMoved = Callable[[int, int], None]  # sessions done, sessions in all


# ---------------------------------------------------------------- export


async def export(store: Store, *, made: datetime, vectors: bool) -> AsyncGenerator[str]:
    """JSON Lines. The last one has the hash of all before it. StoreError if the space is erased
    meanwhile."""
    metadata = await store.metadata()
    ids = [record.id for record in await store.sessions()]
    head = Head(
        justmem=VERSION,
        space=store.space,
        made=made.isoformat(timespec="seconds"),
        embedder=metadata.embedder,
        dim=metadata.dim,
        sessions=len(ids),
        cards=metadata.stats.cards,
        forgotten=tuple(metadata.forgotten),
        spending=tuple(metadata.spending),
    )
    yield head.text
    sums, left_out = hashlib.sha256(head.text.encode()), len(ids)
    async for whole in whole_sessions(store, ids):
        text = SessionLine.of(whole, vectors=vectors).text
        sums.update(text.encode())
        left_out -= 1
        yield text
    if left_out and not await store.exists():
        raise StoreError(f"The space {store.space!r} was erased during its export.")
    yield End(sha256=sums.hexdigest(), left_out=left_out).text


async def whole_sessions(
    store: Store, ids: Sequence[str] | None = None
) -> AsyncGenerator[StoredSession]:
    """These sessions, or all in order of time. One that is forgotten meanwhile is left out."""
    if ids is None:
        ids = [record.id for record in await store.sessions()]
    for start in range(0, len(ids), BATCH):
        for whole in await store.read(ids[start : start + BATCH]):
            yield whole


# ---------------------------------------------------------------- load


async def load(
    path: Path,
    store: Store,
    embedder: Embedder,
    language: Language,
    redaction: Redaction,
    on_moved: OnMoved | None = None,
) -> Loaded:
    """The whole file is checked before anything is stored. Then sessions are stored, some at a
    time, each batch all or nothing. A second run continues an interrupted load."""
    try:
        opened = path.open("rb")
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}.") from None
    with opened as file:
        head, ids = await asyncio.to_thread(check, file, path.name)
        gone = set((await store.metadata()).forgotten)
        here = ids & {record.id for record in await store.sessions()}
        for whole in sessions_in(file, head.dim) if here or redaction.active else ():
            if whole.session.id in here:
                await _check_same(store, whole.without(gone))
            else:
                await _check_redacted(redaction, whole)
        brought = cards = embedded = 0
        known = (head.embedder, head.dim) == (embedder.name, embedder.dim)
        left = (whole for whole in sessions_in(file, head.dim) if whole.session.id not in here)
        while some := await asyncio.to_thread(lambda: list(islice(left, BATCH))):
            made = [await _embedded(w.without(gone), embedder, language, known) for w in some]
            await store.put([whole for whole, _ in made])
            brought += len(made)
            cards += sum(len(whole.derived.cards) for whole, _ in made)
            embedded += sum(count for _, count in made)
            if on_moved:
                on_moved(brought, len(ids) - len(here))
    await store.put([], forgotten=head.forgotten, spending=head.spending)
    return Loaded(
        sessions=len(ids),
        brought=brought,
        cards=cards,
        embedded=embedded,
        forgotten=len(set(head.forgotten) - gone),
    )


async def _check_same(store: Store, given: StoredSession) -> None:
    """A session that is here with other words or other cards is not replaced."""
    for own in await store.read([given.session.id]):
        if _compared(own) != _compared(given):
            raise InputError(
                f"The space {store.space!r} holds a session {given.session.id!r} that differs "
                "from the file's: load into an empty space, or forget that session first. "
                "Nothing was stored."
            )


async def _check_redacted(redaction: Redaction, given: StoredSession) -> None:
    if not await redaction.passes(_texts(given)):
        raise InputError(
            f"The session {given.session.id!r} of the file contains text to be redacted: remember "
            "its conversation again, or load the file without the setting redact. Nothing was "
            "stored."
        )


def _compared(whole: StoredSession) -> tuple[Any, ...]:
    made = whole.derived
    derived = [*made.cards], [*made.quarantined], [*made.corrections]
    return whole.session.digest, whole.done, made.state, *derived


def _texts(whole: StoredSession) -> list[str]:
    """Every text of it that came from people or models."""
    made = whole.derived
    return [
        *(text for turn in whole.session.turns for text in (turn.speaker, turn.text)),
        *(part for label in whole.session.labels.items() for part in label),
        *(card.text for card in made.cards),
        *(f"{held.subject} {held.fact}" for held in made.quarantined),
        *(card.text for each in made.corrections for card in (each.before, each.after)),
    ]


async def _embedded(
    whole: StoredSession, embedder: Embedder, language: Language, known: bool
) -> tuple[StoredSession, int]:
    """With vectors, and how many had to be made. `known`: those of the file are the embedder's."""
    made = whole.derived
    counts = len(made.cards), len(made.passages)
    if known and counts == (len(made.card_vectors), len(made.passage_vectors)):
        return whole, 0
    texts = texts_to_embed(whole.session, made.cards, made.passages, language)
    vectors = (await embedder.embed(texts)).vectors
    cards, passages = vectors[: counts[0]], vectors[counts[0] :]
    made = replace(made, card_vectors=cards, passage_vectors=passages)
    return replace(whole, derived=made), len(texts)


# ---------------------------------------------------------------- copy


@dataclass(frozen=True, slots=True)
class Copied:
    """What both sides hold after a copy."""

    space: str
    sessions: int
    brought: int  # by this run; the others had arrived before
    cards: int
    forgotten: int
    digest: str  # of all content


async def copy(source: Store, target: Store, on_moved: OnMoved | None = None) -> Copied:
    """A second run continues an interrupted copy. At the end both sides are compared. StoreError
    if they differ, because someone wrote to one of them meanwhile."""
    records = {record.id: record for record in await source.sessions()}
    arrived = {record.id: record for record in await target.sessions()}
    metadata = await source.metadata()
    if strangers := arrived.keys() - records.keys():
        raise StoreError(
            f"The space {target.space!r} holds sessions that are not in the source, such as "
            f"{min(strangers)!r}: copy to an empty space, or to one that an earlier copy began."
        )
    if set((await target.metadata()).forgotten) - set(metadata.forgotten):
        raise StoreError(
            f"The space {target.space!r} has forgotten cards or turns that the source still "
            "holds: forget them there too, or copy to an empty space. Nothing was copied."
        )
    if metadata.embedder or metadata.dim:
        await target.bind(metadata.embedder, metadata.dim)
    await target.put([], forgotten=metadata.forgotten, spending=metadata.spending)
    missing = [id for id, record in records.items() if arrived.get(id) != record]
    for start in range(0, len(missing), BATCH):
        await target.put(await source.read(missing[start : start + BATCH]))
        if on_moved:
            done = min(start + BATCH, len(missing))
            on_moved(len(records) - len(missing) + done, len(records))
    digest = await _digest(source)
    if digest != await _digest(target):
        raise StoreError(
            f"The space {source.space!r} is not the same on both sides: someone wrote to it during "
            "the copy. Run the copy again."
        )
    cards, forgotten = (await target.metadata()).stats.cards, len(metadata.forgotten)
    return Copied(target.space, len(records), len(missing), cards, forgotten, digest)


async def _digest(store: Store) -> str:
    metadata = await store.metadata()
    known = [*metadata.forgotten], [[str(day), tokens] for day, tokens in metadata.spending]
    sums = hashlib.sha256(json.dumps(known).encode())
    async for whole in whole_sessions(store):
        sums.update(SessionLine.of(whole, vectors=True).text.encode())
    return sums.hexdigest()
