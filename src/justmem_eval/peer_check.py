"""A quick trial of an adapter: three sessions in, the process killed, a new one asked.

It shows in a minute what would spoil a run of hours: a store that does not survive its process,
an embedder that the server does not know, evidence without a usable source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn, Value
from justmem_eval import runs
from justmem_eval.benchmarks import Benchmark, Case, Gold, History, Question
from justmem_eval.metrics import turns_of
from justmem_eval.records import Files, Retrieved, Usage
from justmem_eval.runs import PeerSettings, Settings

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


class Checked(Value):
    found: tuple[Retrieved, ...]
    right: tuple[bool, ...]  # one of the first ten pieces comes from the turn that answers
    construction: Usage
    inference: Usage
    problems: tuple[str, ...]


async def check(name: str, model: str, peer: PeerSettings, folder: Path) -> Checked:
    """One run of the peer, as any other."""
    given = Settings(benchmark=BENCHMARK, data=folder, system=name, model=model, runs=0, peer=peer)
    await runs.run(given, folder, folder)
    files = Files(folder)
    (built,), found = files.memory.items(), files.evidence.items()
    pairs = files.retrieved(BENCHMARK.cases)
    right = [bool(turns_of(row, "ten") & case.gold.turns) for case, row in pairs]
    construction = built.usage or Usage()
    inference = Usage()
    for row in found:
        inference = inference.plus(row.usage or Usage())
    failed = [f"A session could not be built: {each}." for each in built.failed]
    failed += [f"{each.error}." for each in (built, *found) if each.error]
    if broken := construction.failed + inference.failed:
        failed.append(f"The model server refused {broken} requests: see the adapter's log.")
    return Checked(
        found=tuple(row for _, row in pairs),
        right=tuple(right),
        construction=construction,
        inference=inference,
        problems=(*failed, *_problems([row for _, row in pairs], right)),
    )


def _problems(rows: Sequence[Retrieved], right: Sequence[bool]) -> list[str]:
    empty = [_ASKED[int(row.id[1:])][0] for row in rows if not row.chosen]
    found = [f"No evidence for: {text}" for text in empty]
    if rows and not found and sum(right) < _ENOUGH:
        found.append(
            f"Only {sum(right)} of {len(rows)} questions have evidence from the right turn."
        )
    longest = max((len(piece.place[1]) for row in rows for piece in row.chosen), default=0)
    if longest > _MOST_TURNS:
        found.append(
            f"One piece of evidence names {longest} turns. Recall would count all of them: name "
            "only the turns that the text comes from, or none, so that it is aligned."
        )
    return found


def shown(checked: Checked) -> str:
    lines = [
        f"{len(HISTORY.sessions)} sessions built, the process killed, "
        f"{len(checked.found)} questions asked of a new one.",
    ]
    for row, right in zip(checked.found, checked.right, strict=True):
        lines.append(f"  {_ASKED[int(row.id[1:])][0]}")
        lines.append(
            f"    right turn {'found' if right else 'NOT found'}; {len(row.chosen)} pieces, "
            f"{sum(piece.aligned for piece in row.chosen)} placed by their words, "
            f"{row.evidence_tokens} tokens"
        )
    for phase, used in (("construction", checked.construction), ("inference", checked.inference)):
        estimated = f", {used.estimated} of the calls estimated" if used.estimated else ""
        lines.append(
            f"  {phase}: {used.requests} calls, {used.tokens:,} tokens{estimated}; "
            f"{used.embeddings} requests for vectors, {used.embedding:,} tokens"
        )
    lines += [f"  PROBLEM: {problem}" for problem in checked.problems]
    return "\n".join([*lines, "failed" if checked.problems else "passed"])
