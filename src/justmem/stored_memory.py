"""StoredMemory: everything that reads, changes and forgets what is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from justmem import forget, vectors
from justmem.domain import (
    KINDS,
    STATUSES,
    About,
    Card,
    Checked,
    Correction,
    Entry,
    Forgotten,
    Health,
    HistoryEntry,
    Loaded,
    Note,
    Preview,
    Quarantined,
    Session,
    SessionRecord,
    Source,
    Stats,
    corrections_of,
)
from justmem.edits import corrections, notes
from justmem.edits.change_log import check, entries
from justmem.errors import InputError
from justmem.forget import Target
from justmem.intake.redaction import Redaction
from justmem.intake.sessions import Day, When, as_time
from justmem.memory_parts import Parts
from justmem.ports import (
    Author,
    CardFilter,
    Store,
    session_in,
    texts_of,
)
from justmem.runtime.process import Origin
from justmem.runtime.tracing import traced
from justmem.runtime.validation import (
    as_choice,
    as_count,
    as_flag,
    as_id,
    as_path,
    as_text,
    check_callable,
    describe,
)
from justmem.subjects import about
from justmem.subjects.user_name import Names, cards_of, read_names

if TYPE_CHECKING:
    from justmem.transfer import OnMoved


class StoredMemory:
    """The operations of a memory besides remembering and asking."""

    def __init__(self, store: Store, parts: Parts) -> None:
        store.author = Author(parts.actor, parts.clock, parts.log_reads)
        self.parts = parts
        self._store = store
        self._redaction = Redaction(parts.redact)
        self._origin = Origin()
        self._bound = False  # whether the store is known to hold vectors of the embedder

    @property
    def space(self) -> str:
        return self._store.space

    def _time(self, at: When = None) -> datetime:
        """The given time, by default now."""
        return as_time(self.parts.clock() if at is None else at)

    async def _bind(self) -> None:
        """Vectors of two embedders cannot be compared: raises before anything is written or
        searched."""
        self._origin.check()
        if not self._bound:
            await self._store.bind(self.parts.embedder.name, self.parts.embedder.dim)
            self._bound = True

    # ------------------------------------------------------------ read

    async def cards(
        self,
        *,
        subject: str | None = None,
        kind: str | None = None,
        status: str | None = None,
        session: str | None = None,
        text: str | None = None,
        limit: int = 1000,
        offset: int = 0,
    ) -> list[Card]:
        """The cards that match, in order of time."""
        where = CardFilter(
            subject=None if subject is None else as_text(subject, "subject"),
            kind=None if kind is None else as_choice(kind, "kind", KINDS),
            status=None if status is None else as_choice(status, "status", STATUSES),
            text=None if text is None else as_text(text, "text"),
            session_id=None if session is None else as_id(session, "session"),
            limit=as_count(limit, "limit"),
            offset=as_count(offset, "offset"),
        )
        return await cards_of(self._store, where, await self._names())

    async def card(self, card_id: str) -> Card:
        """A card by its id, or a quote by its turn, such as `s12#3`."""
        found = await about.card(self._store, as_id(card_id, "card"))
        return (await self._names()).shown(found)

    async def _names(self) -> Names:
        return await read_names(self._store, self.parts.language)

    async def source(self, card_id: str) -> Source:
        """The turns that support a card, with one turn around them, and its exact words cited."""
        found = await about.source(self._store, as_id(card_id, "card"))
        return (await self._names()).shown(found)

    async def session(self, session_id: str) -> Session:
        return await session_in(self._store, as_id(session_id, "session"))

    async def sessions(self) -> list[SessionRecord]:
        return [record for record in await self._store.sessions() if not record.is_note]

    async def notes(self, prefix: str = "") -> list[Note]:
        """The notes whose key begins with `prefix`, in order of their keys."""
        return await notes.list_notes(self._store, as_text(prefix, "prefix"), self._time())

    async def note_at(self, key: str) -> Note:
        """The note with that key. NotInMemory if there is none, or it has expired."""
        return await notes.get_note(self._store, key, self._time())

    async def waiting(self) -> list[Session]:
        """The pending and failed sessions."""
        records = await self._store.sessions()
        ids = [record.id for record in records if not record.state.finished]
        return list((await texts_of(self._store, ids)).values())

    async def quarantined(self, session_id: str) -> list[Quarantined]:
        """Cards of a session that no turn supports. They are never used as evidence."""
        found = await self._store.read([as_id(session_id, "session")])
        return [each for whole in found for each in whole.derived.quarantined]

    async def about(self, subject: str, *, limit: int = 100, offset: int = 0) -> About:
        """All cards about a subject or naming it, current ones first, and the turns that name it.
        Found by words, without a model."""
        subject = as_text(subject, "subject")
        limit, offset = as_count(limit, "limit"), as_count(offset, "offset")
        return await about.about(self._store, subject, await self._names(), limit, offset)

    async def history(
        self, subject: str | None = None, *, card: str | None = None, at: When = None
    ) -> list[HistoryEntry]:
        """What was true when, newest first: the cards of a subject, or a card with the cards that
        it replaced and that replaced it. Facts that begin after `at` are left out; default: now."""
        return await about.history(
            self._store,
            self.parts.language,
            subject=None if subject is None else as_text(subject, "subject"),
            card_id=None if card is None else as_id(card, "card"),
            on=self._time(at).date(),
        )

    # ------------------------------------------------------------ correct

    async def correct(
        self,
        card: str,
        *,
        fact: str | None = None,
        subject: str | None = None,
        event_date: str | None = None,
        status: str | None = None,
        kind: str | None = None,
    ) -> Card:
        """Replaces a card by a corrected one with the same source, and returns it. Its id changes
        with its words. `history(card=)` shows the old version. Remembering or rebuilding the
        session does not bring the error back. `undo` takes the correction back."""
        changes = {
            "fact": fact,
            "subject": subject,
            "event_date": event_date,
            "status": status,
            "kind": kind,
        }
        await self._bind()
        id = as_id(card, "card")
        made = await corrections.correct(self._store, self.parts, self._redaction, id, changes)
        return (await self._names()).shown(made)

    async def pin(self, card: str) -> Card:
        """Keeps a card in every recall that names its subject, until `unpin`."""
        return await self._pin(card, True)

    async def unpin(self, card: str) -> Card:
        return await self._pin(card, False)

    async def _pin(self, card: str, pinned: bool) -> Card:
        await self._bind()
        made = await corrections.pin(self._store, self.parts, as_id(card, "card"), pinned)
        return (await self._names()).shown(made)

    async def undo(self, card: str) -> Card:
        """Takes back the last correction, pin or unpin of a card, and returns the card before."""
        await self._bind()
        made = await corrections.undo(self._store, self.parts, as_id(card, "card"))
        return (await self._names()).shown(made)

    async def corrections(self, card: str | None = None) -> list[Correction]:
        """Every correction and pin of a card, or of all cards, in order: who, when and what."""
        known = list((await self._store.look()).corrections)
        return known if card is None else corrections_of(as_id(card, "card"), known)

    # ------------------------------------------------------------ forget

    @traced("delete_memory")
    async def forget(
        self,
        *,
        card: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        since: Day = None,
        until: Day = None,
        everything: bool = False,
        turns: bool | None = None,
        verify: bool = False,
    ) -> Forgotten:
        """Forgets one card, one turn (`s12#3`), one session, what was said in a period (both days
        included), a subject, a note by its `key`, or the whole space, on disk too. With a
        turn, its cards are forgotten too. With a subject, everything that `about` finds is
        forgotten, and unless `turns` is False the turns of its cards and the labels that name it.
        With a card, its turns are forgotten only if `turns` is True. Remembering the session again
        does not bring back a forgotten turn, card or label. NotInMemory if nothing matches.

        `verify` searches everywhere for the forgotten text and adds a certificate. NotForgotten
        if any of it is found."""
        target = Target(card, turn, session, subject, key, since, until, everything, turns)
        given = self._store, self.parts.language, target
        return await forget.forget(*given, self._time(), verify=as_flag(verify, "verify"))

    async def preview_forget(
        self,
        *,
        card: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        subject: str | None = None,
        key: str | None = None,
        since: Day = None,
        until: Day = None,
        everything: bool = False,
        turns: bool | None = None,
    ) -> Preview:
        """What `forget` would forget. Nothing changes."""
        target = Target(card, turn, session, subject, key, since, until, everything, turns)
        found = await forget.preview(self._store, self.parts.language, target)
        return (await self._names()).shown(found)

    async def expiring(self, *, at: When = None) -> Preview:
        """What `expire` would forget at that time; default: now. Nothing is forgotten yet."""
        return await forget.expiring(self._store, self.parts.retention, self._time(at))

    async def expire(self, *, at: When = None) -> Forgotten:
        """Forgets what is older than `retention` allows at that time, on disk too; default: now.
        Questions do not find it even before that."""
        return await forget.expire(self._store, self.parts.retention, self._time(at))

    # ------------------------------------------------------------ the whole space

    async def stats(self) -> Stats:
        return (await self._store.metadata()).stats

    async def check(self) -> Health:
        """Reads the whole space and lists what is damaged. Changes nothing."""
        return await self._store.check()

    async def backup(self, path: str | Path) -> None:
        """Writes the whole space to a new file, also while others write to it. The backup of an
        encrypted space has the same key. InvalidFile if the file exists."""
        await self._store.backup(as_path(path))

    async def reembed(self) -> int:
        """Makes all vectors again with the current embedder, and returns how many. Questions use
        the old vectors until the new ones are complete."""
        count = await vectors.reembed(self._store, self.parts)
        self._bound = True
        return count

    async def export(self, *, vectors: bool = False) -> AsyncGenerator[str]:
        """The whole memory as JSON Lines for `load`. With `vectors`, the vectors are included, so
        that `load` need not make them."""
        from justmem import transfer  # only this and `load` need it

        made, vectors = self.parts.clock().astimezone(UTC), as_flag(vectors, "vectors")
        async with aclosing(transfer.export(self._store, made=made, vectors=vectors)) as lines:
            async for line in lines:
                yield line

    async def load(self, file: str | Path, *, on_loaded: OnMoved | None = None) -> Loaded:
        """Imports an export of this or another store. The whole file is checked first: nothing is
        stored from a damaged, incomplete or too new file. Existing sessions are never replaced.
        After an interruption, load the file again: it continues where it stopped."""
        from justmem import transfer

        path = as_path(file)
        check_callable(on_loaded, "on_loaded")
        await self._bind()
        parts = self.parts.embedder, self.parts.language, self._redaction
        return await transfer.load(path, self._store, *parts, on_loaded)

    async def log(
        self,
        *,
        since: datetime | None = None,
        of: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Entry]:
        """The latest entries of the change log, in order: who did what and when. `of`: only those
        that name this card or session. `before`: only those before this entry number."""
        if since is not None and not isinstance(since, datetime):
            raise InputError(f"since must be a datetime, not {describe(since)}.")
        return await entries(
            self._store,
            since=since,
            of=None if of is None else as_id(of, "card or session"),
            before=None if before is None else as_count(before, "before"),
            limit=as_count(limit, "limit"),
        )

    async def check_log(self, *, last: str | None = None) -> Checked:
        """Whether every entry is unchanged and none is missing. `last` is the hash of an entry that
        you kept elsewhere. Without it, missing entries at the end are not noticed."""
        return await check(self._store, None if last is None else as_id(last, "entry"))
