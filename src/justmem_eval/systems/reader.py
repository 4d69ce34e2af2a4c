"""The plain reader: answers from a text it is shown, the same for every system that has no
answerer of its own."""

from __future__ import annotations

import json
from importlib.resources import files

from justmem.errors import ModelNonsense
from justmem.ports import LanguageModel, Prompt
from justmem_eval.benchmarks import Question
from justmem_eval.systems.types import Predicted
from justmem_eval.text import fence, new_mark

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_LONGEST = 500  # tokens of an answer


def instruction(question: Question) -> str:
    name = "reply.md" if question.remark else "read.md"
    return files("justmem_eval").joinpath("prompts", name).read_text("utf-8").strip()


def reading_prompt(question: Question, context: str) -> Prompt:
    mark = new_mark()
    asked = f"Time of the question: {question.at:%A %Y-%m-%d}\n"
    asked += fence("question", question.text, mark)
    user = f"{fence('memory', context, mark)}\n{asked}"
    return Prompt("answer", instruction(question), user, SCHEMA, _LONGEST, mark=mark)


async def read(model: LanguageModel, question: Question, context: str, sample: int) -> Predicted:
    completion = await model.complete(reading_prompt(question, context), sample=sample)
    try:
        answer = str(json.loads(completion.text)["answer"])
    except (ValueError, KeyError, TypeError):
        answer = completion.text.strip()  # a server without JSON output answers in prose
    if not answer:
        raise ModelNonsense("The model sent an empty answer.", completion.call)
    return Predicted(id=question.id, answer=answer, calls=(completion.call,))
