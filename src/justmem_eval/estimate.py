"""What a run will cost, before it starts: estimated from the texts and the usual sizes."""

from __future__ import annotations

from justmem.domain import Session, Value
from justmem_eval.benchmarks import Benchmark
from justmem_eval.protocol import Plan, judged
from justmem_eval.text import count

# Tokens of JustMem's instructions; a test compares them with its prompts.
EXTRACTING = 450
PLANNING = 210
ANSWERING = 290
# Taken from runs on LoCoMo: what replies come to, and what ten cards with their instructions do.
CARDS_SHARE = 0.45  # of the tokens of what was said
PLAN = 50
_ANSWER = 60
_EVIDENCE = {"none": 200, "justmem": 900, "naive_rag": 1200}
_INSTRUCTION = 200
_JUDGING = 420


class Price(Value):
    """Of a million tokens, in whatever currency."""

    given: float = 0.0
    made: float = 0.0


class Estimate(Value):
    calls: int
    tokens_in: int
    tokens_out: int

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def cost(self, price: Price) -> float:
        return (self.tokens_in * price.given + self.tokens_out * price.made) / 1e6

    def plus(self, other: Estimate) -> Estimate:
        return Estimate(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )


NOTHING = Estimate(calls=0, tokens_in=0, tokens_out=0)


def estimate(
    benchmark: Benchmark, system: str, plan: Plan, *, build: bool, planned: bool, judge: bool
) -> Estimate | None:
    """None for a peer: what it does is known only when it has done it."""
    if system != "fulltext" and system not in _EVIDENCE:
        return None
    total = NOTHING
    if system == "justmem" and build:
        total = total.plus(_building(benchmark))
    if system == "justmem" and planned:
        total = total.plus(_planning(benchmark))
    total = total.plus(_answering(benchmark, system, plan.runs))
    if judge:
        # Two judges; right and wrong answers are planted for each.
        asked = 2 * (sum(map(judged, benchmark.cases)) * plan.runs + 2 * plan.planted)
        total = total.plus(Estimate(calls=asked, tokens_in=asked * _JUDGING, tokens_out=asked * 10))
    return total


def _building(benchmark: Benchmark) -> Estimate:
    sessions: dict[str, Session] = {}
    for id in dict.fromkeys(case.history for case in benchmark.cases):
        history = benchmark.history(id)
        base = history.base or id
        extended = history.added if history.base else history.sessions
        sessions |= {f"{id}/{session.id}": session for session in extended}
        if history.base:
            sessions |= {f"{base}/{s.id}": s for s in benchmark.history(base).sessions}
    said = sum(map(spoken, sessions.values()))
    given = EXTRACTING * len(sessions) + said
    return Estimate(calls=len(sessions), tokens_in=given, tokens_out=round(CARDS_SHARE * said))


def spoken(session: Session) -> int:
    """Tokens of what the user side says, as an extraction prompt shows it."""
    return count("\n".join(f"{n} {t.speaker}: {t.text}" for n, t in session.user_side))


def _planning(benchmark: Benchmark) -> Estimate:
    given = sum(PLANNING + count(case.question.text) for case in benchmark.cases)
    asked = len(benchmark.cases)
    return Estimate(calls=asked, tokens_in=given, tokens_out=PLAN * asked)


def _answering(benchmark: Benchmark, system: str, runs: int) -> Estimate:
    asked = len(benchmark.cases)
    if system == "fulltext":
        sizes: dict[str, int] = {}
        for case in benchmark.cases:
            if case.history not in sizes:
                turns = (t for s in benchmark.history(case.history).sessions for t in s.turns)
                sizes[case.history] = sum(count(turn.text) + 4 for turn in turns)
        given = sum(sizes[case.history] + _INSTRUCTION for case in benchmark.cases)
    else:
        given = asked * _EVIDENCE[system]
    return Estimate(calls=runs * asked, tokens_in=runs * given, tokens_out=runs * asked * _ANSWER)
