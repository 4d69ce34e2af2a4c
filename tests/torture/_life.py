"""A space as it must be: what was acknowledged, and what the one step under way may have done."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from justmem import AsyncMemory
from justmem.domain import SessionState
from justmem.errors import NotInMemory
from torture._talk import card_ids, session

Verb = Literal["remember", "keep", "forget", "forget card", "ask", "cards"]


class Step(NamedTuple):
    verb: Verb
    id: str
    version: int = 0
    card: str = ""


@dataclass
class Life:
    """`versions`: of each session that is remembered, which words. `gone`: forgotten cards."""

    versions: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)  # their words alone, or their newest words alone
    gone: set[str] = field(default_factory=set)
    born: int = 0

    def copy(self) -> Life:
        return Life(dict(self.versions), set(self.kept), set(self.gone), self.born)

    def draw(self, chance: random.Random) -> Step:
        """What might be done next."""
        known = sorted(self.versions)
        verb = chance.choices(
            ["new", "changed", "keep", "forget", "card"],
            [4, 3, 1, 1, 1] if known else [1, 0, 0, 0, 0],
        )[0]
        id = chance.choice(known) if known else ""
        if verb == "forget":
            return Step("forget", id)
        if verb == "card" and id not in self.kept and (left := self.cards(id)):
            return Step("forget card", id, card=chance.choice(left))
        if verb == "changed":
            return Step("remember", id, self.versions[id] + 1)
        if verb == "keep":
            return Step("keep", id, self.versions[id] + 1)
        self.born += 1
        return Step("remember", f"s{self.born}")

    def apply(self, step: Step) -> None:
        match step.verb:
            case "remember":
                self.versions[step.id] = step.version
                self.kept.discard(step.id)
            case "keep":
                self.versions[step.id] = step.version
                self.kept.add(step.id)
            case "forget":
                del self.versions[step.id]
                self.kept.discard(step.id)
            case "forget card":
                self.gone.add(step.card)

    def cards(self, id: str) -> list[str]:
        made = card_ids(session(id, self.versions[id]))
        return [card for card in made if card not in self.gone]

    async def seen(self, memory: AsyncMemory, under_way: Step | None) -> None:
        """AssertionError unless the memory is as it must be; then takes over what the step that
        was under way has done."""
        newest = {each.id: each for each in await memory.waiting()}
        states = {record.id: record.state for record in await memory.sessions()}
        for id in states.keys() | self.versions.keys():
            doing = under_way if under_way and under_way.id == id else None
            words = newest.get(id) or await self._session(memory, id)
            allowed = {self.versions.get(id)}
            if doing and doing.verb in ("remember", "keep"):
                allowed.add(doing.version)
            elif doing and doing.verb == "forget":
                allowed.add(None)
            matching = [each for each in allowed if words == (_words(id, each))]
            assert matching, f"session {id} is not as it was acknowledged"
            self._adopt(id, matching[0], doing)
            if id not in self.versions:
                continue
            if states[id] in (SessionState.PENDING, SessionState.FAILED):
                assert doing or id in self.kept, f"session {id} lost the cards that it had"
                self.kept.add(id)
                continue
            await self._see_cards(memory, id, doing)

    @staticmethod
    async def _session(memory: AsyncMemory, id: str) -> object:
        try:
            return await memory.session(id)
        except NotInMemory:
            return None

    def _adopt(self, id: str, version: int | None, doing: Step | None) -> None:
        if version is None:
            self.versions.pop(id, None)
            self.kept.discard(id)
            return
        if doing and doing.verb in ("remember", "keep") and version == doing.version:
            self.kept.discard(id)
        self.versions[id] = version

    async def _see_cards(self, memory: AsyncMemory, id: str, doing: Step | None) -> None:
        found = [card.id for card in await memory.cards(session=id)]
        if doing and doing.verb == "forget card" and doing.card not in found:
            self.gone.add(doing.card)
        self.kept.discard(id)
        assert found == self.cards(id), f"the cards of session {id} are not those it must have"

    async def finished(self, memory: AsyncMemory) -> None:
        """`retry` makes the cards of what only has its words."""
        for done in await memory.retry():
            assert done.state == SessionState.STORED, f"{done.session_id}: {done.reason}"
        self.kept.clear()


def _words(id: str, version: int | None) -> object:
    return None if version is None else session(id, version)
