"""Model servers that fail in every way there is, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.domain import Answer, Budget, Receipt, SessionState
from justmem.errors import BudgetExceeded, ModelError
from justmem.models.openai import OpenAIEmbedder, OpenAIModel
from justmem.testing import HashEmbedder
from justmem_eval.loopback import Request, Respond, chat_body, serve_openai
from replies import embeddings_body
from stores import spent as spent_in
from torture._faults import SLOW, fault
from torture._fixtures import DIM, PLAN, card_rows, folder, memory, session

PROMISE = (
    "If a model's server fails, the session ends as stored, empty, pending or failed with a "
    "reason. Every word is kept, every cost is counted, and retry completes the session."
)
COUNT = 200
SAMPLE = 10

PATIENCE = SLOW / 2  # seconds that the clients wait for a reply, while faults are expected
DAY = datetime(2024, 6, 1, 12)


class Servers:
    """One server for chat and embeddings. `faulty` is the share of wrong replies."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._lock = threading.Lock()
        self.faulty = 0.0
        self.billed = 0  # chat requests that a provider would bill
        self.faults: list[str] = []

    def reply(self, request: Request) -> Respond | dict[str, Any]:
        kind = request.path.rpartition("/")[2].replace("completions", "chat")
        with self._lock:
            if kind not in ("chat", "embeddings"):
                return Respond({}, status=302, headers={"location": request.path})
            if self._chance.random() >= self.faulty:
                self.billed += kind == "chat"
                return _correct(kind, request.body or {})
            respond = fault(kind, self._chance)
            self.faults.append(f"{kind}: {respond!r:.200}")
            self.billed += kind == "chat" and respond.status == 200 and respond.cut != "before"
            return respond


def _correct(kind: str, body: dict[str, Any]) -> Respond | dict[str, Any]:
    if kind == "embeddings":
        embedded = asyncio.run(HashEmbedder(DIM).embed(body["input"]))
        return embeddings_body(embedded.vectors.tolist())
    system, user = (message["content"] for message in body["messages"])
    asked = json.dumps(body.get("response_format", "")) + system
    answer: dict[str, Any] = {"answer": "A cat.", "used": ["1"], "sufficient": True}
    if '"cards"' in asked:
        answer = {"cards": card_rows(user)}
    elif '"spans' in asked:
        answer = PLAN
    return chat_body(answer)


def run(count: int, *, seed: int = 7) -> str:
    seen: set[str] = set()
    with folder() as place:
        for number in range(count):
            case = f"{seed}/{number}"
            servers = Servers(random.Random(case))
            try:
                asyncio.run(asyncio.wait_for(_case(case, servers, place), 60))
            except Exception as error:
                error.add_note(f"case {case}, after {', '.join(servers.faults[-6:])}")
                raise AssertionError(f"case {case}: {type(error).__name__}: {error}") from error
            seen |= set(servers.faults)
    return f"{count:,} sequences of faults of {len(seen)} kinds, every word kept, every retry done"


async def _case(case: str, servers: Servers, place: Path) -> None:
    said = [session(f"s{n}") for n in range(2)]
    with serve_openai(servers.reply) as served:
        servers.faulty = random.Random(f"{case} faulty").choice([0.3, 0.6, 0.9, 1.0])
        async with _opened(case, place, served.url, PATIENCE) as mine:
            spent = 0
            for each in said:
                done = await mine.remember(each)
                assert done.state != SessionState.FAILED or done.reason, "failed without a reason"
                spent += _counted(done.receipt)
            await _kept(mine, said)
            spent += await _asked(mine)
            entered = await spent_in(mine._store, DAY.date())
            assert entered >= spent, f"{spent} tokens are on receipts, {entered} in the ledger"
            assert spent >= 100 * servers.billed, f"{servers.billed} calls cost {spent} tokens"

        servers.faulty = 0.0
        async with _opened(case, place, served.url, 30.0) as mine:
            for done in await mine.retry():
                assert done.state == SessionState.STORED, f"{done.session_id}: {done.reason}"
            await _kept(mine, said)
            states = {record.state for record in await mine.sessions()}
            assert states <= {SessionState.STORED, SessionState.EMPTY}, states
            checked = await mine.check()
            assert checked.sound, checked.damage
            answer = await mine.ask("Which cat do I keep?")
            assert answer.text


def _opened(case: str, place: Path, url: str, patience: float) -> Any:
    """The same parts for the same case, more or less patient."""

    async def at_once(_: float) -> None:
        pass

    chance = random.Random(f"{case} parts")
    common: dict[str, Any] = {"timeout": patience, "attempts": 2, "sleep": at_once}
    parts: dict[str, Any] = {"model": OpenAIModel("m", base_url=url, api_key="k", **common)}
    if chance.random() < 0.5:
        parts["embedder"] = OpenAIEmbedder("e", dim=DIM, base_url=url, api_key="k", **common)
    # Replies of endless length would use up the limit of a session, over all its attempts.
    limit = 100_000_000 if chance.random() < 0.3 else None
    parts["budget"] = Budget(session_tokens=None, day_tokens=limit)
    return memory(place, f"case-{case.replace('/', '-')}", clock=lambda: DAY, **parts)


async def _kept(mine: Any, said: list[Any]) -> None:
    waiting = {each.id: each for each in await mine.waiting()}
    for each in said:
        assert (waiting.get(each.id) or await mine.session(each.id)) == each, "words were lost"


async def _asked(mine: Any) -> int:
    """An answer, or an error that says whose fault it is; in both cases what it cost."""
    try:
        answer = await mine.ask("Which cat do I keep in Porto?")
    except (ModelError, BudgetExceeded) as error:  # the latter: a plan of endless length
        return sum(call.tokens_in + call.tokens_out for call in error.calls)
    assert isinstance(answer, Answer)
    assert answer.text
    return _counted(answer.receipt)


def _counted(receipt: Receipt) -> int:
    for call in receipt.calls:
        assert min(call.tokens_in, call.tokens_out, call.cached) >= 0, "a negative count"
    return receipt.tokens
