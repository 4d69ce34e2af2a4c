"""The judge: prompts in our own words for each benchmark, temperature 0, strict parsing.

A reply that does not parse is an error, counted separately, never a verdict. How often the judge
accepts planted wrong answers and refuses planted right ones is printed with every accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import sqrt
from statistics import fmean
from typing import Any, Literal

import numpy as np

from justmem.domain import Call
from justmem.errors import ModelNonsense
from justmem.ports import Prompt
from justmem_eval.benchmarks import Case, beam
from justmem_eval.models import KeptModel
from justmem_eval.records import Verdict
from justmem_eval.text import content, fence, new_mark

Strictness = Literal["strict", "lenient"]
_LONGEST = 200  # tokens of a reply
_RIGHT = frozenset({"correct", "yes", "right", "true"})
_WRONG = frozenset({"wrong", "incorrect", "no", "false"})


def _schema(name: str, kind: str, *values: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {name: {"type": kind, "enum": list(values)}},
        "required": [name],
        "additionalProperties": False,
    }


_VERDICT = _schema("verdict", "string", "correct", "wrong")


class Judge:
    def __init__(self, model: KeptModel, benchmark: str, strictness: Strictness = "strict") -> None:
        self._model = model
        self.instruction = instruction(benchmark, strictness)
        self.name: str = strictness

    def prompt(self, case: Case, response: str) -> Prompt:
        gold = case.gold
        shown = {
            "category": "not in memory" if gold.abstain else gold.category,
            "cue": gold.cue,
            "question": case.question.text,
            "answer": gold.answer,
            "response": response,
        }
        return _prompt(self.instruction, shown, _VERDICT)

    async def judge(self, case: Case, response: str, *, sample: int) -> Verdict:
        """An empty response is wrong without asking."""
        if not response.strip():
            return Verdict(id=case.question.id, right=False, said="(no answer)")
        completion = await self._model.complete(self.prompt(case, response), sample=sample)
        right = parse(completion.text)
        if right is None:
            said = completion.text.strip()[:200]
            raise ModelNonsense(f"The judge gave no verdict: {said!r}", completion.call)
        return Verdict(
            id=case.question.id, right=right, said=completion.text, calls=(completion.call,)
        )


# Benchmarks that are judged as another one: people who talk to each other, or to an assistant.
_LIKE = {"realtalk": "locomo", "longmemeval_m": "longmemeval", "living": "longmemeval"}


def instruction(benchmark: str, strictness: str) -> str:
    name = f"{_LIKE.get(benchmark, benchmark)}.{strictness}.md"
    place = files("justmem_eval").joinpath("prompts", "judge", name)
    return place.read_text("utf-8").strip()


def _prompt(system: str, shown: Mapping[str, str], schema: dict[str, object]) -> Prompt:
    mark = new_mark()
    user = "\n".join(fence(name, text, mark) for name, text in shown.items() if text)
    return Prompt("answer", system, user, schema, _LONGEST, mark=mark)


def parse(text: str) -> bool | None:
    """The verdict, if the reply is one and nothing else: a JSON object with it, or one word.
    "incorrect" is not "correct"."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, Mapping):
        value = value.get("verdict") if len(value) == 1 else None
    word = str(value).strip(" \n\t.!\"'*`").lower()
    return True if word in _RIGHT else False if word in _WRONG else None


def corrected(case: Case) -> Case | None:
    """The same question with the corrected answer as its gold, if there is one."""
    if not case.gold.corrected:
        return None
    gold = case.gold.model_copy(update={"answer": case.gold.corrected})
    return replace(case, gold=gold)


# ---------------------------------------------------------------- planted answers


@dataclass(frozen=True, slots=True)
class Planted:
    """An answer that is right or wrong for sure, to measure the judge."""

    case: Case
    text: str
    right: bool

    @property
    def id(self) -> str:
        return f"{'right' if self.right else 'wrong'}/{self.case.question.id}"


def planted(cases: Sequence[Case], most: int) -> list[Planted]:
    """Up to `most` right and as many wrong answers. Right: the gold answer in a sentence. Wrong:
    another question's gold, of the same category if there is one, without a word in common. For
    LoCoMo-Plus, a reply that recalls the item's own cue or another item's."""
    asked = [case for case in cases if case.gold.answer or case.gold.cue]
    step = max(1, len(asked) // most) if most else 1
    spread = [*asked[::step], *(case for n, case in enumerate(asked) if n % step)]
    right = [Planted(case, _told(case), True) for case in spread if not case.gold.abstain]
    others = ((case, _other(case, asked)) for case in spread)
    wrong = [Planted(case, _told(other), False) for case, other in others if other]
    return [*right[:most], *wrong[:most]]


def _told(case: Case) -> str:
    if case.gold.cue:
        return f"I remember what you told me: {case.gold.cue.splitlines()[0].partition(': ')[2]}"
    return f"From what was said: {case.gold.answer}"


def _other(case: Case, asked: Sequence[Case]) -> Case | None:
    place, gold = asked.index(case), case.gold
    said = set(content(gold.answer))
    later = [*asked[place + 1 :], *asked[:place]]
    for other in sorted(later, key=lambda other: other.gold.category != gold.category):
        if other.gold.cue and other.gold.cue != gold.cue:
            return other
        answer = "" if other.gold.abstain else other.gold.answer
        if answer and said.isdisjoint(content(answer)):
            return other
    return None


# ---------------------------------------------------------------- BEAM

_SCORES = (0.0, 0.5, 1.0)
_SCORE = _schema("score", "number", *_SCORES)
_SAME = _schema("verdict", "string", "yes", "no")
Ask = Callable[..., Awaitable[str]]


class RubricJudge:
    """BEAM's scorer: each criterion of a rubric is scored 0, 0.5 or 1, and a question gets the
    mean. For event ordering, the lines of the response are matched with the events of the rubric,
    and the score is Kendall's tau-b between the two orders, scaled to 0 to 1."""

    name = "rubric"

    def __init__(self, model: KeptModel) -> None:
        self._model = model
        self._score_by = instruction("beam", "rubric")
        self._same_by = instruction("beam", "same")
        self.instruction = f"{self._score_by}\n\n{self._same_by}"

    async def judge(self, case: Case, response: str, *, sample: int) -> Verdict:
        """An empty response scores 0 without asking."""
        calls: list[Call] = []

        async def ask(system: str, schema: dict[str, object], **shown: str) -> str:
            completion = await self._model.complete(_prompt(system, shown, schema), sample=sample)
            calls.append(completion.call)
            return completion.text

        scores = [0.0]
        if response.strip() and case.gold.category == beam.ORDERING:
            scores = [await self._ordered(ask, case, response)]
        elif response.strip():
            scores = [await self._score(ask, case, item, response) for item in case.gold.rubric]
        return Verdict(
            id=case.question.id,
            right=fmean(scores) > 0.5,
            score=fmean(scores),
            said=str(scores),
            calls=tuple(calls),
        )

    async def _score(self, ask: Ask, case: Case, item: str, response: str) -> float:
        asked = case.question.text
        text = await ask(self._score_by, _SCORE, question=asked, criterion=item, response=response)
        try:
            score = float(json.loads(text)["score"])
        except (ValueError, KeyError, TypeError):
            score = -1.0
        if score not in _SCORES:
            raise ModelNonsense(f"The judge gave no score: {text[:200]!r}")
        return score

    async def _ordered(self, ask: Ask, case: Case, response: str) -> float:
        events = list(case.gold.rubric)
        told: list[str] = []
        for line in filter(None, map(str.strip, response.splitlines())):
            found = line
            for event in (each for each in events if each not in told):
                if parse(await ask(self._same_by, _SAME, first=event, second=line)):
                    found = event
                    break
            told.append(found)
        return ordering(events, told)


def ordering(events: Sequence[str], told: Sequence[str]) -> float:
    """Kendall's tau-b of two orders, from 0 (reversed) to 1 (the same). What one of them lacks
    comes last in it."""
    union = dict.fromkeys([*events, *told])
    orders = [{each: place for place, each in enumerate(order)} for order in (events, told)]
    ranks = [np.array([order.get(each, len(union)) for each in union]) for order in orders]
    first, second = (np.sign(np.subtract.outer(rank, rank)) for rank in ranks)
    below = sqrt(np.sum(first != 0) * np.sum(second != 0))
    if not below:  # one event, or nothing in common: all or nothing
        return float(list(events) == list(told))
    return float((np.sum(first * second) / below + 1) / 2)


Judging = Judge | RubricJudge


def judges(benchmark: str, model: KeptModel) -> list[Judging]:
    """The first decides the accuracy."""
    if benchmark in beam.SIZES:
        return [RubricJudge(model)]
    return [Judge(model, benchmark, "strict"), Judge(model, benchmark, "lenient")]
