"""What a system may see, and what only metrics and judge may see: two types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from justmem.domain import Session, Value

TurnKey = tuple[str, int]  # session id, turn number from 1


class Question(Value):
    """All that a system gets. `remark`: to be replied to, not answered; `speaker`: who makes it,
    where the benchmark says so; `as_of`: the day whose memory is asked for."""

    id: str
    text: str
    at: datetime
    remark: bool = False
    speaker: str | None = None
    as_of: date | None = None


class Gold(Value):
    """Never shown to a system."""

    answer: str
    category: str
    turns: frozenset[TurnKey] = frozenset()
    marked: frozenset[str] = frozenset()  # sessions with evidence, where the turns are unknown too
    abstain: bool = False  # memory does not hold the answer: to say so is right
    cue: str = ""  # LoCoMo-Plus: the words a reply should bear in mind
    corrected: str = ""  # the answer by a corrected key, where it differs from the official one
    rubric: tuple[str, ...] = ()  # BEAM: what a response must hold; one judge call for each

    @property
    def sessions(self) -> frozenset[str]:
        return self.marked | {session for session, _ in self.turns}

    @property
    def has_evidence(self) -> bool:
        return bool(self.sessions) and not self.abstain

    @property
    def judged(self) -> bool:
        """LoCoMo's category 5 has no gold answer: its refusals are counted, not judged."""
        return bool(self.answer or self.cue or self.rubric)


@dataclass(frozen=True, slots=True)
class Case:
    question: Question
    gold: Gold
    history: str


@dataclass(frozen=True, slots=True)
class HandCorrection:
    """A card of a turn that has these words is corrected by hand."""

    session: str
    turn: int
    words: str
    changes: Mapping[str, str]  # arguments of `correct`


@dataclass(frozen=True, slots=True)
class History:
    """The sessions in order of time. `base`, `added` and `corrections`: the same as another
    history, with these sessions more and these cards corrected, so that a system may build the
    common part once."""

    id: str
    sessions: Sequence[Session]
    base: str = ""
    added: Sequence[Session] = ()
    corrections: Sequence[HandCorrection] = ()


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    cases: Sequence[Case]
    history: Callable[[str], History]
    notes: Sequence[str] = ()  # every irregularity of the data, named
    files: Mapping[str, str] = field(default_factory=dict)  # name -> sha256

    def limited(self, count: int | None) -> Benchmark:
        """About `count` cases, spread evenly over categories and the file."""
        if count is None or count >= len(self.cases):
            return self
        ranked = sorted(range(len(self.cases)), key=lambda i: (self.cases[i].gold.category, i))
        step = len(ranked) / count
        kept = sorted(ranked[int(i * step)] for i in range(count))
        return replace(self, cases=[self.cases[i] for i in kept])

    def only(self, keep: Callable[[Case], bool]) -> Benchmark:
        return replace(self, cases=[case for case in self.cases if keep(case)])

    def of(self, histories: Sequence[str]) -> Benchmark:
        return self.only(lambda case: case.history in histories)

    @property
    def histories(self) -> list[str]:
        """The ids of the histories that are asked about."""
        return list(dict.fromkeys(case.history for case in self.cases))
