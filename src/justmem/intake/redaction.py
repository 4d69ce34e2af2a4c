"""Redaction: removes secrets before anything is stored or sent to a model.

A hook is a function from text to text, synchronous or asynchronous. It gets every turn, every
speaker's name and every question. It must not change its own output, because turns that wait for
their cards pass it again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from justmem.domain import Session, Value
from justmem.errors import InvalidQuestion, InvalidSession, InvalidSetting
from justmem.intake.sessions import as_session, id_from_content

P = TypeVar("P", bound=Value)
Redact = Callable[[str], str | Awaitable[str]]

_NOTHING = "Nothing was kept or sent."


class Redaction:
    """Applies the hook. Without a hook, nothing is changed."""

    def __init__(self, hook: Redact | None = None) -> None:
        self._hook = hook

    async def session(
        self, session: Session, *, rename: bool = True
    ) -> tuple[Session, tuple[str, ...]]:
        """The redacted session, and a note for the receipt if anything was redacted. An id that
        was made from the words is made again from the redacted words, because it would reveal a
        hash of the others; `rename=False` keeps the id of a known session."""
        if self._hook is None:
            return session, ()
        given_id = session.id != id_from_content(session)
        names = list(dict.fromkeys(turn.speaker for turn in session.turns))
        said = [turn.text for turn in session.turns]
        passed = await self._passed([*names, *said, *([session.id] if given_id else ())])
        if given_id and passed[-1] != session.id:
            raise InvalidSession(
                "The session's id contains text that must be redacted: give the session another "
                f"id. {_NOTHING}"
            )
        speakers = dict(zip(names, passed[: len(names)], strict=True))
        texts = passed[len(names) : len(names) + len(said)]
        turns = tuple(
            turn.model_copy(update={"speaker": speakers[turn.speaker], "text": text})
            for turn, text in zip(session.turns, texts, strict=True)
        )
        changed = sum(old != new for old, new in zip(session.turns, turns, strict=True))
        left = as_session(session.model_copy(update={"turns": turns}))
        if rename and not given_id:
            left = left.model_copy(update={"id": id_from_content(left)})
        notes = (f"{changed} of {len(turns)} turns were redacted",) if changed else ()
        return left, notes

    @property
    def active(self) -> bool:
        return self._hook is not None

    async def passes(self, texts: Sequence[str]) -> bool:
        """Whether the hook leaves all of them as they are."""
        return await self._passed(texts) == list(texts)

    async def question(self, text: str) -> str:
        left = await self.name(text)
        if not left.strip():
            raise InvalidQuestion("The question is empty after redaction: ask in other words.")
        return left

    async def name(self, speaker: str) -> str:
        (left,) = await self._passed([speaker])
        return left

    async def plan(self, plan: P) -> P:
        """The caller's plan, redacted."""
        passed = {
            name: tuple(filter(None, [await self.name(text) for text in texts]))
            for name in ("rewrites", "entities")
            if (texts := getattr(plan, name)) is not None
        }
        return plan.model_copy(update=passed)

    async def _passed(self, texts: Sequence[str]) -> list[str]:
        hook = self._hook
        if hook is None:
            return list(texts)
        try:
            # In a thread: a hook may run a model of its own.
            found = await asyncio.to_thread(lambda: [hook(text) for text in texts])
            left = [await each if inspect.isawaitable(each) else each for each in found]
        except Exception as error:  # noqa: BLE001  its message may contain the secret
            raise InvalidSetting(
                f"The redaction hook failed with {type(error).__name__}: correct the setting "
                f"redact. {_NOTHING}"
            ) from None
        for each in left:
            if not isinstance(each, str):
                raise InvalidSetting(
                    f"The redaction hook returned a {type(each).__name__}, not a string: correct "
                    f"the setting redact. {_NOTHING}"
                )
        return left
