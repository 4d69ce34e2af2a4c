"""No call sequence passes its limit: per ask, per session, per day.

A case is a random budget, a random history and a handful of random actions: remembering, asking,
asking at once, retrying, walking away in the middle, being cancelled, losing the entry as a kill
would, starting again, in one process or two. The model answers, fails, or lies about its usage.
Whenever it is called the test, with books of its own, checks that the call at its longest still
fits every limit, with all that is under way elsewhere.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from justmem import AsyncMemory, Budget
from justmem.answer import ModelAnswerer
from justmem.domain import Call, Receipt, Session, Turn
from justmem.errors import BudgetExceeded, JustMemError, ModelUnavailable, StoreFull
from justmem.extract.model import ModelExtractor
from justmem.language.languages import LANGUAGES
from justmem.plan import ModelPlanner
from justmem.ports import Completion, Prompt
from justmem.runtime import tokens
from justmem.store.sqlite import open_store
from justmem.store.store import SqlStore
from justmem.testing import HashEmbedder
from stores import spent, waiting

PROMISE = "No sequence of calls spends more than its limit per question, per session or per day."
COUNT = 3_000
SAMPLE = 60

_PER_SPACE = 50  # cases that share a file, each on a day of its own
_FIRST_DAY = date(2024, 1, 1)
_work: ContextVar[str] = ContextVar("work")
_excess_before: ContextVar[int] = ContextVar("excess_before")

_TALK = """
bike river piano garden Kyoto knee marathon soup letter window winter train blue seven coffee
teacher Porto kitten library guitar bread mountain summer phone doctor market museum
"""
WORDS = _TALK.split()


def run(count: int) -> str:
    made: Counter[str] = Counter()
    for first in range(0, count, _PER_SPACE):
        seeds = range(first, min(first + _PER_SPACE, count))
        made += asyncio.run(_space(seeds))
    return (
        f"{count:,} cases, {made['calls']:,} calls ({made['lies']:,} with false usage, "
        f"{made['failed']:,} failed), {made['refused']:,} refused, none over its limit"
    )


def _folder() -> str | None:
    """In memory where there is such a place: what is tested is not the disk."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


async def _space(seeds: range) -> Counter[str]:
    made: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        stores = [await open_store(Path(folder), "ana") for _ in range(2)]
        for seed in seeds:
            case = Case(seed, stores, Path(folder))
            try:
                await case.run()
            except AssertionError as error:
                raise AssertionError(f"{error} (seed {seed})") from error
            made += case.made
        for store in case.stores:
            await store.close()
    return made


# ---------------------------------------------------------------- books of the test's own


@dataclasses.dataclass
class Books:
    """What each piece of work was billed, and what is under way."""

    budget: Budget
    billed: Counter[str] = dataclasses.field(default_factory=Counter)  # by ask or session's text
    day: int = 0
    under_way: int = 0
    excess: int = 0  # what providers took beyond what was allowed

    @property
    def overrun(self) -> bool:
        return self.excess > 0

    def open(self, work: str, most: int) -> None:
        own = self.budget.session_tokens if work.startswith("s") else self.budget.ask_tokens
        if own is not None:
            so_far = self.billed[work]
            assert so_far + most <= own, f"{work}: {so_far} + {most} of {own}"
        if self.budget.day_tokens is not None:
            # Work that had its share set aside before another's provider took more than was
            # allowed keeps that share.
            so_far = self.day + self.under_way - (self.excess - _excess_before.get())
            assert so_far + most <= self.budget.day_tokens, (
                f"day: {so_far} + {most} of {self.budget.day_tokens}"
            )
        self.under_way += most

    def close(self, work: str, most: int, bill: int) -> None:
        self.under_way -= most
        self.billed[work] += bill
        self.day += bill
        self.excess += max(0, bill - most)


class Provider:
    """A language model that may answer, fail, be slow, and lie about its usage."""

    name = "provider"
    context = 4000

    def __init__(self, rng: random.Random, books: Books, made: Counter[str]) -> None:
        self._rng = rng
        self._books = books
        self._made = made
        self.liar = rng.random() < 0.5
        self.fails = rng.choice([0.0, 0.0, 0.15, 0.6])

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        async with aclosing(self._answered(prompt)) as pieces:
            *_, last = [piece async for piece in pieces]
        assert isinstance(last, Completion)
        return last

    async def stream(self, prompt: Prompt, *, sample: int = 0) -> AsyncGenerator[str | Completion]:
        async with aclosing(self._answered(prompt)) as pieces:
            async for piece in pieces:
                yield piece

    async def _answered(self, prompt: Prompt) -> AsyncGenerator[str | Completion]:
        work, most = _key(prompt), prompt.tokens + prompt.max_tokens
        self._made["calls"] += 1
        self._books.open(work, most)
        bill = most  # broken off, whatever breaks it: it may be billed at its longest
        try:
            for _ in range(self._rng.randrange(4)):
                await asyncio.sleep(0)
            if self._rng.random() < self.fails:
                self._made["failed"] += 1
                error, bill = self._failure(prompt)
                raise error
            text = self._text(prompt)
            half = len(text) // 2
            yield text[:half]
            await asyncio.sleep(0)
            yield text[half:]
            call, bill = self._usage(prompt, text)
            truncated = self._rng.random() < 0.1
            yield Completion(text, call, truncated)
        finally:
            self._books.close(work, most, bill)

    def _failure(self, prompt: Prompt) -> tuple[Exception, int]:
        sent = prompt.tokens
        match self._rng.randrange(3):
            case 0:  # a bug in it: nobody can say what it cost
                return RuntimeError("not ours"), sent + prompt.max_tokens
            case 1:  # it never got there
                return ModelUnavailable("Away."), 0
            case _:  # as often as another attempt fits, each of which may be billed at its longest
                room = prompt.limit or 10**6
                attempts = min(self._rng.randint(1, 3), room // (sent + prompt.max_tokens))
                call = self._call(prompt, sent * attempts, 0, attempts=attempts, error="Away.")
                call = call.model_copy(update={"undelivered": prompt.max_tokens * attempts})
                return ModelUnavailable("Away.", call), call.counted

    def _text(self, prompt: Prompt) -> str:
        rng = self._rng
        if rng.random() < 0.1:
            return rng.choice(["nonsense", '{"cards": ["User | is', "{}", "null", '{"answer": "x'])
        if prompt.stage == "extract":
            said = ["likes " + " ".join(rng.sample(WORDS, 3)) for _ in range(rng.randint(0, 3))]
            rows = [f"User | {fact} | unknown | stable | fact | 1" for fact in said]
            text = json.dumps({"cards": rows})
        elif prompt.stage == "plan":
            text = json.dumps(
                {
                    "op": rng.choice(["lookup", "aggregate", "quote"]),
                    "period": "",
                    "spans": rng.random() < 0.4,
                    "source": rng.random() < 0.4,
                    "rewrites": [" ".join(rng.sample(WORDS, 3))],
                }
            )
        else:
            text = json.dumps({"answer": "blue", "used": ["1"], "sufficient": rng.random() < 0.9})
        return text if tokens.count(text) <= prompt.max_tokens else "{}"

    def _usage(self, prompt: Prompt, text: str) -> tuple[Call, int]:
        """The call as it is reported, and what it has to be entered with."""
        sent, written = prompt.tokens, tokens.count(text)
        if self._rng.random() < 0.3:  # as long as it may be: thoughts, say
            written = prompt.max_tokens
        if not self.liar or self._rng.random() < 0.4:
            shorter = self._rng.randint(0, min(30, sent // 2))
            return self._call(prompt, sent - shorter, written), sent - shorter + written
        self._made["lies"] += 1
        own = sent + tokens.count(text)
        match self._rng.randrange(6):
            case 0:  # more than was sent and allowed, and not beyond belief
                more = self._rng.randint(1, 3 * sent)
                return self._call(prompt, sent + more, written), sent + more + written
            case 1:  # fewer, as another tokenizer may count
                least = (tokens.count(prompt.system) + tokens.count(prompt.user) + 1) // 2
                if self._rng.random() < 0.5:  # too few to be believed
                    return self._call(prompt, least - 1, written), sent + written
                return self._call(prompt, least, written), least + written
            case 2:
                return self._call(prompt, -sent, -written), own
            case 3:
                return self._call(prompt, 10**15, 10**15), own
            case 4:
                return self._call(prompt, None, None), own
            case _:
                return self._call(prompt, 0, 0), own

    def _call(self, prompt: Prompt, tokens_in: Any, tokens_out: Any, **known: Any) -> Call:
        return Call.model_construct(
            stage=prompt.stage,
            model=self.name,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            undelivered=0,
            **{
                "attempts": 1,
                "error": "",
                "estimated": False,
                "cached": 0,
                "seconds": 0.0,
                **known,
            },
        )


def _key(prompt: Prompt) -> str:
    """Whose cost it is: that of an ask, or of the one text that its session holds."""
    if prompt.stage != "extract":
        return _work.get()
    return "s" + prompt.user.partition("text-")[2].partition(" ")[0]


class Leaky:
    """A store that may lose the entry of what was spent, as a kill before it would. The day then
    keeps all that was set aside; a session's own limit cannot know of it and begins anew."""

    def __init__(self, store: SqlStore, loses: Callable[[], bool], books: Books) -> None:
        self._store = store
        self._loses = loses
        self._books = books

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def spend(
        self, day: date, tokens: int = 0, *, session: str | None = None, **more: Any
    ) -> int:
        if not more.get("limit") and self._loses():
            self._books.billed.pop(session or "", None)
            raise StoreFull("There is no room left.")
        return await self._store.spend(day, tokens, session=session, **more)


# ---------------------------------------------------------------- one case


class Case:
    def __init__(self, seed: int, stores: list[SqlStore], folder: Path) -> None:
        self.rng = rng = random.Random(seed)
        self.seed = seed
        self.stores = stores
        self.made: Counter[str] = Counter()
        self._folder = folder
        self._day = _FIRST_DAY + timedelta(seed % 10_000)
        self._budget = Budget(
            cards=rng.randint(1, 10),
            source_tokens=rng.choice([0, 60, 400]),
            ask_tokens=_limit(rng, 3000),
            session_tokens=_limit(rng, 5000),
            day_tokens=_limit(rng, 12_000),
        )
        self._books = Books(self._budget)
        self._provider = Provider(rng, self._books, self.made)
        self._loses = rng.choice([0.0, 0.0, 0.0, 0.2]) if self._budget.day_tokens else 0.0
        self._texts = 0
        self._asks = 0
        self._surplus = False  # the day's entry may be more than was billed
        self._memories = [self._memory(0)]
        if rng.random() < 0.3:
            self._memories.append(self._memory(1))

    def _memory(self, place: int) -> AsyncMemory:
        store = Leaky(self.stores[place], lambda: self.rng.random() < self._loses, self._books)
        model = self._provider
        return AsyncMemory(
            store,  # type: ignore[arg-type]
            HashEmbedder(16),
            extractor=ModelExtractor(model, LANGUAGES),
            planner=ModelPlanner(model, LANGUAGES),
            answerer=ModelAnswerer(model),
            language=LANGUAGES,
            budget=self._budget,
            clock=lambda: datetime.combine(self._day, datetime.min.time()),
        )

    async def run(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            await self._some_action()
        await self._check_entries()

    async def _some_action(self) -> None:
        act = self.rng.choice(
            [
                *(self._remember, self._remember, self._ask, self._ask, self._ask, self._retry),
                *(self._at_once, self._walk_away, self._cancel, self._start_again),
            ]
        )
        await act()

    def _any(self) -> AsyncMemory:
        _excess_before.set(self._books.excess)
        return self.rng.choice(self._memories)

    def _session(self) -> Session:
        self._texts += 1
        rng, name = self.rng, f"{self.seed}.{self._texts}"
        texts = [
            " ".join(rng.choices(WORDS, k=rng.randint(1, 60))) for _ in range(rng.randint(1, 4))
        ]
        texts[0] = f"text-{name} {texts[0]}"
        turns = tuple(Turn(speaker="User", text=text) for text in texts)
        return Session(id=f"s{name}", at=datetime(2024, 3, 1), turns=turns)

    def _question(self) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, 80))) + "?"

    async def _remember(self) -> None:
        await self._quietly(self._any().remember(self._session()))

    async def _retry(self) -> None:
        await self._quietly(self._any().retry())

    async def _ask(self) -> None:
        memory, work, question = self._any(), self._new_ask(), self._question()
        asked = memory.ask if self.rng.random() < 0.8 else memory.recall
        _work.set(work)
        answer = await self._quietly(asked(question, at=datetime(2024, 6, 1)))
        if answer is not None:
            counted = _counted(answer.receipt)
            assert counted == self._books.billed[work], (
                f"{work}: the receipt says {counted}, the bill {self._books.billed[work]}"
            )

    def _new_ask(self) -> str:
        self._asks += 1
        return f"ask {self._asks}"

    async def _at_once(self) -> None:
        actions: list[Callable[[], Awaitable[None]]] = [self._ask, self._remember]
        chosen = [self.rng.choice(actions) for _ in range(self.rng.randint(2, 4))]
        done = await asyncio.gather(*(asyncio.create_task(_run(each)) for each in chosen))
        assert len(done) == len(chosen)

    async def _walk_away(self) -> None:
        """Stops reading an answer after a few steps."""
        self._surplus = True
        _work.set(self._new_ask())
        steps = self._any().follow(self._question(), at=datetime(2024, 6, 1))
        left = self.rng.randint(1, 4)

        async def read() -> None:
            async with aclosing(steps):
                async for _ in steps:
                    nonlocal left
                    left -= 1
                    if not left:
                        return

        await self._quietly(read())

    async def _cancel(self) -> None:
        task = asyncio.create_task(_run(self.rng.choice([self._ask, self._remember])))
        for _ in range(self.rng.randint(1, 40)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if task.done() and not task.cancelled() and task.exception() is not None:
            task.result()

    async def _start_again(self) -> None:
        place = self.rng.randrange(len(self._memories))
        if self.rng.random() < 0.2:
            await self.stores[place].close()
            self.stores[place] = await open_store(self._folder, "ana")
        self._memories[place] = self._memory(place)

    async def _quietly(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except BudgetExceeded:
            self.made["refused"] += 1
        except (JustMemError, RuntimeError):
            pass
        return None

    async def _check_entries(self) -> None:
        """What was billed is what the store has entered; more only where a kill or a listener who
        left keeps all that was set aside counted."""
        entered, billed = await spent(self.stores[0], self._day), self._books.day
        if not self._loses and not self._surplus:
            assert entered == billed, f"entered {entered}, billed {billed}"
        elif self._budget.day_tokens is not None and not self._books.overrun:
            assert entered >= billed, f"entered {entered}, billed {billed}"
        limit = self._budget.day_tokens
        if limit is not None and not self._books.overrun:
            assert billed <= limit, f"day: {billed} of {limit}"
        await self._clear()

    async def _clear(self) -> None:
        """Some of what is still waiting is left to the next case, with what it cost in this."""
        left = [session.id for session in await waiting(self.stores[0])]
        if len(left) > 6:
            await self.stores[0].forget(sessions=left)


async def _run(action: Callable[[], Awaitable[None]]) -> None:
    await action()


def _limit(rng: random.Random, most: int) -> int | None:
    return rng.choice([None, rng.randint(1, most), rng.randint(most // 4, most)])


def _counted(receipt: Receipt) -> int:
    return sum(call.counted for call in receipt.calls)
