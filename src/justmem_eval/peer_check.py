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
from justmem_eval.benchmarks import History, Question
from justmem_eval.meter import Meter, Metered
from justmem_eval.metrics import K
from justmem_eval.records import PeerFailed, Retrieved
from justmem_eval.systems.peer import Peer, PeerMemory

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
_AT = datetime(2024, 6, 10, 12, 0)
# Question, and the turn that answers it.
ASKED = (
    ("What is the name of the greyhound that Tomas adopted?", ("session_1", 4)),
    ("What is Nora allergic to?", ("session_2", 4)),
    ("Which buns sold best when the bakery opened?", ("session_3", 3)),
)
QUESTIONS: Mapping[str, Any] = {text: {} for text, _ in ASKED}  # without recorded plans
_ENOUGH = 2  # of the questions: a model may lose one fact


class Asked(Value):
    question: str
    found: Retrieved
    right: bool  # one of the first ten pieces comes from the turn that answers it


class Checked(Value):
    built: int  # tokens
    failed: tuple[str, ...]  # sessions that could not be built
    asked: tuple[Asked, ...]
    sums: Mapping[str, Metered]  # by phase
    problems: tuple[str, ...]


async def check(
    name: str, python: str, meter: Meter, settings: Mapping[str, Any], folder: Path, **more: Any
) -> Checked:
    """Raises PeerFailed where the adapter fails; whatever else is wrong is a problem."""
    peer = Peer(name, python, folder=folder, meter=meter, settings=settings, **more)
    try:
        meter.enter(name, "construction")
        built = await peer.build(HISTORY)
        meter.enter(name, "inference")
        asked = [await _ask(peer, n) for n in range(len(ASKED))]
    except PeerFailed as error:
        raise PeerFailed(f"{error} Its log: {folder / 'peer.log'}") from error
    finally:
        await peer.close()
    sums = {phase: each for (lane, phase), each in meter.sums().items() if lane == name}
    return Checked(
        built=built.tokens,
        failed=built.failed,
        asked=tuple(asked),
        sums=sums,
        problems=tuple(_problems(asked, built.failed, sums)),
    )


async def _ask(peer: Peer, number: int) -> Asked:
    text, (session, turn) = ASKED[number]
    question = Question(id=f"q{number}", text=text, at=_AT)
    found = await PeerMemory(peer, HISTORY).retrieve(question)
    places = [piece.place for piece in found.chosen[:K]]
    right = any(id == session and turn in turns for id, turns in places)
    return Asked(question=text, found=found, right=right)


def _problems(
    asked: Sequence[Asked], failed: Sequence[str], sums: Mapping[str, Metered]
) -> list[str]:
    found = [f"A session could not be built: {each}." for each in failed]
    found += [f"No evidence for: {each.question}" for each in asked if not each.found.chosen]
    if not found and sum(each.right for each in asked) < _ENOUGH:
        right = sum(each.right for each in asked)
        found.append(f"Only {right} of {len(asked)} questions have evidence from the right turn.")
    longest = max((len(piece.place[1]) for each in asked for piece in each.found.chosen), default=0)
    if longest > _MOST_TURNS:
        found.append(
            f"One piece of evidence names {longest} turns. Recall would count all of them: name "
            "only the turns that the text comes from, or none, so that it is aligned."
        )
    if broken := sum(each.failed for each in sums.values()):
        found.append(f"The model server refused {broken} requests: see the adapter's log.")
    return found


def shown(checked: Checked) -> str:
    lines = [
        f"{len(HISTORY.sessions)} sessions built, the process killed, "
        f"{len(checked.asked)} questions asked of a new one.",
    ]
    for each in checked.asked:
        pieces = each.found.chosen
        lines.append(f"  {each.question}")
        lines.append(
            f"    right turn {'found' if each.right else 'NOT found'}; {len(pieces)} pieces, "
            f"{sum(piece.aligned for piece in pieces)} placed by their words, "
            f"{each.found.evidence_tokens} tokens"
        )
    for phase, used in checked.sums.items():
        estimated = f", {used.estimated} of the calls estimated" if used.estimated else ""
        lines.append(
            f"  {phase}: {used.requests} calls, {used.tokens:,} tokens{estimated}; "
            f"{used.embeddings} requests for vectors, {used.embedding:,} tokens"
        )
    lines += [f"  PROBLEM: {problem}" for problem in checked.problems]
    return "\n".join([*lines, "failed" if checked.problems else "passed"])
