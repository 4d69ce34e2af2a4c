"""No call sequence exceeds its limit: per question, per session, per day.

A case is a random budget, a random history and a few random actions, in one process or two. The
model answers, fails or reports false usage. Before each call, the test checks with its own account
that the call at its longest fits every limit, together with all calls that are running.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from justmem import AsyncMemory, Budget
from justmem.domain import Call
from justmem.errors import BudgetExceeded, JustMemError, ModelUnavailable, StoreFull
from justmem.ports import Completion, Prompt
from justmem.runtime import tokens
from stores import spent
from torture._fixtures import PLAN, folder, memory

WORDS = ("bike", "river", "piano", "garden", "Kyoto", "knee", "soup", "letter", "window")
PROMISE = "No sequence of calls spends more than its limit per question, per session or per day."
COUNT = 2_000
SAMPLE = 60

_PER_SPACE = 50  # cases that share a file, each on a day of its own
_ASKED = datetime(2024, 6, 1)
_work: ContextVar[str] = ContextVar("work")  # the question that a call belongs to
_excess_before: ContextVar[int] = ContextVar("excess_before")


def run(count: int, *, seed: int = 7) -> str:
    made: Counter[str] = Counter()
    for first in range(0, count, _PER_SPACE):
        made += asyncio.run(_space(seed, range(first, min(first + _PER_SPACE, count))))
    return (
        f"{count:,} cases, {made['calls']:,} calls ({made['lies']:,} with false usage, "
        f"{made['failed']:,} failed), {made['refused']:,} refused, none over its limit"
    )


async def _space(seed: int, numbers: range) -> Counter[str]:
    made: Counter[str] = Counter()
    with folder() as home:
        for number in numbers:
            case = Case(random.Random(f"{seed} {number}"), number, home)
            try:
                await case.run()
            except AssertionError as error:
                raise AssertionError(f"{error} (seed {seed}, case {number})") from error
            made += case.made
    return made


# ---------------------------------------------------------------- the test's own account


@dataclasses.dataclass
class Account:
    """What each piece of work was billed, and what is running."""

    budget: Budget
    billed: Counter[str] = dataclasses.field(default_factory=Counter)  # by question or session
    day: int = 0
    running: int = 0
    excess: int = 0  # what providers took beyond what was allowed

    def open(self, work: str, most: int) -> None:
        own = self.budget.session_tokens if work.startswith("s") else self.budget.ask_tokens
        if own is not None:
            total = self.billed[work] + most
            assert total <= own, f"{work}: {total} of {own}"
        if self.budget.day_tokens is not None:
            # Tokens that were reserved before another call took too much stay reserved.
            total = self.day + self.running + most - (self.excess - _excess_before.get())
            assert total <= self.budget.day_tokens, f"day: {total} of {self.budget.day_tokens}"
        self.running += most

    def close(self, work: str, most: int, bill: int) -> None:
        self.running -= most
        self.billed[work] += bill
        self.day += bill
        self.excess += max(0, bill - most)


class Provider:
    """A language model that may answer, fail, be slow, and report false usage."""

    name = "provider"
    context = 4000

    def __init__(self, chance: random.Random, account: Account, made: Counter[str]) -> None:
        self._chance, self._account, self._made = chance, account, made
        self._lies = chance.random() < 0.5
        self._fails = chance.choice([0.0, 0.0, 0.15, 0.6])

    async def complete(self, prompt: Prompt) -> Completion:
        work, most = _work_of(prompt), prompt.tokens + prompt.max_tokens
        self._made["calls"] += 1
        self._account.open(work, most)
        bill = most  # if it is interrupted, it may be billed at its longest
        try:
            for _ in range(self._chance.randrange(4)):
                await asyncio.sleep(0)
            if self._chance.random() < self._fails:
                self._made["failed"] += 1
                error, bill = self._failure(prompt)
                raise error
            text = self._text(prompt)
            await asyncio.sleep(0)
            call, bill = self._usage(prompt, text)
            return Completion(text, call, self._chance.random() < 0.1)
        finally:
            self._account.close(work, most, bill)

    def _failure(self, prompt: Prompt) -> tuple[Exception, int]:
        most = prompt.tokens + prompt.max_tokens
        match self._chance.randrange(3):
            case 0:  # a bug in it: nobody knows what it cost
                return RuntimeError("not ours"), most
            case 1:  # the request did not arrive
                return ModelUnavailable("Away."), 0
            case _:  # several attempts, each of which may be billed at its longest
                attempts = min(self._chance.randint(1, 3), (prompt.limit or 10**6) // most)
                call = _call(prompt, prompt.tokens * attempts, 0, attempts=attempts, error="Away.")
                call = call.model_copy(update={"undelivered": prompt.max_tokens * attempts})
                return ModelUnavailable("Away.", call), call.counted

    def _text(self, prompt: Prompt) -> str:
        chance = self._chance
        if chance.random() < 0.1:
            return chance.choice(["nonsense", '{"cards": ["User | is', "{}", "null", '{"answer'])
        facts = ["likes " + " ".join(chance.sample(WORDS, 3)) for _ in range(chance.randint(0, 3))]
        wish = {"spans": chance.random() < 0.4, "source": chance.random() < 0.4}
        replies: dict[str, Any] = {
            "extract": {"cards": [f"User | {f} | unknown | stable | fact | 1" for f in facts]},
            "plan": PLAN | wish | {"rewrites": [" ".join(chance.sample(WORDS, 3))]},
            "answer": {"answer": "blue", "used": ["1"], "sufficient": chance.random() < 0.9},
        }
        text = json.dumps(replies[prompt.stage])
        return text if tokens.count(text) <= prompt.max_tokens else "{}"

    def _usage(self, prompt: Prompt, text: str) -> tuple[Call, int]:
        """The call as it is reported, and what must be counted for it."""
        chance, sent, written = self._chance, prompt.tokens, tokens.count(text)
        own = sent + written
        if chance.random() < 0.3:  # as long as allowed, such as hidden thoughts
            written = prompt.max_tokens
        if not self._lies or chance.random() < 0.4:
            sent -= chance.randint(0, min(30, sent // 2))
            return _call(prompt, sent, written), sent + written
        self._made["lies"] += 1
        least = (tokens.count(prompt.system) + tokens.count(prompt.user) + 1) // 2
        more = sent + chance.randint(1, 3 * sent)
        reported, counted = chance.choice(
            [
                ((more, written), more + written),  # plausible
                ((least, written), least + written),  # as another tokenizer may count
                ((least - 1, written), sent + written),  # too few
                ((-sent, -written), own),
                ((10**15, 10**15), own),
                ((None, None), own),
                ((0, 0), own),
            ]
        )
        return _call(prompt, *reported), counted


def _call(prompt: Prompt, tokens_in: Any, tokens_out: Any, **more: Any) -> Call:
    known = {"attempts": 1, "error": "", "estimated": False, "cached": 0, "seconds": 0.0} | more
    usage = {"tokens_in": tokens_in, "tokens_out": tokens_out, "undelivered": 0}
    return Call.model_construct(stage=prompt.stage, model="provider", **usage, **known)


def _work_of(prompt: Prompt) -> str:
    """The question or session that pays for a call."""
    if prompt.stage != "extract":
        return _work.get()
    return "s" + prompt.user.partition("text-")[2].partition(" ")[0]


# ---------------------------------------------------------------- one case


class Case:
    def __init__(self, chance: random.Random, number: int, home: Path) -> None:
        self.chance, self.number, self.home = chance, number, home
        self.made: Counter[str] = Counter()
        self._day = date(2024, 1, 1) + timedelta(number % 10_000)
        self._budget = Budget(
            cards=chance.randint(1, 10),
            source_tokens=chance.choice([0, 60, 400]),
            ask_tokens=_limit(chance, 3000),
            session_tokens=_limit(chance, 5000),
            day_tokens=_limit(chance, 12_000),
        )
        self._account = Account(self._budget)
        self._provider = Provider(chance, self._account, self.made)
        self._loses = chance.choice([0.0, 0.0, 0.0, 0.2]) if self._budget.day_tokens else 0.0
        self._names = 0
        self._memories: list[AsyncMemory] = []

    async def run(self) -> None:
        for _ in range(self.chance.choice([1, 1, 2])):
            self._memories.append(await self._open())
        actions = [self._remember, self._remember, self._ask, self._ask, self._ask, self._retry]
        actions += [self._several, self._cancel, self._start_again]
        for _ in range(self.chance.randint(1, 4)):
            await self.chance.choice(actions)()
        await self._check_ledger()
        for each in self._memories:
            await each.close()

    async def _open(self) -> AsyncMemory:
        def clock() -> datetime:
            return datetime.combine(self._day, datetime.min.time())

        parts = {"model": self._provider, "budget": self._budget, "clock": clock}
        opened: AsyncMemory = await memory(self.home, **parts)
        self._lose_entries(opened)
        return opened

    def _lose_entries(self, opened: AsyncMemory) -> None:
        """The ledger may lose an entry, as after a kill. The day then keeps what was reserved. The
        session's own limit cannot know of it and begins anew."""
        spend = opened._store.spend

        async def lossy(day: date, tokens: int = 0, **more: Any) -> int:
            if not more.get("limit") and self.chance.random() < self._loses:
                self._account.billed.pop(more.get("session") or "", None)
                raise StoreFull("There is no room left.")
            return await spend(day, tokens, **more)

        opened._store.spend = lossy  # type: ignore[method-assign]

    def _any(self) -> AsyncMemory:
        _excess_before.set(self._account.excess)
        return self.chance.choice(self._memories)

    def _words(self, most: int) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, most)))

    def _new_question(self) -> str:
        self._names += 1
        _work.set(f"ask {self._names}")
        return f"{self._words(80)}?"

    async def _remember(self) -> None:
        self._names += 1
        name = f"{self.number}.{self._names}"
        texts = [self._words(60) for _ in range(self.chance.randint(1, 4))]
        texts[0] = f"text-{name} {texts[0]}"
        turns = [{"role": "user", "content": text} for text in texts]
        await self._attempt(self._any().remember(turns, id=f"s{name}", at="2024-03-01"))

    async def _retry(self) -> None:
        await self._attempt(self._any().retry())

    async def _ask(self) -> None:
        mine, question = self._any(), self._new_question()
        ask = mine.ask if self.chance.random() < 0.8 else mine.recall
        answer = await self._attempt(ask(question, at=_ASKED))
        if answer is not None:
            counted = sum(call.counted for call in answer.receipt.calls)
            billed = self._account.billed[_work.get()]
            assert counted == billed, f"the receipt says {counted}, the bill {billed}"

    async def _several(self) -> None:
        chosen = [self.chance.choice([self._ask, self._remember]) for _ in range(3)]
        await asyncio.gather(*(asyncio.create_task(_run(each)) for each in chosen))

    async def _cancel(self) -> None:
        task = asyncio.create_task(_run(self.chance.choice([self._ask, self._remember])))
        for _ in range(self.chance.randint(1, 40)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()

    async def _start_again(self) -> None:
        place = self.chance.randrange(len(self._memories))
        await self._memories[place].close()
        self._memories[place] = await self._open()

    async def _attempt(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except BudgetExceeded:
            self.made["refused"] += 1
        except (JustMemError, RuntimeError):
            pass
        return None

    async def _check_ledger(self) -> None:
        """The ledger has what was billed. It may have more after a loss."""
        store = self._memories[0]._store
        limit, billed = self._budget.day_tokens, self._account.day
        loses, self._loses = self._loses, 0.0
        entered = await spent(store, self._day)
        if not loses:
            assert entered == billed, f"entered {entered}, billed {billed}"
        elif limit is not None and not self._account.excess:
            assert entered >= billed, f"entered {entered}, billed {billed}"
        if limit is not None and not self._account.excess:
            assert billed <= limit, f"day: {billed} of {limit}"
        waiting = [session.id for session in await self._memories[0].waiting()]
        if len(waiting) > 6:  # the others are left to the next case
            await store.forget(sessions=waiting)


async def _run(action: Callable[[], Awaitable[None]]) -> None:
    await action()


def _limit(chance: random.Random, most: int) -> int | None:
    return chance.choice([None, chance.randint(1, most), chance.randint(most // 4, most)])
