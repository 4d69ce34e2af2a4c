"""Where a hostile text stands in a prompt: inside its fence, on its own line, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from justmem.answer import answering_prompt
from justmem.domain import Candidate, Card, Evidence, Plan, Session, Source, Turn
from justmem.extract.model import extraction_prompt
from justmem.plan import planning_prompt
from justmem.prompts import load
from justmem.prompts.evidence import LEAD
from justmem_eval.benchmarks import Case, Gold, Question
from justmem_eval.judging import Judge, instruction, parse
from torture.hostile import Hostile

AT = datetime(2024, 5, 20, 20, 0)
_DAY = r"\w+day 2024-05-20"


def check(hostile: Hostile) -> None:
    seen = planning_prompt(hostile.text, AT).mark  # a text may know the tags of earlier prompts
    closing = "".join(f"\n</{tag}-{seen}>" for tag in ("session", "memory", "source", "question"))
    for stage in (_extraction, _planning, _answering, _noting, _judging):
        stage(hostile.text)
        stage(hostile.text + closing)


def blocks(user: str, mark: str, *tags: str) -> list[str]:
    """What stands in each fence. The prompt is these fences, in this order, and the mark of its
    tags stands nowhere else."""
    lines = user.split("\n")
    marks = [n for n, line in enumerate(lines) if mark in line]
    expected = [each for tag in tags for each in (f"<{tag}-{mark}>", f"</{tag}-{mark}>")]
    assert [lines[n] for n in marks] == expected, f"the fences are {[lines[n] for n in marks]}"
    pairs = zip(marks[::2], marks[1::2], strict=True)
    return ["\n".join(lines[start + 1 : end]) for start, end in pairs]


def outside(user: str, mark: str) -> str:
    """What is left of a prompt without its fences."""
    fences = rf"^<([a-z]+)-{mark}>\n.*?^</\1-{mark}>$"
    return re.sub(fences, r"<\1>", user, flags=re.MULTILINE | re.DOTALL)


def session_of(text: str) -> Session:
    name = " ".join(text.split())[:200]
    turns = (
        Turn(speaker="Ana", text="I bought a lamp for 80 euros."),
        Turn(speaker="Ana", text=text),
        Turn(speaker="Assistant", role="assistant", text=text),
        Turn(speaker=name or "Ana", text="My sister is called Ines."),
    )
    return Session(id="hostile", at=AT, turns=turns)


# ---------------------------------------------------------------- our own stages


def _extraction(text: str) -> None:
    session = session_of(text)
    said = [(n, turn) for n, turn in session.user_side if turn.text.strip()]
    prompt = extraction_prompt(session, said)
    assert prompt.system == load("extract")
    (inside,) = blocks(prompt.user, prompt.mark, "session")
    assert re.fullmatch(rf"Session of {_DAY} 20:00\n<session>", outside(prompt.user, prompt.mark))
    _lines(inside, [f"{n} " for n, _ in said])


def _planning(text: str) -> None:
    prompt = planning_prompt(text, AT)
    assert prompt.system == load("plan")
    (inside,) = blocks(prompt.user, prompt.mark, "question")
    assert re.fullmatch(rf"Asked on {_DAY}\n<question>", outside(prompt.user, prompt.mark))
    assert len(inside) <= 2003
    _lines(inside, [""])


def evidence_of(text: str, *, speaker: str | None = None) -> Evidence:
    session = session_of(text)
    cards = [
        Card(
            id=f"c{n}",
            subject=" ".join(subject.split()) or "Ana",
            fact=" ".join(fact.split()) or "was there",
            session_id=session.id,
            said_at=AT,
            turns=(2,),
        )
        for n, (subject, fact) in enumerate([("Ana", text), (text, "bought a lamp")])
    ]
    turns = tuple(enumerate(session.turns, 1))
    return Evidence(
        question=text,
        at=AT,
        speaker=speaker,
        plan=Plan(needs_source=True),
        chosen=tuple(Candidate(card=card) for card in cards),
        cards=tuple(cards),
        sources=(Source(session_id=session.id, at=AT, turns=turns, whole=True, tokens=50),),
    )


def _answering(text: str) -> None:
    for speaker in (None, "Ana Maria", text):
        evidence = evidence_of(text, speaker=speaker)
        prompt = answering_prompt(evidence)
        assert prompt.system == f"{load('answer')}\n\n{load('operations/lookup')}"
        apart = f"<asker-{prompt.mark}>" in prompt.user.split("\n")
        asker = ["asker"] if apart else []
        memory, source, *_ = blocks(
            prompt.user, prompt.mark, "memory", "source", *asker, "question"
        )
        name = r"(, asked by [^\W\d_]{1,40}\.?( [^\W\d_]{1,40})?\.?)?"
        shape = rf"<memory>\nConversation of {_DAY}:\n<source>\nTime of the question: {_DAY}"
        shape += "\n<asker>\n<question>" if apart else rf"{name}\n<question>"
        assert re.fullmatch(shape, outside(prompt.user, prompt.mark)), outside(
            prompt.user, prompt.mark
        )
        _lines(memory, ["1 ", "2 "])
        _turns(source, evidence.sources[0])


def _noting(text: str) -> None:
    evidence = evidence_of(text)
    made, lead = evidence.prompt(100_000), LEAD.format(at=AT)
    mark = made.removeprefix(f"{lead}\n<memory-").partition(">")[0]
    (inside,) = blocks(made, mark, "memory")
    assert outside(made, mark) == f"{lead}\n<memory>"
    lines = [line for line in inside.splitlines() if not line.startswith("  ")]
    _lines("\n".join(lines), ["2024-05-20 "] * 2 + ["Conversation"] + ["- [hostile#"] * 4)


def _lines(inside: str, starts: Sequence[str]) -> None:
    """One line each, whatever counts as the end of one."""
    lines = inside.splitlines()
    assert len(lines) <= len(starts), f"{len(lines)} lines for {len(starts)}"
    for line, start in zip(lines, starts, strict=len(lines) == len(starts)):
        assert line.startswith(start), f"{line[:60]!r} does not begin with {start!r}"


def _turns(inside: str, source: Source) -> None:
    """Lines that pass for a turn are turns."""
    numbers = [f"s1.{n}" for n, _ in source.turns]
    found = [line.split(" ")[0] for line in inside.splitlines() if re.match(r"\W*s\d+\.\d", line)]
    assert [each for each in found if each[0] == "s"] == numbers, found


# ---------------------------------------------------------------- the judge


def _judging(text: str) -> None:
    case = Case(
        question=Question(id="q", text="What did the lamp cost?", at=AT),
        gold=Gold(answer="80 euros", category="single-hop"),
        history="h",
    )
    model: Any = None
    prompt = Judge(model, "locomo").prompt(case, text)
    assert prompt.system == instruction("locomo", "strict")
    blocks(prompt.user, prompt.mark, "category", "question", "answer", "response")


def check_verdict(reply: str) -> None:
    """A judge that talks has given no verdict."""
    assert parse(reply) is None, reply
