"""The judge: per-benchmark prompts in our own words, temperature 0, strict parsing.

What does not parse is an error, counted apart, never a verdict. How often the judge accepts an
answer that was planted to be wrong is measured and printed beside every accuracy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

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
    """A line of verdicts.N.jsonl. `right` is None where there is no verdict."""

    right: bool | None = None
    said: str = ""


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
        self.name = "own file" if template else strictness

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


def instruction(benchmark: str, strictness: Strictness) -> str:
    place = files("justmem_eval").joinpath("prompts", "judge", f"{benchmark}.{strictness}.md")
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


# ---------------------------------------------------------------- planted answers


def planted(cases: Sequence[Case], most: int) -> list[tuple[Case, str]]:
    """Answers that are wrong for sure: another question's gold, of the same category if there is
    one, with few words in common. For LoCoMo-Plus, a reply that recalls another item's cue."""
    asked = [case for case in cases if case.gold.answer or case.gold.cue]
    step = max(1, len(asked) // most) if most else 1
    spread = [*asked[::step], *(case for n, case in enumerate(asked) if n % step)]
    found: list[tuple[Case, str]] = []
    for case in spread:
        wrong = _other(case, asked)
        if wrong and len(found) < most:
            found.append((case, wrong))
    return found


def _other(case: Case, asked: Sequence[Case]) -> str:
    place = asked.index(case)
    later = [*asked[place + 1 :], *asked[:place]]
    alike = [other for other in later if other.gold.category == case.gold.category]
    for other in (*alike, *later):
        gold = other.gold
        if gold.cue and gold.cue != case.gold.cue:
            return f"I remember what you told me: {gold.cue.splitlines()[0].partition(': ')[2]}"
        if gold.answer and not gold.abstain and f1(gold.answer, case.gold.answer) < 0.2:
            return gold.answer
    return ""
