"""Redacted, expired and removed text.

A case is a random history with secrets in it, in a space that redacts and has a random retention.
Some of its sessions fail at first. Then every prompt, every embedded text, every answer and every
byte of the files is searched.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from justmem import AsyncMemory, Retention
from justmem.domain import KINDS, Answer
from justmem.errors import ModelUnavailable
from justmem.ports import Embedded, Prompt
from justmem.testing import HashEmbedder, ScriptedModel
from torture._fixtures import folder, memory

PROMISE = "Redacted, expired or removed text is in no file, no prompt and no answer."
COUNT = 150
SAMPLE = 6

_START, _DAYS = datetime(2024, 1, 1), 400


def run(count: int, *, seed: int = 7) -> str:
    secrets = gone = 0
    for number in range(count):
        case = Case(random.Random(f"{seed} {number}"))
        try:
            asyncio.run(case.run())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, case {number}: {error}") from error
        secrets, gone = secrets + len(case.secrets), gone + len(case.gone)
    return f"{count:,} spaces: {secrets:,} secrets and {gone:,} days' words searched, none left"


class RecordingEmbedder(HashEmbedder):
    def __init__(self) -> None:
        super().__init__(32)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        self.texts += texts
        return await super().embed(texts, query=query)


class Case:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.secrets: list[str] = []
        self.gone: set[str] = set()  # marks that must be nowhere
        self._marks: list[str] = []  # words that only the turns of one day hold
        days = chance.choice([None, chance.randint(1, _DAYS)])
        self._drops = chance.random() < 0.5
        self._retention = Retention(days=days, source_days=0 if self._drops else None)
        self._fails = chance.choice([0.0, 0.3])
        self._model, self._embedder = ScriptedModel(self._reply), RecordingEmbedder()
        self._now = _START + timedelta(days=chance.randint(1, _DAYS))

    # ------------------------------------------------------------ the history

    def _with_secret(self, text: str) -> str:
        chance = self.chance
        letters = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
        body = "".join(chance.choices(letters, k=30))
        word = f"pw{body[:6]}{chance.randint(10, 99)}"
        number = _card_number(chance)
        grouped = " ".join(number[i : i + 4] for i in range(0, 16, 4))
        sentence, secret = chance.choice(
            [
                (f"My card is {number}.", number),
                (f"Pay with {grouped}, please.", grouped),
                (f"The key is sk-proj-a1{body}", body),
                (f"ghp_a1{body}{body[:6]} is the token", body),
                (f"API_TOKEN={body}9a", body),
                (f"password: {word}", word),
                (f"postgresql://ana:{word}@db/app", word),
                (f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----", body),
            ]
        )
        self.secrets.append(secret)
        return f"{text} {sentence}"

    def _maybe_secret(self, text: str) -> str:
        return self._with_secret(text) if self.chance.random() < 0.5 else text

    def _mark(self) -> str:
        self._marks.append(f"zq{self.chance.randrange(16**10):010x}")
        return self._marks[-1]

    def _session(self, number: int) -> dict[str, Any]:
        chance, id = self.chance, f"s{number}"
        mark = self._mark()
        texts = [f"I saw fact{number}x{n} at the {mark} today." for n in range(1, 4)]
        turns = [{"role": "user", "content": self._maybe_secret(text)} for text in texts]
        turns.append({"role": "assistant", "content": self._maybe_secret("How nice.")})
        at = _START + timedelta(days=chance.randint(0, _DAYS), hours=chance.randint(0, 23))
        return {"id": id, "at": at, "turns": turns}

    def _reply(self, prompt: Prompt) -> Any:
        chance = self.chance
        if prompt.stage == "extract":
            if chance.random() < self._fails:
                return ModelUnavailable("Away.")
            number = prompt.user.partition("fact")[2].partition("x")[0]
            kind = chance.choice(KINDS)
            return {"cards": [f"User | saw fact{number}x1 today | unknown | stable | {kind} | 1"]}
        if prompt.stage == "plan":
            wish = {"spans": chance.random() < 0.5, "source": chance.random() < 0.6}
            return {**wish, "op": "quote", "period": "", "rewrites": ["fact today"]}
        return {"answer": "something", "used": ["1", "s1.1"], "sufficient": True}

    # ------------------------------------------------------------ the case

    async def run(self) -> None:
        parts = {"embedder": self._embedder, "model": self._model, "redact": "secrets"}
        with folder() as home:
            async with memory(home, retention=self._retention, **parts) as mine:
                sessions = [self._session(n) for n in range(self.chance.randint(2, 6))]
                await mine.remember_many(sessions[1:])
                first = sessions[0]
                await mine.append(first["turns"], id=first["id"], at=first["at"])
                later = first["at"] + timedelta(days=self.chance.randint(1, _DAYS))
                await mine.append(f"I saw the {self._mark()} again.", id=first["id"], at=later)
                while await mine.retry():
                    pass
                labels = {"place": self._with_secret("home")}
                code = self._with_secret("The code is here.")
                await mine.note(code, key="k", until="2099-01-01", labels=labels)
                shown = [await self._ask(mine) for _ in range(3)]
                if self._drops:
                    await self._check_dropped(mine)
                if self.chance.random() < 0.7:
                    await self._check_expired(mine)
                shown.append(await self._ask(mine))
            self._search(home, shown)

    async def _ask(self, mine: AsyncMemory) -> str:
        question = self._with_secret(f"What did I see, fact{self.chance.randrange(6)}x1?")
        answer = await mine.ask(question, at=self._now)
        for card in (each.card for each in answer.evidence.candidates):
            if "#" not in card.id:
                assert not self._retention.expired(card.said_at, self._now), f"recalled {card.id}"
        await self._check_citations(mine, answer)
        return answer.model_dump_json()

    async def _check_citations(self, mine: AsyncMemory, answer: Answer) -> None:
        """A quotation is the words themselves, or says that there are none."""
        for citation in answer.citations:
            if citation.kept:
                text = (await mine.session(citation.session_id)).turn(citation.turn).text
                assert citation.quote == text[citation.start : citation.end] != ""
            else:
                assert citation.quote == ""

    async def _check_dropped(self, mine: AsyncMemory) -> None:
        for record in await mine.sessions():
            turns = (await mine.session(record.id)).turns
            assert all(turn.forgotten for turn in turns), f"the words of {record.id} are there"
        assert await mine.cards()
        self.gone |= set(self._marks)

    async def _check_expired(self, mine: AsyncMemory) -> None:
        expected = await mine.expiring(at=self._now)
        forgotten = await mine.expire(at=self._now)
        assert forgotten.model_copy(update={"entry": None}) == expected.forgotten
        left = []
        for record in await mine.sessions():
            session = await mine.session(record.id)
            for number, turn in enumerate(session.turns, 1):
                old = self._retention.expired(session.said_at(number), self._now)
                assert turn.forgotten or not old, f"{record.id}#{number} has expired"
                left.append(turn.text)
        self.gone |= {mark for mark in self._marks if mark not in "".join(left)}

    def _search(self, home: Path, shown: Sequence[str]) -> None:
        prompts = [text for prompt in self._model.prompts for text in (prompt.system, prompt.user)]
        sent = "\n".join([*prompts, *self._embedder.texts, *shown])
        files = b"\n".join(path.read_bytes() for path in home.iterdir())
        for secret in self.secrets:
            assert secret not in sent, f"{secret!r} was sent or answered"
            assert secret.encode() not in files, f"{secret!r} is in a file"
        for mark in self.gone:
            assert mark.encode() not in files, f"{mark!r} was removed and is in a file"


def _card_number(chance: random.Random) -> str:
    digits = "4" + "".join(chance.choices("0123456789", k=14))
    doubled = [int(d) * (2 - place % 2) for place, d in enumerate(digits)]
    return digits + str(-sum(d - 9 if d > 9 else d for d in doubled) % 10)
