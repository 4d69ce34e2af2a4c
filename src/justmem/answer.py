"""Evidence -> Reply, by one call of a language model that sees only the evidence."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import ValidationError

from justmem import budget
from justmem.domain import Citation, Evidence, Session
from justmem.errors import BudgetExceeded
from justmem.language.citing import cite, cite_turn
from justmem.language.words import content_stems, overlap
from justmem.ports import NOT_IN_MEMORY, Completion, LanguageModel, Prompt, Reply
from justmem.prompts import fence, load, new_mark, one_line
from justmem.prompts.evidence import drop_least_important, evidence_text, reading_order
from justmem.prompts.parse import Lines, ModelReply, Text, otherwise, parse
from justmem.runtime import deadlines


class AnswerReply(ModelReply):
    answer: Text
    used: Annotated[Lines, otherwise(())] = ()
    sufficient: Annotated[bool, otherwise(True)] = True


_LEAST_REPLY = 60
_QUOTE_NOBODY = (
    "The conversations themselves are not kept: tell what the memory lines say, quote nobody."
)
_ORIGINAL = 'Lines like s1.4 are original words: "used": ["s1.4"].'
_WORD = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
_NAME = re.compile(rf"{_WORD}(?:\.? {_WORD})?\.?")  # of at most two words
_LONGEST_NAME = 40
_SHARED = 0.4  # share of a card's words that an answer has
_REFERENCE = re.compile(r"s?\d+(?:\.\d+)?")


class ModelAnswerer:
    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        evidence, prompt, notes = await asyncio.to_thread(_fit, evidence, limit)
        completion = await budget.complete(self.model, prompt, notes)
        with budget.carrying([completion.call]):
            return await asyncio.to_thread(_read, completion, evidence, sessions, notes)


# ---------------------------------------------------------------- the prompt


def _fit(evidence: Evidence, limit: int | None) -> tuple[Evidence, Prompt, list[str]]:
    """The evidence, cut until the call fits its limit, the prompt and notes."""
    cut, prompt = evidence, answering_prompt(evidence)
    while limit is not None and prompt.tokens + _LEAST_REPLY > limit:
        if not cut.sources and len(cut.cards) <= 1:
            raise BudgetExceeded(
                f"The answer call was not made: not even one card fits the {max(limit, 0)} "
                "tokens that are left. Raise Budget.ask_tokens."
            )
        cut = drop_least_important(cut)
        prompt = answering_prompt(cut)
    notes: list[str] = []
    if cut is not evidence:
        notes.append(
            f"cut to fit the limit: {len(cut.cards)} of {len(evidence.cards)} cards and "
            f"{len(cut.sources)} of {len(evidence.sources)} sources were read"
        )
    return cut, prompt.within(limit, least=_LEAST_REPLY), notes


def answering_prompt(evidence: Evidence) -> Prompt:
    plan = evidence.plan
    # Asked for the exact words of a source that is not there, a model would make some up.
    missing = plan.operation == "quote" and not evidence.sources_kept
    operation = "lookup" if missing else plan.operation
    task = load(f"operations/{operation}")
    if evidence.sources:
        task += f"\n{_ORIGINAL}"
    if not evidence.sources_kept:
        task += f"\n{_QUOTE_NOBODY}"
    mark = new_mark()
    asked = f"Asked on {evidence.at:%A %Y-%m-%d}{_asker(evidence.speaker, mark)}\n"
    asked += fence("question", evidence.question, mark)
    # A quotation can be as long as the source it comes from.
    reply = 300 + sum(source.tokens for source in evidence.sources)
    system = f"{load('answer')}\n\n{task}"
    user = f"{evidence_text(evidence, mark)}\n{asked}"
    return Prompt("answer", system, user, AnswerReply.json_schema(), reply, mark=mark)


def _asker(speaker: str | None, mark: str) -> str:
    """The name may come from stored text. If it does not look like a name, it is fenced."""
    if not speaker:
        return ""
    name = one_line(speaker)
    plain = len(name) <= _LONGEST_NAME and _NAME.fullmatch(name)
    return f" by {name}" if plain else f"\n{fence('asker', name, mark)}"


# ---------------------------------------------------------------- the reply


def _read(
    completion: Completion, evidence: Evidence, sessions: Mapping[str, Session], notes: list[str]
) -> Reply:
    """TimeLimitExceeded if it takes too long to find the words that the reply rests on."""
    try:
        reply = AnswerReply.model_validate(parse(completion.text)[0])
    except ValidationError:
        # A server without JSON output answers in prose: its words are the answer.
        reply = AnswerReply(answer=completion.text)
    text = reply.answer.strip()
    if completion.truncated:
        notes.append("the answer was cut off by its token limit")
    if not reply.sufficient or not text:
        return Reply(NOT_IN_MEMORY, False, (), [completion.call], notes)
    with deadlines.within(deadlines.QUESTION_SECONDS, "Citing what the answer rests on"):
        citations = _citations(text, reply.used, evidence, sessions, notes)
    return Reply(text, True, citations, [completion.call], notes)


def _citations(
    text: str,
    used: Sequence[str],
    evidence: Evidence,
    sessions: Mapping[str, Session],
    notes: list[str],
) -> list[Citation]:
    """The words behind the lines that the model named. It cannot cite what it was not shown. If it
    named none, the cards that share words with the answer are cited."""
    shown = {str(n): card for n, card in enumerate(reading_order(evidence), 1)}
    turns = {
        f"s{n}.{number}": (source.session_id, number)
        for n, source in enumerate(evidence.sources, 1)
        for number, _ in source.turns
    }
    used = [each for each in used if each]
    numbers = [match[0] for each in used if (match := _REFERENCE.search(each.lower()))]
    known = [each for each in dict.fromkeys(numbers) if each in shown or each in turns]
    if unknown := len(set(used)) - len(known):
        notes.append(f"{unknown} citations named no evidence that was shown: dropped")
    cards = [shown[each] for each in known if each in shown]
    if not known:
        stems = content_stems(text)
        cards = [c for c in evidence.cards if overlap(content_stems(c.text), stems) >= _SHARED][:3]
        notes.append("the model named no evidence: cited by the words they share")
    found = [one for card in cards for one in cite(card, sessions.get(card.session_id))]
    for id, number in (turns[each] for each in known if each in turns):
        found.append(cite_turn(text, sessions[id], number))
    # Two cards may rest on the same words.
    places = {(one.session_id, one.turn, one.start, one.end): one for one in reversed(found)}
    return list(reversed(places.values()))
