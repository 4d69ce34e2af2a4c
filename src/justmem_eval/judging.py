"""The judge: prompts in our own words for each benchmark, temperature 0, strict parsing.

A reply that does not parse is an error, counted separately, never a verdict. How often the judge
accepts planted wrong answers and refuses planted right ones is printed with every accuracy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Protocol

from justmem.errors import InvalidFile, ModelNonsense
from justmem.ports import LanguageModel, Prompt
from justmem_eval.answers import f1
from justmem_eval.benchmarks import Case
from justmem_eval.systems.types import Spent
from justmem_eval.text import fence, new_mark

Strictness = Literal["strict", "lenient"]
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["correct", "wrong"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
_LONGEST = 200  # tokens: an official prompt may ask for a sentence before its label
_FIELDS = ("question", "answer", "response", "cue", "category")
_KEYS = ("verdict", "label", "result", "judgment", "judgement")
_RIGHT = frozenset({"correct", "yes", "right", "true"})
_WRONG = frozenset({"wrong", "incorrect", "no", "false"})


class Verdict(Spent):
    """A line of a file of verdicts. `right` is None where there is no verdict."""

    right: bool | None = None
    score: float | None = None  # BEAM: from 0 to 1
    said: str = ""


class Judging(Protocol):
    name: str

    async def judge(self, case: Case, response: str, *, sample: int) -> Verdict: ...


class Judge:
    """`template`: the text of an official prompt, with {question}, {answer} (the reference),
    {response}, {cue} and {category} in it."""

    def __init__(
        self,
        model: LanguageModel,
        benchmark: str,
        strictness: Strictness = "strict",
        template: str | None = None,
    ) -> None:
        self._model = model
        self._template = template
        self._instruction = template or instruction(benchmark, strictness)
        self.name: str = "own" if template else strictness

    def prompt(self, case: Case, response: str) -> Prompt:
        values = _values(case, response)
        if self._template is not None:
            filled = re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], m[0]), self._template)
            return Prompt("answer", "", filled, {}, _LONGEST)
        shown = ("category", "cue", "question", "answer", "response")
        mark = new_mark()
        user = "\n".join(fence(name, values[name], mark) for name in shown if values[name])
        return Prompt("answer", self._instruction, user, SCHEMA, _LONGEST, mark=mark)

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


def instruction(benchmark: str, strictness: Strictness) -> str:
    name = f"{_LIKE.get(benchmark, benchmark)}.{strictness}.md"
    place = files("justmem_eval").joinpath("prompts", "judge", name)
    return place.read_text("utf-8").strip()


def fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_template(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"The judge prompt {path} cannot be read ({error}).") from error
    if "{response}" not in text:
        named = ", ".join(f"{{{name}}}" for name in _FIELDS)
        raise InvalidFile(f"The judge prompt {path} has no {{response}} in it. Fields: {named}.")
    return text


def _values(case: Case, response: str) -> dict[str, str]:
    gold = case.gold
    return {
        "question": case.question.text,
        "answer": gold.answer,
        "response": response,
        "cue": gold.cue,
        "category": "not in memory" if gold.abstain else gold.category,
    }


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
    another question's gold, of the same category if there is one, with few words in common. For
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
    alike = [other for other in later if other.gold.category == case.gold.category]
    for other in (*alike, *later):
        gold = other.gold
        if gold.cue and gold.cue != case.gold.cue:
            return _recalled(gold.cue)
        if gold.answer and not gold.abstain and f1(gold.answer, case.gold.answer) < 0.2:
            return gold.answer
    return ""
