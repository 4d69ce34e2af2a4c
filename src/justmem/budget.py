"""Counted model calls, receipts, and the ledger of the tokens that a space spends each day.

The provider's count is used if it is plausible, even if it is more than the limit: then a note says
so, and the next call has less left. Any other count is replaced by our own. A call that was
interrupted may still be billed, so it counts with its longest reply.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Call, Receipt, Usage
from justmem.errors import JustMemError, ModelError, ModelNonsense
from justmem.ports import Completion, Embedder, LanguageModel, Prompt, Reranker, Store, Vectors
from justmem.runtime import tokens

Scores = NDArray[np.float32]

_UNLIMITED = 50_000  # tokens of the daily limit reserved for work without a limit of its own


@dataclass
class Tally:
    """Collects the costs of a piece of work for its receipt."""

    calls: list[Call] = field(default_factory=list)
    embedding: list[Usage] = field(default_factory=list)
    reranking: list[Usage] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    history_tokens: int = 0
    abandoned: bool = False  # nobody knows what it cost: the whole reservation counts

    @contextmanager
    def stage(self, stage: str) -> Iterator[None]:
        """Times what is done inside, and counts what was spent even if it fails."""
        start = time.perf_counter()
        try:
            yield
        except BaseException as error:
            self.calls += getattr(error, "calls", ())
            if isinstance(error, JustMemError):
                error.calls = tuple(self.calls)
            raise
        finally:
            spent = time.perf_counter() - start
            self.seconds[stage] = round(self.seconds.get(stage, 0.0) + spent, 6)

    async def embed(
        self, embedder: Embedder, texts: Sequence[str], *, query: bool = False
    ) -> Vectors:
        """The vectors of the texts. Enters the work."""
        start = time.perf_counter()
        embedded = await embedder.embed(texts, query=query)
        self.embedding.append(_usage(embedder.name, len(texts), embedded.tokens, start))
        _check(embedded.vectors, (len(texts), embedder.dim), f"The embedder {embedder.name!r}")
        return embedded.vectors

    async def rerank(self, reranker: Reranker, query: str, texts: Sequence[str]) -> Scores:
        """The reranker's score of each text. Enters the work."""
        start = time.perf_counter()
        read = await reranker.rerank(query, texts)
        self.reranking.append(_usage(reranker.name, len(texts), read.tokens, start))
        _check(read.scores, (len(texts),), f"The reranker {reranker.name!r}")
        return read.scores

    @property
    def counted(self) -> int:
        return sum(call.counted for call in self.calls)

    def left(self, limit: int | None) -> int | None:
        return None if limit is None else limit - self.counted

    def receipt(self) -> Receipt:
        return Receipt(
            calls=tuple(self.calls),
            embedding=tuple(self.embedding),
            reranking=tuple(self.reranking),
            seconds=dict(self.seconds),
            history_tokens=self.history_tokens,
            notes=tuple(self.notes),
        )


def _check(numbers: NDArray[np.float32], shape: tuple[int, ...], who: str) -> None:
    """ModelNonsense unless a model's numbers have this shape and are finite."""
    if numbers.shape != shape and (numbers.size or shape[0]):
        raise ModelNonsense(
            f"{who} returned numbers of shape {numbers.shape}, but {shape} is expected: check its "
            "dimension, or use another model."
        )
    if not np.isfinite(numbers).all():
        raise ModelNonsense(f"{who} returned NaN or infinity: try again, or use another model.")


def _usage(model: str, items: int, tokens: int, start: float) -> Usage:
    seconds = round(time.perf_counter() - start, 6)
    return Usage(model=model, items=items, tokens=tokens, seconds=seconds)


class Ledger:
    """The tokens that a space spends each day. They are in its store, so that the daily limit holds
    over all processes. `clock` tells the day."""

    def __init__(self, store: Store, day_tokens: int | None, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._day_tokens = day_tokens
        self._clock = clock
        self._held = 0  # reservations of this process
        self._released = asyncio.Condition()

    @asynccontextmanager
    async def allow(
        self, own: int | None, tally: Tally, *, session: str | None = None
    ) -> AsyncIterator[int | None]:
        """The tokens that the work inside may spend: its own limit or the rest of the day,
        whichever is less. They are reserved while the work runs. Afterwards the tokens that were
        spent are entered instead, also for `session`. If the process is killed, the reserved
        tokens count for that day."""
        day = self._clock().date()
        held, limit = 0, own
        if self._day_tokens is not None:
            held = await self._hold(day, self._day_tokens, _UNLIMITED if own is None else own)
            limit = held
            if own is not None and held < own:
                tally.notes.append(f"the daily limit left {held} of {own} tokens")
        try:
            yield limit
        finally:
            spent = tally.counted
            if tally.abandoned and limit is not None:
                spent = max(spent, limit)
            if spent or held:
                entry = asyncio.create_task(self._enter(day, spent, held, session))
                try:
                    await asyncio.shield(entry)
                except asyncio.CancelledError:  # finish the entry first
                    await asyncio.wait({entry})
                    raise

    async def _enter(self, day: date, spent: int, held: int, session: str | None) -> None:
        try:
            await self._store.spend(day, spent, reserve=-held, session=session)
        finally:
            async with self._released:
                self._held -= held
                self._released.notify_all()

    async def _hold(self, day: date, day_tokens: int, wish: int) -> int:
        """Reserves what is left of the day. Other work of this process will release most of its
        reservation: while there is some, waits until the whole wish can be reserved."""
        async with self._released:
            while True:
                least = wish if self._held else 0
                work = self._store.spend(day, reserve=wish, limit=day_tokens, least=least)
                reserving = asyncio.ensure_future(work)
                try:
                    held = await asyncio.shield(reserving)
                except asyncio.CancelledError:
                    await self._store.spend(day, reserve=-await reserving)
                    raise
                if held == wish or not self._held:
                    self._held += held
                    return held
                await self._released.wait()


_LEAST_SHARE = 0.5  # a reported count below this share of our own is replaced by our own
_MOST_OUT = 10_000_000
_CHARACTERS_PER_TOKEN = 16  # no text has more
_LEAST_LENGTH = 20_000  # characters that a reply may have in any case


async def complete(model: LanguageModel, prompt: Prompt, notes: list[str]) -> Completion:
    """One counted call. Unusual costs are added to `notes`. An error carries the call."""
    try:
        completion = await model.complete(prompt)
    except ModelError as error:
        error.calls = tuple(check_usage(call, prompt, None, notes) for call in error.calls)
        raise
    except JustMemError:
        raise
    except BaseException as error:  # a cancellation, or an error of another library
        _attach(error, after=[_broken_off(model, prompt, error)])
        raise
    longest = max(_LEAST_LENGTH, _CHARACTERS_PER_TOKEN * prompt.max_tokens)
    text = completion.text[:longest]
    call = check_usage(completion.call, prompt, text, notes)
    if len(completion.text) > longest:
        raise ModelNonsense(
            f"The model's reply to the {prompt.stage} call is longer than {longest:,} characters, "
            f"where {prompt.max_tokens:,} tokens were allowed: it was not read. Try again, or use "
            "another model.",
            call,
        )
    if prompt.limit is not None and call.counted > prompt.limit:
        notes.append(
            f"the {prompt.stage} call used {call.counted} tokens, {prompt.limit} were allowed"
        )
    return dataclasses.replace(completion, call=call)


def _broken_off(model: LanguageModel, prompt: Prompt, error: BaseException) -> Call:
    return Call(
        stage=prompt.stage,
        model=model.name,
        tokens_in=prompt.tokens,
        tokens_out=0,
        undelivered=prompt.max_tokens,
        estimated=True,
        error=f"broken off ({type(error).__name__})",
    )


@contextmanager
def carrying(calls: Sequence[Call]) -> Iterator[None]:
    """An error raised inside also carries the calls made before."""
    try:
        yield
    except BaseException as error:
        _attach(error, before=calls)
        raise


def _attach(error: BaseException, before: Sequence[Call] = (), after: Sequence[Call] = ()) -> None:
    error.calls = (*before, *getattr(error, "calls", ()), *after)  # type: ignore[attr-defined]


def check_usage(call: Call, prompt: Prompt, text: str | None, notes: list[str]) -> Call:
    """The call with plausible counts. `text` is the reply, if there is one."""
    own_in = tokens.count(prompt.system) + tokens.count(prompt.user)  # not all bill the schema
    own_out = 0 if text is None else tokens.count(text)
    size = len(prompt.system) + len(prompt.user) + len(str(prompt.schema))
    most_in = (20_000 + 8 * size) * max(1, call.attempts)
    tokens_in = plausible(call.tokens_in, own_in if text is not None else 0, most_in)
    tokens_out = plausible(call.tokens_out, own_out, _MOST_OUT)
    replaced = tokens_in is None or tokens_out is None
    if replaced:
        notes.append(f"impossible usage reported for the {prompt.stage} call: counted here")
    return call.model_copy(
        update={
            "tokens_in": prompt.tokens if tokens_in is None else tokens_in,
            "tokens_out": own_out if tokens_out is None else tokens_out,
            "undelivered": plausible(call.undelivered, 0, _MOST_OUT) or 0,
            "estimated": call.estimated or replaced,
        }
    )


def plausible(reported: Any, own: int, most: int) -> int | None:
    """The reported count, if it can be right for what we count as `own`."""
    if not isinstance(reported, int) or isinstance(reported, bool):
        return None
    return reported if own * _LEAST_SHARE <= reported <= most else None
