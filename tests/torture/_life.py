"""A model of what a space must contain after a sequence of steps: sessions, cards, notes."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from justmem import AsyncMemory
from torture._fixtures import fact_of, session, statement


class Step(NamedTuple):
    verb: str
    id: str  # of the session, or the note's key
    text: str = ""  # of the card, the new turn or the note
    version: int = 0


@dataclass
class CardLife:
    """The versions of a card: (fact, pinned). The last one counts; `undo` removes it."""

    versions: list[tuple[str, bool]]

    @property
    def fact(self) -> str:
        return self.versions[-1][0]


@dataclass
class SessionLife:
    version: int
    turns: list[str]
    cards: list[CardLife]
    pending: bool = False  # its newest words have no cards yet


@dataclass
class Life:
    """`name` is in every id, so that several processes can live in one space."""

    name: str = ""
    sessions: dict[str, SessionLife] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def copy(self) -> Life:
        return copy.deepcopy(self)

    # ------------------------------------------------------------ steps

    def draw(self, chance: random.Random) -> Step:
        """A step that is possible now."""
        self.count += 1
        new = Step("remember", f"{self.name}s{self.count}", version=0)
        if not self.sessions or chance.random() < 0.25:
            return new
        id = chance.choice(sorted(self.sessions))
        life = self.sessions[id]
        key = f"{self.name}k{chance.randrange(3)}"
        possible = [
            Step("remember", id, version=life.version + 1),
            Step("keep", id, version=life.version + 1),
            Step("append", id, statement(f"{id}-a{self.count}")),
            Step("rebuild", id),
            Step("forget", id),
            Step("note", key, version=self.count),
        ]
        possible += [Step("forget key", key)] if key in self.notes else []
        if life.cards and not life.pending:
            card = chance.choice(life.cards)
            possible.append(Step("correct", id, card.fact, self.count))
            possible.append(Step("forget card", id, card.fact))
            possible += [Step("pin", id, card.fact)] if not card.versions[-1][1] else []
            possible += [Step("undo", id, card.fact)] * 2 if len(card.versions) > 1 else []
        return chance.choice(possible)

    def apply(self, step: Step) -> None:
        match step.verb:
            case "remember" | "keep":
                words = [turn.text for turn in session(step.id, step.version).turns]
                cards = [CardLife([(fact_of(text), False)]) for text in words[::2]]
                self.sessions[step.id] = SessionLife(
                    step.version, words, cards, pending=step.verb == "keep"
                )
            case "append":
                life = self.sessions[step.id]
                life.turns.append(step.text)
                life.cards.append(CardLife([(fact_of(step.text), False)]))
                life.pending = False
            case "rebuild":
                self.sessions[step.id].pending = False
            case "forget":
                del self.sessions[step.id]
            case "note":
                self.notes[step.id] = step.version
            case "forget key":
                del self.notes[step.id]
            case "forget card":
                self.sessions[step.id].cards.remove(self._card(step))
            case "correct":
                card = self._card(step)
                card.versions.append((corrected(step), card.versions[-1][1]))
            case "pin":
                card = self._card(step)
                card.versions.append((card.fact, True))
            case "undo":
                self._card(step).versions.pop()

    def _card(self, step: Step) -> CardLife:
        return next(card for card in self.sessions[step.id].cards if card.fact == step.text)

    # ------------------------------------------------------------ what a memory must show

    def expected(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            id: (life.turns, sorted((card.fact, card.versions[-1][1]) for card in life.cards))
            for id, life in self.sessions.items()
        }
        return shown | {key: note(version) for key, version in self.notes.items()}


async def observed(memory: AsyncMemory, name: str = "") -> dict[str, Any]:
    """The same view of a real memory."""
    shown: dict[str, Any] = {}
    pinned = {each.after.id: each.pinned for each in await memory.corrections()}
    for each in await memory.notes(name):
        shown[each.key] = (each.text, each.value, dict(each.labels))
    for record in await memory.sessions():
        if record.id.startswith(f"{name}s"):
            words = [turn.text for turn in (await memory.session(record.id)).turns]
            cards = await memory.cards(session=record.id, limit=10_000)
            facts = sorted((card.fact, pinned.get(card.id, False)) for card in cards)
            shown[record.id] = (words, facts)
    return shown


def note(version: int) -> tuple[str, Any, dict[str, str]]:
    """Text, value and labels of a note."""
    return f"Shelf {version} is blue.", {"version": version}, {"topic": f"t{version}"}


def corrected(step: Step) -> str:
    return f"keeps a mule called fixed-{step.version} in Cork"


async def perform(memory: AsyncMemory, step: Step) -> None:
    match step.verb:
        case "remember":
            done = await memory.remember(session(step.id, step.version))
            assert done.state == "stored", done.reason
        case "keep":
            await memory.keep(session(step.id, step.version))
        case "append":
            turn = {"speaker": "User", "text": step.text, "key": step.text}
            await memory.append([turn], id=step.id)
        case "rebuild":
            await memory.rebuild(step.id)
        case "forget":
            await memory.forget(session=step.id)
        case "note":
            text, value, labels = note(step.version)
            await memory.note(text, key=step.id, value=value, labels=labels)
        case "forget key":
            await memory.forget(key=step.id)
        case _:
            await _change_card(memory, step)


async def _change_card(memory: AsyncMemory, step: Step) -> None:
    cards = await memory.cards(session=step.id, limit=10_000)
    found = {card.fact: card.id for card in cards}
    assert step.text in found, f"{step}: the session's cards are {sorted(found)}"
    id = found[step.text]
    match step.verb:
        case "forget card":
            await memory.forget(card=id)
        case "correct":
            await memory.correct(id, fact=corrected(step))
        case "pin":
            await memory.pin(id)
        case "undo":
            await memory.undo(id)
