"""What memory adds to turns that need none: greetings, arithmetic, general knowledge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from importlib.resources import files

from justmem_eval.benchmarks import Benchmark, Case, Gold, Question


def no_memory_turns() -> list[str]:
    text = files("justmem_eval").joinpath("data", "no_memory.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]


def asked_of(benchmark: Benchmark, histories: int) -> Benchmark:
    """The first histories, asked what needs no memory a day after their last session."""
    cases = []
    for id in list(dict.fromkeys(case.history for case in benchmark.cases))[:histories]:
        at = max(session.at for session in benchmark.history(id).sessions) + timedelta(days=1)
        for number, text in enumerate(no_memory_turns()):
            asked = Question(id=f"{id}/harm-{number}", text=text, at=at)
            cases.append(Case(asked, Gold(answer="", category="no memory"), id))
    return replace(benchmark, cases=cases)
