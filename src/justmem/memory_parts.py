"""What a memory is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from justmem.domain import Budget, Profile, Retention
from justmem.intake.redaction import Redact
from justmem.ports import Answerer, Embedder, Extractor, Language, Planner, Reranker

_BUDGET, _RETENTION, _PROFILE = Budget(), Retention(), Profile()


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything of a memory but its store. Many spaces can share it. Without an extractor, a
    planner or an answerer, the rules of the language make cards, plan or answer.

    `redact` removes secrets before anything is stored or sent to a model. `concurrency` is the
    number of sessions whose cards are made at the same time. `clock` returns the current time: the
    default of `at`, the day that tokens are counted for, the times in the change log. `actor` is
    the name in the change log. `log_reads` logs reads too.
    """

    embedder: Embedder
    language: Language
    extractor: Extractor | None = None
    planner: Planner | None = None
    answerer: Answerer | None = None
    reranker: Reranker | None = None
    budget: Budget = _BUDGET
    retention: Retention = _RETENTION
    profile: Profile = _PROFILE
    redact: Redact | None = None
    concurrency: int = 4
    clock: Callable[[], datetime] = datetime.now
    actor: str = "program"
    log_reads: bool = False
