"""BEAM's scorer: each criterion of a rubric is scored 0, 0.5 or 1, and a question gets the mean.

For event ordering, the lines of the response are matched with the events of the rubric, and the
score is Kendall's tau-b between the two orders, scaled to 0 to 1. Blank lines are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from math import sqrt

from justmem.domain import Call
from justmem.errors import ModelNonsense
from justmem.ports import LanguageModel, Prompt
from justmem_eval.benchmarks import Case
from justmem_eval.benchmarks.beam import ORDERING
from justmem_eval.judging import Verdict, parse
from justmem_eval.text import fence, new_mark

NAME = "rubric"
_LONGEST = 100  # tokens of a reply
_SCORES = (0.0, 0.5, 1.0)
_SCORE = {
    "type": "object",
    "properties": {"score": {"type": "number", "enum": list(_SCORES)}},
    "required": ["score"],
    "additionalProperties": False,
}
_SAME = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def instruction() -> str:
    return _text("rubric") + "\n\n" + _text("same")


def _text(kind: str) -> str:
    place = files("justmem_eval").joinpath("prompts", "judge", f"beam.{kind}.md")
    return place.read_text("utf-8").strip()


class RubricJudge:
    name = NAME

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def judge(self, case: Case, response: str, *, sample: int) -> Verdict:
        """An empty response scores 0 without asking."""
        id = case.question.id
        if not response.strip():
            return Verdict(id=id, right=False, score=0.0, said="(no answer)")
        calls: list[Call] = []
        if case.gold.category == ORDERING:
            score = await self._ordered(case, response, sample, calls)
            return Verdict(id=id, right=score > 0.5, score=score, calls=tuple(calls))
        scores = [
            await self._score(case, item, response, sample, calls) for item in case.gold.rubric
        ]
        mean = sum(scores) / len(scores)
        return Verdict(id=id, right=mean > 0.5, score=mean, said=str(scores), calls=tuple(calls))

    async def _score(
        self, case: Case, item: str, response: str, sample: int, calls: list[Call]
    ) -> float:
        shown = {"question": case.question.text, "criterion": item, "response": response}
        text = await self._asked(_text("rubric"), shown, _SCORE, sample, calls)
        try:
            score = float(json.loads(text)["score"])
        except (ValueError, KeyError, TypeError):
            score = -1.0
        if score not in _SCORES:
            raise ModelNonsense(f"The judge gave no score: {text[:200]!r}", *calls[-1:])
        return score

    async def _ordered(self, case: Case, response: str, sample: int, calls: list[Call]) -> float:
        lines = [line.strip() for line in response.splitlines() if line.strip()]
        events = list(case.gold.rubric)
        told: list[str] = []
        for line in lines:
            found = line
            for event in (each for each in events if each not in told):
                shown = {"first": event, "second": line}
                text = await self._asked(_text("same"), shown, _SAME, sample, calls)
                if parse(text):
                    found = event
                    break
            told.append(found)
        return ordering(events, told)

    async def _asked(
        self,
        system: str,
        shown: dict[str, str],
        schema: dict[str, object],
        sample: int,
        calls: list[Call],
    ) -> str:
        mark = new_mark()
        user = "\n".join(fence(name, text, mark) for name, text in shown.items())
        prompt = Prompt("answer", system, user, schema, _LONGEST, mark=mark)
        completion = await self._model.complete(prompt, sample=sample)
        calls.append(completion.call)
        return completion.text


def ordering(events: Sequence[str], told: Sequence[str]) -> float:
    """Kendall's tau-b of two orders, from 0 (reversed) to 1 (the same). What one of them lacks
    comes last in it."""
    union = list(dict.fromkeys([*events, *told]))
    ranks = [
        [order.index(each) if each in order else len(union) for each in union]
        for order in (list(events), list(told))
    ]
    agree = ties_first = ties_second = pairs = 0
    for i in range(len(union)):
        for j in range(i):
            first = ranks[0][i] - ranks[0][j]
            second = ranks[1][i] - ranks[1][j]
            pairs += 1
            ties_first += first == 0
            ties_second += second == 0
            agree += (first * second > 0) - (first * second < 0)
    below = sqrt((pairs - ties_first) * (pairs - ties_second))
    if not below:  # one event, or nothing in common: all or nothing
        return float(list(events) == list(told))
    return (agree / below + 1) / 2
