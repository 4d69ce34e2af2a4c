"""An export back into a memory.

The whole file is read and checked before anything is stored: a file that is damaged, cut short or
too new stores nothing. Then sessions are stored, some at a time, each batch all or nothing; an
interrupted load goes on where it was when it is run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from justmem import embed
from justmem.domain import Loaded
from justmem.errors import InputError, InvalidFile
from justmem.intake.redaction import Redaction
from justmem.ports import Embedder, Language, Rest, Store, Whole
from justmem.ports.tombstones import spared
from justmem.transfer.export_file import Contents, Head, check, sessions

BATCH = 20  # sessions
_NONE = np.zeros((0, 0), np.float32)

OnLoaded = Callable[[int, int], None]  # sessions done, sessions in all


class Loading:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        redaction: Redaction,
        language: Language,
    ) -> None:
        self._language = language
        self._store = store
        self._redaction = redaction
        self._embedder = embedder

    async def load(self, path: Path, on_loaded: OnLoaded | None) -> Loaded:
        with _opened(path) as file:
            contents = await asyncio.to_thread(check, file, path.name)
            gone = set((await self._store.rest()).forgotten)
            missing = await self._missing(contents, gone)
            file.seek(0)
            if self._redaction.active:
                await self._check_redacted(file, contents, missing)
                file.seek(0)
            done = Loaded(
                sessions=len(contents.sessions), forgotten=len(set(contents.forgotten) - gone)
            )
            left = sessions(file, contents.head.dim)
            while some := await asyncio.to_thread(lambda: list(islice(left, BATCH))):
                fresh = [spared(whole, gone) for whole in some if whole.session.id in missing]
                done = await self._stored(fresh, contents.head, done)
                if on_loaded:
                    on_loaded(done.brought, len(missing))
        rest = Rest(forgotten=contents.forgotten, spending=contents.spending)
        await self._store.take([], rest)
        return done

    async def _check_redacted(self, file: BinaryIO, contents: Contents, missing: set[str]) -> None:
        """Cards cannot be redacted after the fact: whoever reads them could not tell what they
        rest on. So it is all or nothing."""
        for whole in sessions(file, contents.head.dim):
            if whole.session.id in missing and not await self._redaction.passes(_said(whole)):
                raise InputError(
                    f"The session {whole.session.id!r} of the file holds what is to be redacted: "
                    "remember it anew from its conversation, or load the file without the setting "
                    "redact. Nothing was stored."
                )

    async def _missing(self, contents: Contents, gone: set[str]) -> set[str]:
        """Ids of the sessions to store. One that is here with other words or other cards is not
        replaced, and then nothing is stored."""
        here = {record.id: record for record in await self._store.sessions()}
        for id, (digest, state, held, tokens, cards) in contents.sessions.items():
            if (record := here.get(id)) is None:
                continue
            count = sum(card not in gone for card in cards)
            known = record.digest, record.state, record.quarantined, record.tokens, record.cards
            if known != (digest, state, held, tokens, count):
                raise InputError(
                    f"The space {self._store.space!r} holds a session {id!r} that is not the same "
                    "as the file's: load into an empty space, or forget that session first. "
                    "Nothing was stored."
                )
        return contents.sessions.keys() - here.keys()

    async def _stored(self, wholes: Sequence[Whole], head: Head, done: Loaded) -> Loaded:
        if not wholes:
            return done
        same = (head.embedder, head.dim) == (self._embedder.name, self._embedder.dim)
        ready = [whole if same and _embedded(whole) else _bare(whole) for whole in wholes]
        texts = [text for whole in ready if not _embedded(whole) for text in self._texts(whole)]
        rows = iter((await self._embedder.embed(texts)).vectors if texts else ())
        ready = [whole if _embedded(whole) else _filled(whole, rows) for whole in ready]
        await self._store.take(ready)
        return done.model_copy(
            update={
                "brought": done.brought + len(ready),
                "cards": done.cards + sum(len(whole.digested.cards) for whole in ready),
                "embedded": done.embedded + len(texts),
            }
        )

    def _texts(self, whole: Whole) -> list[str]:
        made = whole.digested
        return embed.texts(whole.session, made.cards, made.passages, self._language)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}.") from None


def _said(whole: Whole) -> list[str]:
    """Every text of it that came from people or models."""
    said = [turn for each in (whole.session, whole.waiting) if each for turn in each.turns]
    made = whole.digested
    return [
        *(text for turn in said for text in (turn.speaker, turn.text)),
        *(card.text for card in made.cards),
        *(f"{held.subject} {held.fact}" for held in made.quarantined),
    ]


def _embedded(whole: Whole) -> bool:
    made = whole.digested
    cards, passages = len(made.card_vectors), len(made.passage_vectors)
    return cards == len(made.cards) and passages == len(made.passages)


def _bare(whole: Whole) -> Whole:
    made = replace(whole.digested, card_vectors=_NONE, passage_vectors=_NONE)
    return replace(whole, digested=made)


def _filled(whole: Whole, rows: Iterator[Any]) -> Whole:
    made = whole.digested
    cards = list(islice(rows, len(made.cards)))
    passages = list(islice(rows, len(made.passages)))
    filled = replace(
        made,
        card_vectors=np.stack(cards) if cards else _NONE,
        passage_vectors=np.stack(passages) if passages else _NONE,
    )
    return replace(whole, digested=filled)
