"""AsyncMemory: the method of the paper, top to bottom.

remember(session)                     ask(question)
  keep     the raw turns, first         plan      what evidence does it need?
  extract  atomic cards                 discover  question and rewrites -> candidates
  embed    cards and passages           select    the best cards within the budget
  settle   in one transaction           recover   REPLAY only: the original turns
                                        answer    from that evidence only
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from justmem import embed
from justmem.ask import Asker, GivenPlan, Step
from justmem.budget.ledger import Ledger
from justmem.build import Builder, OnDone, run_each
from justmem.domain import (
    KINDS,
    STATUSES,
    About,
    Answer,
    Card,
    Checked,
    Correction,
    Entry,
    Evidence,
    Expiring,
    Forgotten,
    Health,
    HistoryEntry,
    Loaded,
    Note,
    Preview,
    Quarantined,
    Remembered,
    Session,
    SessionRecord,
    Source,
    Stats,
    SubjectProfile,
    corrections_of,
)
from justmem.edits import corrections, notes
from justmem.edits.change_log import check, entries
from justmem.errors import InputError, InvalidSession
from justmem.forget import expiry
from justmem.forget.targets import Forgetting, Target
from justmem.intake.filters import as_filter
from justmem.intake.redaction import Redaction
from justmem.intake.sessions import SessionLike, as_session, as_time, id_from_content
from justmem.parts import Parts
from justmem.ports import (
    Author,
    CardFilter,
    Closes,
    Extractor,
    Store,
    session_in,
)
from justmem.runtime.forks import Origin
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
from justmem.subjects import about, card_source, history
from justmem.subjects.user_name import Names, cards_of, names

if TYPE_CHECKING:
    from justmem.transfer import OnMoved

When = datetime | str | None
Day = date | str | None


class AsyncMemory:
    """The memory of one space. Make one with `justmem.open_async`, or from parts of your own.
    `closing` are parts to close with the memory, besides its store."""

    def __init__(self, store: Store, parts: Parts, closing: Sequence[Closes] = ()) -> None:
        store.author = Author(parts.actor, parts.clock, parts.log_reads)
        self.parts = parts
        self.ledger = Ledger(store, parts.budget.day_tokens, parts.clock)
        self._store = store
        self._redaction = Redaction(parts.redact)
        self._builder = Builder(store, parts, self._redaction, self.ledger)
        self._asker = Asker(store, parts, self._redaction, self.ledger)
        self._forgetting = Forgetting(store, parts.clock, parts.language)
        self._closing = closing
        self._origin = Origin()
        self._bound = False  # whether the store is known to hold vectors of the embedder

    @property
    def space(self) -> str:
        return self._store.space

    # ------------------------------------------------------------ remember

    @traced("upsert_memory")
    async def remember(
        self, session: SessionLike, *, at: When = None, id: str | None = None
    ) -> Remembered:
        """Stores the session's words, then makes its cards. A session is a text, a list of
        messages or a mapping with `turns`. An unchanged session costs nothing. A changed one
        replaces the old one and its cards. `at` is when it took place; default: the session's own
        time, else now.

        If a model fails, the words are kept, the result says `failed` and why, and `retry` tries
        again."""
        given, notes = await self._given(session, at, id)
        await self._bind()
        return await self._builder.remember(given, notes)

    async def keep(
        self, session: SessionLike, *, at: When = None, id: str | None = None
    ) -> Remembered:
        """Stores the session's words and leaves its cards to a later `remember` or `retry`."""
        given, notes = await self._given(session, at, id)
        await self._bind()
        return await self._builder.keep(given, notes)

    @traced("upsert_memory")
    async def append(
        self, turns: SessionLike, *, id: str, at: When = None, cards: bool = True
    ) -> Remembered:
        """Adds turns to a session and makes cards of them. Only the new turns cost extraction;
        earlier ones are context. A turn with a `key` that the session has already is left out.
        `at` is when the turns were said, if they do not say so themselves; default: now. With
        `cards=False` only the words are kept, and `retry` makes the cards."""
        session_id, cards = as_id(id, "session").strip(), as_flag(cards, "cards")
        if not session_id:
            raise InvalidSession("append needs the id of a session, and this one is empty.")
        session = as_session(turns, at=self._time(at), id=session_id)
        given, notes = await self._redaction.session(session, rename=False)
        await self._bind()
        return await self._builder.append(given, notes, cards=cards)

    async def remember_many(
        self, sessions: Iterable[SessionLike], *, on_done: OnDone | None = None
    ) -> list[Remembered]:
        """Several at once, as many as `concurrency` allows. Results in the order given."""
        if isinstance(sessions, str) or not isinstance(sessions, Iterable):
            raise InvalidSession(f"remember_many takes several sessions, not {describe(sessions)}.")
        given = [await self._given(session) for session in sessions]
        texts = {(session.id, session.digest) for session, _ in given}
        if twice := [id for id, n in Counter(id for id, _ in texts).items() if n > 1]:
            raise InvalidSession(
                f"Different sessions share the id {twice[0]!r}: the later would replace the "
                "earlier. Give each session an id of its own. Nothing was stored."
            )
        await self._bind()
        return await run_each(given, lambda each: self._builder.remember(*each), on_done)

    async def note(
        self,
        text: str,
        *,
        key: str | None = None,
        value: Any = None,
        at: When = None,
        until: When = None,
        labels: Mapping[str, str] | None = None,
    ) -> Card:
        """Stores a card exactly as given, without extraction. A note with the same `key` is
        replaced; without a key, one is made from the text. `value` is anything that JSON can
        hold, or JSON as bytes, which stays as it is. The note expires at `until`. `at` is when it
        holds from, by default now."""
        when = self._time(at)
        now = self._time()
        note = notes.as_note(
            text, key=key, value=value, at=when, until=until, labels=labels, now=now
        )
        given, changed = await self._redaction.session(note, rename=False)
        notes.check_redacted(given)
        await self._bind()
        await self._builder.remember(given, changed)
        return notes.extraction(given).cards[0]

    async def notes(self, prefix: str = "") -> list[Note]:
        """The notes whose key begins with `prefix`, in order of their keys."""
        return await notes.list_notes(self._store, as_text(prefix, "prefix"), self._time())

    async def note_at(self, key: str) -> Note:
        """The note with that key. NotInMemory if there is none, or it has expired."""
        return await notes.get_note(self._store, key, self._time())

    async def retry(self, *, on_done: OnDone | None = None) -> list[Remembered]:
        """Makes the cards of every session that is pending or failed."""
        await self._bind()
        ids = [session.id for session in await self.waiting()]
        return await self._builder.finish_each(ids, on_done)

    async def finish(self, session_id: str) -> Remembered:
        """Makes the cards of a session that is pending or failed. Turns that others append
        meanwhile are kept."""
        await self._bind()
        return await self._builder.finish(as_id(session_id, "session"))

    async def rebuild(
        self,
        session: str | None = None,
        *,
        extractor: Extractor | None = None,
        on_done: OnDone | None = None,
    ) -> list[Remembered]:
        """Makes the cards of a session, or of all, again: with another extractor, or with the one
        that there is. Corrections and pins stay. The old cards serve until the new ones are made.
        After an interruption or a failure, call it again: it continues with what is left."""
        if extractor is not None and not callable(getattr(extractor, "extract", None)):
            raise InputError(f"extractor needs a method `extract`; {describe(extractor)} has none.")
        check_callable(on_done, "on_done")
        builder = self._builder if extractor is None else self._builder.using(extractor)
        one = None if session is None else as_id(session, "session")
        await self._bind()
        return await builder.finish_each(await self._store.rebuild(one), on_done)

    async def _given(
        self, value: SessionLike, at: When = None, id: str | None = None
    ) -> tuple[Session, tuple[str, ...]]:
        """The session as it may be stored, and notes for the receipt. One without a time takes
        place now, unless it is known by its id: then it keeps its time."""
        now = self._time()
        session = as_session(value, at=at, id=id, otherwise=now)
        if at is None and session.at == now and session.id != id_from_content(session):
            known = await self._store.texts([session.id], newest=True)
            if session.id in known:
                session = session.model_copy(update={"at": known[session.id].at})
        return await self._redaction.session(session)

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

    # ------------------------------------------------------------ ask

    @traced("search_memory")
    async def recall(
        self,
        question: str,
        *,
        at: When = None,
        speaker: str | None = None,
        plan: GivenPlan = None,
        limit: int | None = None,
        labels: Mapping[str, str] | None = None,
        sessions: Iterable[str] | None = None,
        since: Day = None,
        until: Day = None,
        as_of: Day = None,
    ) -> Evidence:
        """The evidence for a question, or for a remark to reply to, without the answer call.

        `at` is when it is asked; default: now. "Last week" counts from there, and later sessions
        are left out. `speaker` is who asks: "my" is theirs. Default: the one person whom most
        cards are about, if there is one. `plan` is a Plan, or a mapping with some of its parts,
        such as `{"rewrites": ["Mira adopted a dog"], "period": "2023-05"}`. Rules fill in the
        rest, without a model.

        The rest are filters. `limit`: at most so many cards. `labels`: only sessions and notes
        that have all of them. `sessions`: only these ids. `since` and `until`: only what was said
        on these days and between them. `as_of`: memory as it was on that day."""
        where = await as_filter(self._store, limit, labels, sessions, since, until, as_of)
        await self._bind()
        return await self._asker.recall(question, self._time(at), speaker, plan, where)

    @traced("search_memory")
    async def ask(
        self, question: str, *, at: When = None, speaker: str | None = None, plan: GivenPlan = None
    ) -> Answer:
        """An answer from memory alone, with the exact words it rests on. `at`, `speaker` and
        `plan` as for `recall`. A remark that asks nothing gets a reply that uses what is
        remembered."""
        await self._bind()
        return await self._asker.ask(question, self._time(at), speaker, plan)

    async def answer(self, evidence: Evidence) -> Answer:
        """The answer call alone, from what `recall` returned. `ask` is both together. The receipt
        counts the answer call and not what `recall` spent."""
        if not isinstance(evidence, Evidence):
            raise InputError(f"evidence is what `recall` returned, not {describe(evidence)}.")
        await self._bind()
        return await self._asker.answer(evidence)

    async def follow(
        self, question: str, *, at: When = None, speaker: str | None = None, plan: GivenPlan = None
    ) -> AsyncGenerator[Step]:
        """`ask`, step by step: the plan, the evidence, pieces of the text as the model writes
        them, and the answer. Only the answer is checked and cited."""
        await self._bind()
        steps = self._asker.steps(question, self._time(at), speaker, plan, streaming=True)
        async with aclosing(steps):
            async for step in steps:
                yield step

    # ------------------------------------------------------------ read and forget

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
        found = await card_source.card(self._store, as_id(card_id, "card"))
        return (await self._names()).card(found)

    async def _names(self) -> Names:
        return await names(self._store, self.parts.language)

    async def source(self, card_id: str) -> Source:
        """The turns a card rests on, with one turn around them, and its exact words cited."""
        found = await card_source.source(self._store, as_id(card_id, "card"))
        return (await self._names()).source(found)

    async def session(self, session_id: str) -> Session:
        return await session_in(self._store, as_id(session_id, "session"))

    async def sessions(self) -> list[SessionRecord]:
        return [record for record in await self._store.sessions() if not record.is_note]

    async def waiting(self) -> list[Session]:
        """The sessions that `retry` would take up, each with its newest text."""
        records = await self._store.sessions()
        ids = [record.id for record in records if not record.state.settled]
        return list((await self._store.texts(ids, newest=True)).values())

    async def quarantined(self, session_id: str) -> list[Quarantined]:
        """Cards of a session that no turn supports. They are never used as evidence."""
        found = await self._store.wholes([as_id(session_id, "session")])
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
        """What was true when, newest first: the cards of a subject, or a card with those that it
        replaced and that replaced it. What begins after `at` is left out; default: now."""
        return await history.history(
            self._store,
            self.parts.language,
            subject=None if subject is None else as_text(subject, "subject"),
            card_id=None if card is None else as_id(card, "card"),
            on=self._time(at).date(),
        )

    async def profile(
        self,
        subject: str | None = None,
        *,
        tokens: int = 400,
        at: When = None,
        prose: bool = False,
    ) -> SubjectProfile:
        """Short sourced lines about a person, what holds now first, without a model. Default: the
        person whom most cards are about. With `prose`, one call of the answering model writes the
        lines out as a text."""
        who = None if subject is None else as_text(subject, "subject")
        when, limit = self._time(at), as_count(tokens, "tokens")
        found = await history.profile(self._store, self.parts.language, who, when.date(), limit)
        if not as_flag(prose, "prose"):
            return found
        return await self._asker.write_profile(found, when)

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
        return (await self._names()).card(made)

    async def pin(self, card: str) -> Card:
        """Keeps a card in every recall that names its subject, until `unpin`."""
        return await self._pin(card, True)

    async def unpin(self, card: str) -> Card:
        return await self._pin(card, False)

    async def _pin(self, card: str, pinned: bool) -> Card:
        await self._bind()
        made = await corrections.pin(self._store, self.parts, as_id(card, "card"), pinned)
        return (await self._names()).card(made)

    async def undo(self, card: str) -> Card:
        """Takes back the last correction, pin or unpin of a card, and returns the card before."""
        await self._bind()
        made = await corrections.undo(self._store, self.parts, as_id(card, "card"))
        return (await self._names()).card(made)

    async def corrections(self, card: str | None = None) -> list[Correction]:
        """Every correction and pin of a card, or of all cards, in order: who, when and what."""
        known = list(await self._store.corrections())
        return known if card is None else corrections_of(as_id(card, "card"), known)

    async def stats(self) -> Stats:
        return await self._store.stats()

    async def check(self) -> Health:
        """Reads the whole space and lists what is damaged. Changes nothing."""
        return await self._store.check()

    async def backup(self, path: str | Path) -> None:
        """Writes the whole space to a new file, also while others write to it. The backup of an
        encrypted space has the same key. InvalidFile if the file exists."""
        await self._store.backup(as_path(path))

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
        """Forgets one card, one turn (`s12#3`), one session, the sessions of a period (both days
        included), a subject, a note by its `key`, or the whole space, on disk too. A turn takes
        the cards that rest on it. A subject takes all that `about` finds and the turns of its
        cards, unless `turns` is False. A card takes its turns only if `turns` is True. Remembering
        the session again does not bring back a forgotten turn or card.

        `verify` searches everywhere for the forgotten text and adds a certificate. NotForgotten
        if anything of it is left."""
        what = Target(card, turn, session, subject, since, until, everything, turns, key)
        return await self._forgetting.forget(what, verify=as_flag(verify, "verify"))

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
        what = Target(card, turn, session, subject, since, until, everything, turns, key)
        preview = await self._forgetting.preview(what)
        shown = (await self._names()).cards(preview.cards)
        return preview.model_copy(update={"cards": tuple(shown)})

    async def expiring(self, *, at: When = None) -> Expiring:
        """What `expire` would forget at that time; default: now. Nothing is forgotten yet."""
        return await expiry.expiring(self._store, self.parts.retention, self._time(at))

    async def expire(self, *, at: When = None) -> Forgotten:
        """Forgets what is older than `retention` allows at that time, on disk too; default: now.
        Questions do not find it even before."""
        when, retention = self._time(at), self.parts.retention
        return await expiry.expire(self._store, retention, when, self._forgetting.expire)

    async def reembed(self) -> int:
        """Makes all vectors again with the current embedder, and returns how many. Questions use
        the old vectors until the new ones are complete."""
        count = await embed.reembed(self._store, self.parts)
        self._bound = True
        return count

    # ------------------------------------------------------------ export and log

    async def export(self, *, vectors: bool = False) -> AsyncGenerator[str]:
        """All of the memory as JSON Lines, which `load` takes. `vectors` adds the vectors, so that
        loading need not embed."""
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
            raise InputError(f"since is a datetime, not {describe(since)}.")
        return await entries(
            self._store,
            since=since,
            of=None if of is None else as_id(of, "card or session"),
            before=None if before is None else as_count(before, "before"),
            limit=as_count(limit, "limit"),
        )

    async def check_log(self, *, last: str | None = None) -> Checked:
        """Whether every entry is unchanged and none is missing. `last` is the hash of an entry that
        you kept elsewhere. Without it, entries missing at the end cannot be noticed."""
        return await check(self._store, None if last is None else as_id(last, "entry"))

    async def close(self) -> None:
        """Closes the store, and the models if this memory was made with them. A forked process
        leaves them to the one that opened them."""
        if not self._origin.here:
            return
        await self._store.close()
        for part in self._closing:
            await part.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
