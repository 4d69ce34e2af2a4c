"""Kept short: what is redacted reaches nobody, what is dropped or expired is gone.

A case is a random history with planted secrets, told to a memory that redacts, in a space that
may drop its sources, with a random retention; some of its sessions fail at first. Then every
prompt, every text that was embedded, every answer and every byte of the files is searched.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from justmem import AsyncMemory, Retention
from justmem.answer import ModelAnswerer
from justmem.domain import KINDS, Answer, Evidence, Kind, Session, SessionState, Turn
from justmem.errors import ModelUnavailable
from justmem.extract.model import ModelExtractor
from justmem.intake.secret_patterns import secrets
from justmem.language.languages import LANGUAGES
from justmem.plan import ModelPlanner
from justmem.ports import Embedded, Prompt
from justmem.store.sqlite import open_store
from justmem.testing import HashEmbedder, ScriptedModel

PROMISE = "Redacted, expired or removed text is in no file, no prompt and no answer."
COUNT = 150
SAMPLE = 6

_START = datetime(2024, 1, 1)
_DAYS = 400


def run(count: int) -> str:
    told = gone = 0
    for seed in range(count):
        case = Case(seed)
        try:
            asyncio.run(case.run())
        except AssertionError as error:
            raise AssertionError(f"{error} (seed {seed})") from error
        told += len(case.planted)
        gone += case.gone
    return (
        f"{count:,} spaces: {told:,} secrets and {gone:,} sessions' words searched for, none left"
    )


class Heard(HashEmbedder):
    def __init__(self) -> None:
        super().__init__(32)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        self.texts += texts
        return await super().embed(texts, query=query)


class Case:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.planted: list[str] = []
        self.gone = 0
        self._marks: dict[str, str] = {}  # session -> a word that only its turns hold
        self._drops = self.rng.random() < 0.5
        self._retention = self._some_retention()
        self._away = self.rng.choice([0.0, 0.3])
        self._model = ScriptedModel(self._reply)
        self._embedder = Heard()
        self._sessions = [self._session(number) for number in range(self.rng.randint(2, 6))]
        self._now = _START + timedelta(days=self.rng.randint(1, _DAYS))
        self._expired: set[str] = set()

    # ------------------------------------------------------------ what is told

    def _some_retention(self) -> Retention:
        rng = self.rng
        kinds: dict[Kind, int] = {
            kind: rng.randint(1, _DAYS) for kind in rng.sample(KINDS, rng.randint(0, 3))
        }
        days = rng.choice([None, rng.randint(1, _DAYS)])
        return Retention(days=days, kinds=kinds, source_days=0 if self._drops else None)

    def _secret(self) -> tuple[str, str]:
        """A sentence, and what in it must not be seen again."""
        rng = self.rng
        body = "".join(rng.choices("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=30))
        word = f"pw{body[:6]}{rng.randint(10, 99)}"
        number = _card_number(rng)
        grouped = " ".join(number[i : i + 4] for i in range(0, 16, 4))
        return rng.choice(
            [
                (f"My card is {number}.", number),
                (f"Pay with {grouped}, please.", grouped),
                (f"The key is sk-proj-a1{body}", body),
                (f"ghp_a1{body}{body[:6]} is the token", body),
                (f"API_TOKEN={body}9a", body),
                (f"password: {word}", word),
                (f"postgresql://ana:{word}@db/app", word),
                (
                    f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----",
                    body,
                ),
            ]
        )

    def _said(self, plain: str) -> str:
        if self.rng.random() < 0.5:
            return plain
        sentence, secret = self._secret()
        self.planted.append(secret)
        return f"{plain} {sentence}"

    def _session(self, number: int) -> Session:
        rng, id = self.rng, f"s{number}"
        self._marks[id] = mark = f"zq{rng.randrange(16**10):010x}"
        turns = [
            Turn(speaker="User", text=self._said(f"I saw fact{number}x{n} at the {mark} today."))
            for n in range(rng.randint(1, 3))
        ]
        turns.append(Turn(speaker="Assistant", role="assistant", text=self._said("How nice.")))
        at = _START + timedelta(days=rng.randint(0, _DAYS), hours=rng.randint(0, 23))
        return Session(id=id, at=at, turns=tuple(turns))

    def _reply(self, prompt: Prompt) -> Any:
        rng = self.rng
        if prompt.stage == "extract":
            if rng.random() < self._away:
                return ModelUnavailable("Away.")
            number = prompt.user.partition("fact")[2].partition("x")[0]
            kind = rng.choice(KINDS)
            return {"cards": [f"User | saw fact{number}x0 today | unknown | stable | {kind} | 1"]}
        if prompt.stage == "plan":
            wish = {"spans": rng.random() < 0.5, "source": rng.random() < 0.6}
            return {**wish, "op": "quote", "period": "", "rewrites": ["fact today"]}
        return {"answer": "something", "used": ["1", "s1.1"], "sufficient": True}

    # ------------------------------------------------------------ the case

    async def run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            memory = await self._opened(Path(folder))
            await memory.remember_many(self._sessions)
            for _ in range(40):
                if not await memory.retry():
                    break
            assert not await memory.waiting()
            shown = [await self._asked(memory) for _ in range(3)]
            if self._drops:
                await self._check_dropped(memory)
            if self.rng.random() < 0.7:
                await self._check_expired(memory)
            shown.append(await self._asked(memory))
            await memory.close()
            self._search(Path(folder), shown)

    async def _opened(self, folder: Path) -> AsyncMemory:
        return AsyncMemory(
            await open_store(folder, "ana"),
            self._embedder,
            extractor=ModelExtractor(self._model, LANGUAGES),
            planner=ModelPlanner(self._model, LANGUAGES),
            answerer=ModelAnswerer(self._model),
            language=LANGUAGES,
            redact=secrets,
            retention=self._retention,
        )

    async def _asked(self, memory: AsyncMemory) -> str:
        sentence, secret = self._secret()
        self.planted.append(secret)
        question = f"What did I see, fact{self.rng.randrange(6)}x0? {sentence}"
        answer = await memory.ask(question, at=self._now)
        self._check_evidence(answer.evidence)
        await self._check_citations(memory, answer)
        return answer.model_dump_json()

    def _check_evidence(self, evidence: Evidence) -> None:
        for candidate in evidence.candidates:
            card = candidate.card
            if "#" not in card.id:
                assert not self._retention.card_expired(card, self._now), f"recalled {card.id}"
        for one in (*evidence.sources, *(c.card for c in evidence.candidates)):
            at = next(each.at for each in self._sessions if each.id == one.session_id)
            assert not self._retention.session_expired(at, self._now), f"recalled {one.session_id}"

    async def _check_citations(self, memory: AsyncMemory, answer: Answer) -> None:
        """A quotation is the words themselves, or says that there are none."""
        for citation in answer.citations:
            if not citation.kept:
                assert citation.quote == ""
                continue
            session = await memory.session(citation.session_id)
            text = session.turn(citation.turn).text
            assert citation.quote == text[citation.start : citation.end] != ""

    async def _check_dropped(self, memory: AsyncMemory) -> None:
        for record in await memory.sessions():
            turns = (await memory.session(record.id)).turns
            assert all(turn.forgotten for turn in turns), f"the words of {record.id} are there"
        assert sum(r.state is SessionState.STORED for r in await memory.sessions())
        assert await memory.cards()

    async def _check_expired(self, memory: AsyncMemory) -> None:
        soon = await memory.expiring(at=self._now)
        gone = await memory.expire(at=self._now)
        assert gone.model_copy(update={"entry": None}) == soon.counted
        for record in await memory.sessions():
            assert not self._retention.session_expired(record.at, self._now)
        for card in await memory.cards():
            assert not self._retention.card_expired(card, self._now)
        left = {record.id for record in await memory.sessions()}
        self._expired = set(self._marks) - left
        self.gone += len(self._expired)

    def _search(self, folder: Path, shown: Sequence[str]) -> None:
        prompts = [text for p in self._model.prompts for text in (p.system, p.user)]
        said = "\n".join([*prompts, *self._embedder.texts, *shown])
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        for secret in self.planted:
            assert secret not in said, f"{secret!r} was sent or answered"
            for name, held in files.items():
                assert secret.encode() not in held, f"{secret!r} is in {name}"
        if self._drops:
            self.gone += len(self._marks)
        unwanted = self._marks if self._drops else self._expired
        for id in unwanted:
            for name, held in files.items():
                assert self._marks[id].encode() not in held, f"words of {id} are in {name}"


def _card_number(rng: random.Random) -> str:
    digits = "4" + "".join(rng.choices("0123456789", k=14))
    doubled = [int(d) * (2 - place % 2) for place, d in enumerate(digits)]
    return digits + str(-sum(d - 9 if d > 9 else d for d in doubled) % 10)
