"""The judge: prompts in our own words for each benchmark, temperature 0, strict parsing.

A reply that does not parse is an error, counted separately, never a verdict. How often the judge
accepts planted wrong answers and refuses planted right ones is printed with every accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import sqrt
from typing import Any, Literal, Protocol

from justmem.domain import Call
from justmem.errors import ModelNonsense
from justmem.ports import Prompt
from justmem_eval.benchmarks import Case, beam
from justmem_eval.models import RepeatedModel
from justmem_eval.records import Verdict
from justmem_eval.text import content, fence, new_mark

Strictness = Literal["strict", "lenient"]
_LONGEST = 200  # tokens of a reply
_KEYS = ("verdict", "label", "result", "judgment", "judgement")
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


class Judging(Protocol):
    name: str
    instruction: str

    async def judge(self, case: Case, response: str, *, sample: int) -> Verdict: ...


def judges(benchmark: str, model: RepeatedModel) -> list[Judging]:
    """The first decides the accuracy."""
    if benchmark in beam.SIZES:
        return [RubricJudge(model)]
    return [Judge(model, benchmark, "strict"), Judge(model, benchmark, "lenient")]


class Judge:
    def __init__(
        self, model: RepeatedModel, benchmark: str, strictness: Strictness = "strict"
    ) -> None:
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
    """The verdict, if the reply is one and nothing else: a JSON object with one, or one word.
    "incorrect" is not "correct"."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, Mapping):
        given = [value[key] for key in _KEYS if key in value]
        value = given[0] if len(given) == 1 else None
    if isinstance(value, bool):
        return value
    word = value.strip(" \n\t.!\"'*`").lower() if isinstance(value, str) else ""
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
    wrong = [Planted(case, text, False) for case in spread if (text := _other(case, asked))]
    right = [Planted(case, _same(case), True) for case in spread if not case.gold.abstain]
    return [*right[:most], *wrong[:most]]


def _same(case: Case) -> str:
    gold = case.gold
    return _recalled(gold.cue) if gold.cue else f"From what was said: {gold.answer}"


def _recalled(cue: str) -> str:
    return f"I remember what you told me: {cue.splitlines()[0].partition(': ')[2]}"


def _other(case: Case, asked: Sequence[Case]) -> str:
    place = asked.index(case)
    later = [*asked[place + 1 :], *asked[:place]]
    said = set(content(case.gold.answer))
    alike = [other for other in later if other.gold.category == case.gold.category]
    for other in (*alike, *later):
        gold = other.gold
        if gold.cue and gold.cue != case.gold.cue:
            return _recalled(gold.cue)
        if gold.answer and not gold.abstain and said.isdisjoint(content(gold.answer)):
            return gold.answer
    return ""


# ---------------------------------------------------------------- BEAM

_SCORES = (0.0, 0.5, 1.0)
_SCORE = _schema("score", "number", *_SCORES)
_SAME = _schema("verdict", "string", "yes", "no")


class RubricJudge:
    """BEAM's scorer: each criterion of a rubric is scored 0, 0.5 or 1, and a question gets the
    mean. For event ordering, the lines of the response are matched with the events of the rubric,
    and the score is Kendall's tau-b between the two orders, scaled to 0 to 1."""

    name = "rubric"

    def __init__(self, model: RepeatedModel) -> None:
        self._model = model
        self._score_by = instruction("beam", "rubric")
        self._same_by = instruction("beam", "same")
        self.instruction = f"{self._score_by}\n\n{self._same_by}"

    async def judge(self, case: Case, response: str, *, sample: int) -> Verdict:
        """An empty response scores 0 without asking."""
        id = case.question.id
        if not response.strip():
            return Verdict(id=id, right=False, score=0.0, said="(no answer)")
        calls: list[Call] = []
        if case.gold.category == beam.ORDERING:
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
        text = await self._asked(self._score_by, shown, _SCORE, sample, calls)
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
                text = await self._asked(self._same_by, shown, _SAME, sample, calls)
                if parse(text):
                    found = event
                    break
            told.append(found)
        return ordering(events, told)

    async def _asked(
        self,
        system: str,
        shown: Mapping[str, str],
        schema: dict[str, object],
        sample: int,
        calls: list[Call],
    ) -> str:
        completion = await self._model.complete(_prompt(system, shown, schema), sample=sample)
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
