"""What a run will cost, before it starts: estimated from the texts and the usual sizes."""

from __future__ import annotations

from dataclasses import dataclass

from justmem.domain import Session
from justmem_eval.benchmarks import Benchmark
from justmem_eval.settings import Settings
from justmem_eval.text import count

# Tokens of JustMem's instructions; a test compares them with its prompts.
EXTRACTING = 450
PLANNING = 210
# Taken from runs on LoCoMo: what replies come to, and what ten cards with their instructions do.
_CARDS_SHARE = 0.45  # of the tokens of what was said
_PLAN, _ANSWER, _VERDICT = 50, 60, 10
_EVIDENCE = {"none": 200, "justmem": 900, "naive_rag": 1200}
_INSTRUCTION = 200
_JUDGING = 420


@dataclass(slots=True)
class Estimate:
    calls: int = 0
    tokens_in: float = 0.0
    tokens_out: float = 0.0

    @property
    def tokens(self) -> float:
        return self.tokens_in + self.tokens_out

    def add(self, calls: int, tokens_in: float, tokens_out: float) -> None:
        self.calls += calls
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out


def estimate(given: Settings) -> Estimate:
    """Nothing for a peer: what it does is known only when it has done it."""
    total, benchmark = Estimate(), given.benchmark
    if given.model == "rules" or given.is_peer:
        return total
    asked = len(benchmark.cases)
    if given.system == "justmem" and given.cards_by == "model":
        # A session of several histories is asked about once.
        told = [s for id in benchmark.histories for s in benchmark.history(id).sessions]
        sessions = {(session.at, session.turns): session for session in told}.values()
        said = sum(map(spoken, sessions))
        total.add(len(sessions), EXTRACTING * len(sessions) + said, _CARDS_SHARE * said)
    if given.system == "justmem" and given.plans_by == "model":
        questions = sum(count(case.question.text) for case in benchmark.cases)
        total.add(asked, PLANNING * asked + questions, _PLAN * asked)
    shown = asked * _EVIDENCE.get(given.system, 0) or _whole_histories(benchmark)
    total.add(given.runs * asked, given.runs * shown, given.runs * asked * _ANSWER)
    if given.judge != "rules":  # two judges; right and wrong answers are planted for each
        judged = sum(case.gold.judged for case in benchmark.cases)
        verdicts = 2 * (judged * given.runs + 2 * min(judged, given.planted))
        total.add(verdicts, verdicts * _JUDGING, verdicts * _VERDICT)
    return total


def spoken(session: Session) -> int:
    """Tokens of what the user side says, as an extraction prompt shows it."""
    return count("\n".join(f"{n} {t.speaker}: {t.text}" for n, t in session.user_side))


def _whole_histories(benchmark: Benchmark) -> int:
    """Input tokens of answering every question once from its whole history."""
    sizes: dict[str, int] = {}
    for id in benchmark.histories:
        turns = (turn for session in benchmark.history(id).sessions for turn in session.turns)
        sizes[id] = _INSTRUCTION + sum(count(turn.text) + 4 for turn in turns)
    return sum(sizes[case.history] for case in benchmark.cases)
