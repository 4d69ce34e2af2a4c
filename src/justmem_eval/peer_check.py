"""A quick trial of an adapter: three sessions in, the process killed, a new one asked.

It shows in a minute what would spoil a run of hours: a store that does not survive its process,
an embedder that the server does not know, evidence without a usable source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.ports import Embedder
from justmem_eval import runs
from justmem_eval.benchmarks import Benchmark, Case, Gold, History, Question
from justmem_eval.loopback import serve_openai
from justmem_eval.metrics import turns_of
from justmem_eval.records import Files, Record, Retrieved, Usage
from justmem_eval.scripted import Scripted
from justmem_eval.settings import PeerSettings, Settings

_MOST_TURNS = 4  # that one piece may name before its source says too little


def _session(id: str, at: datetime, *said: str) -> Session:
    split = (line.split(": ", 1) for line in said)
    return Session(id=id, at=at, turns=tuple(Turn(speaker=name, text=text) for name, text in split))


# An odd number of turns in the first and the last session: some systems take turns in pairs.
HISTORY = History(
    "peer-check",
    [
        _session(
            "session_1",
            datetime(2024, 3, 4, 9, 15),
            "Nora: Good morning! I signed the lease for a bakery on Harbour Street today.",
            "Tomas: Congratulations! How long did you look for a place?",
            "Nora: Almost two years. My sister Ines will keep the accounts.",
            "Tomas: I have news too. I adopted a greyhound called Biscuit.",
            "Nora: What a lovely name for a dog. Does he race?",
            "Tomas: He used to. Now he sleeps all day on the blue couch.",
            "Nora: I have to run, the plumber is coming at noon.",
        ),
        _session(
            "session_2",
            datetime(2024, 4, 21, 19, 40),
            "Tomas: I ran the half marathon in Porto in one hour and fifty-two minutes.",
            "Nora: Is that your best time?",
            "Tomas: Yes, by three minutes. My left knee hurts, though.",
            "Nora: Rest it. By the way, I am allergic to hazelnuts, so there are none in my cakes.",
        ),
        _session(
            "session_3",
            datetime(2024, 6, 2, 18, 5),
            "Nora: We opened yesterday, and the queue went around the corner.",
            "Tomas: What sold best?",
            "Nora: The cardamom buns. We sold a hundred and forty of them.",
            "Tomas: Next week I start a pottery class on Thursday evenings.",
            "Nora: Make me a bowl, please.",
        ),
    ],
)
# Question, and the session and turn that answer it.
_ASKED = (
    ("What is the name of the greyhound that Tomas adopted?", ("session_1", 4)),
    ("What is Nora allergic to?", ("session_2", 4)),
    ("Which buns sold best when the bakery opened?", ("session_3", 3)),
)
PLANS: Mapping[str, Any] = {text: {} for text, _ in _ASKED}  # nothing is recorded for them
_ENOUGH = 2  # of the questions: a model may lose one fact


def _case(number: int) -> Case:
    text, turn = _ASKED[number]
    asked = Question(id=f"q{number}", text=text, at=datetime(2024, 6, 10, 12, 0))
    gold = Gold(answer="", category="", turns=frozenset({turn}), sessions=frozenset({turn[0]}))
    return Case(asked, gold, HISTORY.id)


BENCHMARK = Benchmark(
    HISTORY.id, [_case(number) for number in range(len(_ASKED))], lambda _: HISTORY
)


def check(
    name: str, model: str, peer: PeerSettings, folder: Path, embedder: Embedder | None = None
) -> Files:
    """One run of the peer, as any other. Without a model, a scripted one replies, and `embedder`
    makes the vectors."""
    given = Settings(benchmark=BENCHMARK, data=folder, system=name, model=model, runs=0, peer=peer)
    if model or embedder is None:
        asyncio.run(runs.run(given, folder, folder))
        return Files(folder)
    with serve_openai(Scripted([HISTORY], embedder, plans=PLANS)) as served:
        peer = replace(peer, embedder=embedder.name, dimensions=embedder.dim)
        return check(name, f"openai:scripted@{served.url}", peer, folder)


def problems(files: Files) -> list[str]:
    """What would spoil a long run."""
    (built,), asked = files.memory.items(), files.evidence.items()
    if built.error:
        return [built.error]
    found = [f"A session could not be built: {each}." for each in built.failed]
    found += [each.error for each in asked if each.error]
    used = _used(built, *asked)
    if used.failed:
        found.append(f"The model server refused {used.failed} requests: see the adapter's log.")
    pairs = files.retrieved(BENCHMARK.cases)
    empty = [f"No evidence for: {c.question.text}" for c, row in pairs if not row.chosen]
    right = sum(is_right(case, row) for case, row in pairs)
    if pairs and not empty and right < _ENOUGH:
        found.append(f"Only {right} of {len(pairs)} questions have evidence from the right turn.")
    longest = max((len(piece.place[1]) for _, row in pairs for piece in row.chosen), default=0)
    if longest > _MOST_TURNS:
        found.append(
            f"One piece of evidence names {longest} turns. Recall would count all of them: name "
            "only the turns that the text comes from, or none, so that it is aligned."
        )
    return [*found, *empty]


def is_right(case: Case, row: Retrieved) -> bool:
    """One of the first ten pieces comes from the turn that answers the question."""
    return bool(turns_of(row, "ten") & case.gold.turns)


def _used(*records: Record) -> Usage:
    used = Usage()
    for each in records:
        used = used.plus(each.usage or Usage())
    return used


def shown(files: Files) -> str:
    pairs = files.retrieved(BENCHMARK.cases)
    lines = [
        f"{len(HISTORY.sessions)} sessions built, the process killed, "
        f"{len(pairs)} questions asked of a new one.",
    ]
    for case, row in pairs:
        lines.append(f"  {case.question.text}")
        lines.append(
            f"    right turn {'found' if is_right(case, row) else 'NOT found'}; "
            f"{len(row.chosen)} pieces, {sum(piece.aligned for piece in row.chosen)} placed by "
            f"their words, {row.evidence_tokens} tokens"
        )
    built, asked = _used(*files.memory.items()), _used(*files.evidence.items())
    for stage, used in (("construction", built), ("inference", asked)):
        estimated = f", {used.estimated} of the calls estimated" if used.estimated else ""
        lines.append(
            f"  {stage}: {used.requests} calls, {used.tokens:,} tokens{estimated}; "
            f"{used.embeddings} requests for vectors, {used.embedding:,} tokens"
        )
    wrong = problems(files)
    lines += [f"  PROBLEM: {problem}" for problem in wrong]
    return "\n".join([*lines, "failed" if wrong else "passed"])
