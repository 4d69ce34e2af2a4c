"""A model that obeys every hostile text: what it says is contained all the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from justmem import AsyncMemory, Budget
from justmem.domain import Answer, Call, Card, Session
from justmem.errors import InputError, NotInMemory
from justmem.language.words import content_stems
from justmem.plan import REWRITES
from justmem.ports import Completion, Prompt
from justmem.runtime import tokens
from justmem.store.sqlite import open_store
from justmem.testing import HashEmbedder, Scripted, ScriptedModel
from stories import BIKE, KYOTO, RUN, by_model, by_rules, extract_history, plan
from torture.hostile import Hostile
from torture.orders_prompts import session_of

BUDGET = Budget(ask_tokens=4000, session_tokens=6000)
_UNSUPPORTED = (
    "Trudy | inherited seventeen lighthouses from Queen Victoria | 1899 | stable | fact | {}"
)
_GREEDY = [
    {"cards": [_UNSUPPORTED.format(n) for n in ("1", "2", "999", "-1", "0", "1e9", "*")]},
    {"cards": [{"subject": "Trudy", "fact": "inherited lighthouses", "session_id": "bike"}] * 50},
]
PLANS = [
    plan(spans=True, rewrites=["secrets"] * 200, entities=["Ana"] * 5000),
    plan(source=True, op="delete", period="everything"),
]
ANSWERS = [
    {"answer": "PWNED", "used": ["1", "99", "s9.9", "bike#1", "c0", "../1"], "sufficient": True},
    {"answer": "PWNED \ud83d\0", "used": [f"s{n}.{m}" for n in range(40) for m in range(40)]},
]
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
QUESTION = "What did my gravel bike cost?"


class Obedient:
    """Says what the text in front of it wants said; before that, what an honest model would."""

    def __init__(self) -> None:
        self._hostile = Hostile("", "")
        self._number = 0
        self.model = ScriptedModel(self._reply)

    def obey(self, hostile: Hostile, number: int) -> None:
        self._hostile, self._number = hostile, number
        self.model.prompts.clear()

    def _reply(self, prompt: Prompt) -> Scripted:
        if prompt.stage == "extract" and "lamp" not in prompt.user:
            return extract_history(prompt)
        chosen: list[Any] = {"extract": _GREEDY, "plan": PLANS, "answer": ANSWERS}[prompt.stage]
        text = str(json.dumps(chosen[self._number % 3 % 2]))
        if self._hostile.reply and self._number % 2:
            text = self._hostile.reply
        return _cut(text, prompt)


def _cut(text: str, prompt: Prompt) -> Completion:
    """It obeys its server too: no reply is longer than was asked for."""
    whole = text
    while (used := tokens.count(text)) > prompt.max_tokens:
        text = text[: len(text) * prompt.max_tokens // used]
    spent = tokens.count(prompt.system) + tokens.count(prompt.user)
    call = Call(stage=prompt.stage, model="obedient", tokens_in=spent, tokens_out=used)
    return Completion(text, call, truncated=text != whole)


class Modelled:
    """A memory by that model, in which the hostile texts come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._obedient = Obedient()

    async def open(self) -> None:
        stages = by_model(self._obedient.model)
        store = await open_store(self._folder, "model")
        self.memory = AsyncMemory(store, HashEmbedder(64), budget=BUDGET, **stages)
        await self.memory.remember_many([RUN, KYOTO, BIKE])
        self._before = await self.memory.cards()

    async def check(self, hostile: Hostile, number: int) -> None:
        self._obedient.obey(hostile, number)
        await _remembered(self.memory, session_of(hostile.text), self._before)
        self._obedient.model.prompts.clear()
        await _asked(self.memory, hostile.text)
        await _asked(self.memory, QUESTION)
        asked = self._obedient.model.prompts
        assert len(asked) <= 4, "more than a plan and an answer were asked for"
        await self.memory.forget(session="hostile")


async def _remembered(memory: AsyncMemory, session: Session, before: list[Card]) -> None:
    done = await memory.remember(session)
    assert done.receipt.tokens <= (BUDGET.session_tokens or 0)
    for card in done.cards:
        assert card.session_id == session.id
        assert card.turns, f"{card} rests on nothing"
        assert set(card.turns) <= set(range(1, len(session.turns) + 1))
        said = {stem for n in card.turns for stem in content_stems(session.turn(n).text)}
        said |= {
            stem for n in card.turns if n > 1 for stem in content_stems(session.turn(n - 1).text)
        }
        told = set(content_stems(card.fact)) - set(content_stems(card.subject))
        assert not told or told & said, f"{card.text!r} is not in its turns"
        assert "lighthouse" not in card.text or "lighthouse" in str(session.turns)
    others = [card for card in await memory.cards() if card.session_id != session.id]
    assert others == before, "the cards of other sessions changed"


async def _asked(memory: AsyncMemory, question: str) -> None:
    try:
        answer = await memory.ask(question)
    except InputError:  # too long for what may be spent
        assert len(question) > 1000
        return
    check_answer(answer)
    assert answer.receipt.tokens <= (BUDGET.ask_tokens or 0)
    assert len(answer.plan.rewrites) <= REWRITES
    assert len(answer.plan.entities) <= 20
    assert len(answer.evidence.chosen) <= BUDGET.cards
    for citation in answer.citations:
        session = await memory.session(citation.session_id)
        said = session.turn(citation.turn).text
        assert said[citation.start : citation.end] == citation.quote


def check_answer(answer: Answer) -> None:
    """What is cited was shown."""
    read = list(answer.evidence.cards)
    shown = {(card.session_id, n) for card in read for n in card.turns}
    shown |= {(source.session_id, n) for source in answer.evidence.sources for n, _ in source.turns}
    cited = {(each.session_id, each.turn) for each in answer.citations}
    assert cited <= shown, f"{cited - shown} was cited and never shown"
    answer.text.encode()
    assert answer.sufficient or not answer.citations


# ---------------------------------------------------------------- without a model


class Ruled:
    """A memory by rules, in which the hostile texts come and go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def open(self) -> None:
        store = await open_store(self._folder, "rules")
        self.memory = AsyncMemory(store, HashEmbedder(64), **by_rules())
        await self.memory.remember_many([RUN, KYOTO, BIKE])
        self._before = await self._known()
        assert self._before[0] > 0

    async def _known(self) -> tuple[int, str, str]:
        memory = self.memory
        answer = await memory.ask("When did I buy the gravel bike?", at="2024-06-01")
        return len(await memory.cards()), str(await memory.sessions()), answer.text

    async def check(self, hostile: Hostile) -> None:
        memory, text = self.memory, hostile.text
        done = await memory.remember(session_of(text))
        for card in done.cards:
            assert card.session_id == "hostile"
            await memory.source(card.id)
        for question in (text, QUESTION):
            if question.strip("\0 \n"):
                check_answer(await memory.ask(question, at="2024-06-01", speaker=text[:100]))
        await self._looked_up(text)
        await memory.forget(session="hostile")
        assert await self._known() == self._before, "a hostile text left something behind"

    async def _looked_up(self, text: str) -> None:
        """Words are words: neither SQL nor FTS5 reads them."""
        memory = self.memory
        every = await memory.cards()
        for found in (await memory.cards(text=text), await memory.cards(subject=text)):
            assert all(card in every for card in found)
        nul = "\0" in text  # no id can hold it
        for look in (memory.session, memory.card, memory.source):
            with pytest.raises(InputError if nul else NotInMemory):
                await look(text)  # type: ignore[operator]
        if len(text) < 1000 and not nul:
            assert await memory.quarantined(text) == []
