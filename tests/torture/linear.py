"""Texts that could take long: the time for each must grow in proportion to its length.

A text is a repeated piece with something before and after it. Each is made in several lengths and
given to everything that reads text. The check compares processor time within one run, so that a
slow or busy machine makes no difference.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from justmem import AsyncMemory
from justmem.errors import JustMemError
from justmem.intake.redaction import secrets
from justmem.testing import ScriptedModel
from justmem.transcripts import read_bytes
from torture._fixtures import folder, memory

PROMISE = (
    "The processing time of a text, a question or a model's reply grows in proportion to its "
    "length."
)
COUNT = 300
SAMPLE = 4

SHORTEST, LONGEST = 4_000, 32_000  # characters
STEEPEST = 3  # times as long as in proportion: far below what squares come to
NOISE = 0.02  # seconds: less than this is taken for as much
AT = "2024-05-20T14:30"
ASKED = ("What did I buy?", "What exactly did you say about it?", "How many days after the trip?")


@dataclass(frozen=True)
class Shape:
    piece: str
    before: str = ""
    after: str = ""

    def of(self, length: int) -> str:
        room = length - len(self.before) - len(self.after)
        return self.before + (self.piece * (room // len(self.piece) + 1))[:room] + self.after


# Each of these once took time in proportion to the square of its length.
KNOWN = (
    ("a chat of two people", Shape("?", "I bought a kayak ", "x")),
    ("a question", Shape("How many days ")),
    ("a model's answer", Shape("\n", "```\n", "x")),
    ("a file", Shape("【1†")),
    ("a file", Shape(" ", "a", "b")),
)
_WORDS = """
word Word I my and that you the not or what did before first Anna Dr. e.g. wow, thanks May 2024
1,000 12:30 every twice http://a.b/c?d=e&f a@b.c я ¿Dónde? 去年 User:
"""
PIECES = (
    *"?!.…,;:-–—_*#|/\\@&+=~`'\"’“”()[]{}<> \n\t0aAé我。שم",
    *(f"{word} " for word in _WORDS.split()),
    *("e\u0301", "\u0300", "👍", "I'm ", "Anna and ", "how many ", "two weeks ago ", "20 euros "),
    *("x=1;\n", "- a\n", "| a | b |\n", "**a** ", "a\n\n", "a\tb\n", "\\n", '\\"', '{"a":', "[1,"),
    "【1†",
    *("```\n", "<think>", "[image: a] ", '"a" ', "password is ", "4111 1111 ", "a|b|", "a'b'"),
)  # fmt: skip


def shapes(chance: random.Random) -> list[Shape]:
    """First each piece by itself, then mixtures."""
    made = [Shape(piece, "I bought a kayak ", " x") for piece in PIECES]
    chance.shuffle(made)
    for _ in range(10_000):
        piece = "".join(chance.choice(PIECES) for _ in range(chance.choice((1, 2, 2, 3, 4))))
        before = chance.choice(("", "", "I ", "What ", "{", '"', "```", "[", "(", "I went to "))
        after = chance.choice(("", "", "x", "?", ".", "}", '"', "```", " or x?", " and I did."))
        made.append(Shape(piece, before, after))
    return made


def run(count: int, *, seed: int = 7) -> str:
    """Each number is one text for one reader. Every reader gets a text before the next text."""
    chance = random.Random(seed)
    made = shapes(chance)
    works = list(WORKS)
    steepest, where = 0.0, ""
    for number in range(count):
        turn, place = divmod(number, len(works))
        # The known texts go to the reader that was slow.
        shape = KNOWN[number][1] if number < len(KNOWN) else made[turn]
        name = KNOWN[number][0] if number < len(KNOWN) else works[place]
        growth = _growth(WORKS[name], shape)
        if growth > steepest:
            steepest, where = growth, name
        assert growth <= STEEPEST, (
            f"{name}: it took {growth:.1f} times as long as in proportion to its length, "
            f"for {shape}, number {number} of seed {seed}"
        )
    return f"{count:,} texts, the steepest {steepest:.1f} times in proportion ({where})"


Work = Callable[[str], object]


def _growth(work: Work, shape: Shape) -> float:
    """How many times longer than in proportion the longer texts take, at most. A bad result is
    measured again, because other work may have disturbed it."""
    growth = 0.0
    for _ in range(3):
        growth = _measured(work, shape)
        if growth <= STEEPEST:
            break
    return growth


def _measured(work: Work, shape: Shape) -> float:
    work(shape.of(500))  # warm up
    least = max(NOISE, _seconds(work, shape.of(SHORTEST)))
    growth, length = 0.0, SHORTEST
    while length < LONGEST and growth <= STEEPEST:
        length *= 2
        growth = _seconds(work, shape.of(length)) / least / (length / SHORTEST)
    return growth


def _seconds(work: Work, text: str) -> float:
    start = time.process_time()
    with suppress(JustMemError):  # refused with a sentence: that too must not take long
        work(text)
    return time.process_time() - start


# ---------------------------------------------------------------- what reads text


def _in_memory(does: Callable[[AsyncMemory, str], Awaitable[object]], stage: str = "") -> Work:
    """In a memory of its own, by rules; `stage` is the part whose model replies the text."""

    async def work(text: str, place: Path) -> None:
        parts = {stage: ScriptedModel(lambda _: text)} if stage else {}
        async with memory(place, **{"model": "rules", **parts}) as mine:
            await does(mine, text)

    def run(text: str) -> None:
        with folder() as place:
            asyncio.run(work(text, place))

    return run


async def _chat(memory: AsyncMemory, text: str) -> None:
    """A user and an assistant."""
    turns = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    await memory.remember({"id": "s", "at": AT, "turns": turns})


async def _pair(memory: AsyncMemory, text: str) -> None:
    """Two people, one of whom asks."""
    turns = [{"speaker": "Ana", "text": f"{text}?"}, {"speaker": "Bo", "text": text}]
    await memory.remember({"id": "s", "at": AT, "turns": turns})


async def _many(memory: AsyncMemory, text: str) -> None:
    """The same in many short turns of many speakers."""
    turns = [
        {"speaker": f"Person {n}", "text": text[at : at + 50]}
        for n, at in enumerate(range(0, len(text), 50))
    ]
    await memory.remember({"id": "s", "at": AT, "turns": turns})


async def _asked(memory: AsyncMemory, text: str) -> None:
    await memory.remember([{"role": "user", "content": "I bought a kayak."}], at=AT, id="s")
    await memory.ask(text)


async def _held(memory: AsyncMemory, text: str) -> None:
    await _chat(memory, text)
    await memory.remember([{"speaker": "Ana", "text": text}], at=AT, id="t")
    for question in ASKED:
        await memory.ask(question)
    for card in (await memory.cards())[:3]:
        await memory.source(card.id)


async def _short(memory: AsyncMemory, text: str) -> None:
    await memory.remember([{"role": "user", "content": "I bought a kayak."}], at=AT, id="s")
    await memory.ask("What did I buy?")


def _file(text: str) -> None:
    message = {"author": {"role": "user"}, "content": {"parts": [text]}}
    for data in (
        json.dumps({"at": AT, "turns": [{"role": "user", "content": text}]}),
        json.dumps({"id": "c", "current_node": "n", "mapping": {"n": {"message": message}}}),
        json.dumps([{"conversations_memory": text}]),
        f"20.05.24, 14:30 - Ana: {text}",
        text,
    ):
        with suppress(JustMemError):
            read_bytes(data.encode(), at=AT)


WORKS: dict[str, Work] = {
    "a chat with an assistant": _in_memory(_chat),
    "a chat of two people": _in_memory(_pair),
    "a chat of many": _in_memory(_many),
    "a question": _in_memory(_asked),
    "a question about it": _in_memory(_held),
    "a model's cards": _in_memory(_short, "extractor"),
    "a model's plan": _in_memory(_short, "planner"),
    "a model's answer": _in_memory(_short, "answerer"),
    "redaction": secrets,
    "a file": _file,
}
