"""Evidence -> Answer, by one call of a language model that sees only the evidence, or by rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import ValidationError

from justmem import budget
from justmem.budget import Tally
from justmem.domain import (
    Answer,
    Candidate,
    Card,
    Citation,
    Evidence,
    Session,
    Source,
    SubjectProfile,
)
from justmem.errors import BudgetExceeded
from justmem.language.citing import cite, cite_source
from justmem.language.words import content_stems, overlap
from justmem.memory_parts import Parts
from justmem.ports import (
    NOT_IN_MEMORY,
    Completion,
    LanguageModel,
    Prompt,
    Reply,
    Store,
    texts_of,
)
from justmem.prompts import fence, load, new_mark, one_line
from justmem.prompts.evidence import drop_least_important, evidence_text, reading_order
from justmem.prompts.parse import Lines, ModelReply, PlainText, otherwise, parse
from justmem.runtime import deadlines
from justmem.subjects.user_name import Names


class AnswerReply(ModelReply):
    answer: PlainText
    used: Annotated[Lines, otherwise(())] = ()
    sufficient: Annotated[bool, otherwise(True)] = True


_FROM_CARDS = "The words themselves are not kept. From the cards: "
_NOT_IN_CARDS = "The words themselves are not kept, and the cards do not say."
_LEAST_REPLY = 60
_NO_QUOTES = (
    "The conversations themselves are not kept: tell what the memory lines say, quote nobody."
)
_ORIGINAL = 'Lines like s1.4 are original words: "used": ["s1.4"].'
_WORD = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
_NAME = re.compile(rf"{_WORD}(?:\.? {_WORD})?\.?")  # of at most two words
_LONGEST_NAME = 40
_SHARED = 0.4  # share of a card's words that an answer has
_REFERENCE = re.compile(r"s?\d+(?:\.\d+)?")


async def make_answer(
    store: Store,
    parts: Parts,
    evidence: Evidence,
    names: Names,
    tally: Tally,
    token_limit: int | None,
) -> Answer:
    """The answer from this evidence, by the model or by rules. All calls of the question may spend
    `token_limit`."""
    sessions = await _sessions(store, evidence, names)
    with tally.stage("answer"):
        if not evidence.cards and not evidence.sources:
            tally.notes.append("nothing was found: no answer call was made")
            reply = Reply(NOT_IN_MEMORY, False)
        elif parts.answerer is None:
            reply = await asyncio.to_thread(parts.language.answer, evidence, sessions)
        else:
            reply = await parts.answerer.answer(evidence, sessions, limit=tally.left(token_limit))
        tally.calls += reply.calls
    tally.notes += reply.notes
    text = reply.text
    if not evidence.sources_kept:
        text = _FROM_CARDS + text if reply.sufficient else _NOT_IN_CARDS
    return Answer(
        text=text,
        sufficient=reply.sufficient,
        citations=tuple(reply.citations),
        evidence=reply.read or evidence,
        receipt=tally.receipt(),
    )


async def _sessions(store: Store, evidence: Evidence, names: Names) -> dict[str, Session]:
    """The sessions to quote from, without those that lost turns since the cards were read."""
    held: list[Card | Source] = [*evidence.cards, *evidence.sources]
    found = await texts_of(store, list({one.session_id for one in held}))
    for card in evidence.cards:
        if card.session_id in found and max(card.turns) > len(found[card.session_id].turns):
            del found[card.session_id]
    return {id: names.shown(session) for id, session in found.items()}


def as_evidence(profile: SubjectProfile, at: datetime) -> Evidence:
    """A profile's cards, with the question that asks for them in prose."""
    return Evidence(
        question=f"Describe {profile.subject} in a few sentences: who they are and what is true of "
        "them now.",
        at=at,
        chosen=tuple(Candidate(card=card) for card in profile.cards),
        cards=profile.cards,
    )


# ---------------------------------------------------------------- by a model


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
    # If the source is not kept, a model that is asked for exact words would invent some.
    missing = plan.operation == "quote" and not evidence.sources_kept
    operation = "lookup" if missing else plan.operation
    task = load(f"operations/{operation}")
    if evidence.sources:
        task += f"\n{_ORIGINAL}"
    if not evidence.sources_kept:
        task += f"\n{_NO_QUOTES}"
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
        # A server without JSON output replies in prose: that is the answer.
        reply = AnswerReply(answer=completion.text)
    text = reply.answer.strip()
    if completion.truncated:
        notes.append("the answer was cut off by its token limit")
    if not reply.sufficient or not text:
        return Reply(NOT_IN_MEMORY, False, (), [completion.call], notes, evidence)
    with deadlines.within(deadlines.QUESTION_SECONDS, "Citing what the answer rests on"):
        citations = _citations(text, reply.used, evidence, sessions, notes)
    return Reply(text, True, citations, [completion.call], notes, evidence)


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
        f"s{n}.{number}": (source, number)
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
    for source, number in (turns[each] for each in known if each in turns):
        found.append(cite_source(text, source, number, sessions.get(source.session_id)))
    # Two cards may rest on the same words.
    places = {(one.session_id, one.turn, one.start, one.end): one for one in reversed(found)}
    return list(reversed(places.values()))
