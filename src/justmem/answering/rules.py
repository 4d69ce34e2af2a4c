"""Answers without a model: cut out of the cards, and honest about it.

Each mode of asking has one function, here or in a file of its own. All of them speak from the
evidence only; where its support is weak the answer is that it is not in memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from justmem import deadlines
from justmem.answering.citing import cite
from justmem.answering.counting import MOST_LISTED, distinct, how_many, how_much, in_period
from justmem.answering.quoting import quotation, reply_to_request
from justmem.answering.sentences import Said, listed, sentence
from justmem.answering.spans import day_of, surely_both, told_of_both
from justmem.answering.states import asked_now, latest, newest_alike
from justmem.answering.support import ENOUGH_SPREAD, Supported, relevant, suffices, supported
from justmem.answering.timing import how_long, when
from justmem.answering.verdicts import yes_or_no
from justmem.domain import Access, Card, Citation, Evidence, Mode, Session
from justmem.ports import Reply
from justmem.words import both_ends

NOT_IN_MEMORY = "That is not in memory."
_BEARING = 3  # cards shown where none is the answer
_MUCH = re.compile(r"\bhow much\b", re.IGNORECASE)


class RulesAnswerer:
    """Answers by rules alone: no calls."""

    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        # In a thread: others of this event loop do not wait for it.
        return await asyncio.to_thread(answer_by_rules, evidence, sessions)


def answer_by_rules(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    """A long question is read by its two ends. TimeLimitExceeded if it takes too long."""
    evidence = evidence.model_copy(update={"question": both_ends(evidence.question)})
    with deadlines.within(deadlines.QUESTION_SECONDS, "Answering this question by rules"):
        return _answer(evidence, sessions)


def _answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    if evidence.plan.mode == "reply":
        return _reply(_bearing(evidence), sessions)
    if evidence.access is Access.REPLAY:
        quoted = quotation(evidence)
        if quoted is not None:
            return quoted
    found = supported(evidence)
    timed = evidence.plan.mode == "duration" or evidence.plan.operation == "order"
    if not suffices(evidence, found) and not (timed and surely_both(evidence.question, found)):
        return Reply(NOT_IN_MEMORY, sufficient=False)
    # Who wants advice asks anew: an old reply is not what memory holds of them.
    asks_again = evidence.plan.mode != "advice"
    replied = reply_to_request(evidence, found[0].card, sessions) if asks_again else None
    if replied is not None:
        return replied
    return _reply(_BY_MODE.get(evidence.plan.mode, _best)(evidence, found), sessions)


def _reply(said: Said | None, sessions: Mapping[str, Session]) -> Reply:
    if said is None:
        return Reply(NOT_IN_MEMORY, sufficient=False)
    return Reply(said.text, sufficient=True, citations=_citations(said.cards, sessions))


def _citations(cards: Iterable[Card], sessions: Mapping[str, Session]) -> tuple[Citation, ...]:
    found: dict[tuple[str, int, int], Citation] = {}
    for card in cards:
        for one in cite(card, sessions.get(card.session_id)):
            found.setdefault((one.session_id, one.turn, one.start), one)
    return tuple(found.values())


# ---------------------------------------------------------------- one function per mode


def _best(evidence: Evidence, found: Sequence[Supported]) -> Said:
    if evidence.plan.operation == "order":
        first = _which_first(evidence, found)
        if first is not None:
            return first
    if _MUCH.search(evidence.question):
        amount = how_much(evidence, found)
        if amount is not None:
            return amount
    if evidence.plan.operation == "temporal":  # a newer memory replaces an older one
        return latest(found)
    now = asked_now(evidence.question)
    card = newest_alike(evidence.question, found) if now else found[0].card
    return Said(sentence(card), [card])


def _list(evidence: Evidence, found: Sequence[Supported]) -> Said:
    near = in_period(relevant(found), evidence.plan.period)
    items = distinct(near, evidence.question)[:MOST_LISTED]
    return Said(listed(items), [one.card for one in items])


def _order(evidence: Evidence, found: Sequence[Supported]) -> Said:
    first = _which_first(evidence, found)
    if first is not None:
        return first
    items = sorted(
        distinct(relevant(found), evidence.question)[:MOST_LISTED],
        key=lambda one: day_of(one.card),
    )
    text = " ".join(f"{number}. {sentence(one.card)}" for number, one in enumerate(items, 1))
    return Said(text, [one.card for one in items])


def _which_first(evidence: Evidence, found: Sequence[Supported]) -> Said | None:
    both = told_of_both(evidence.question, found)
    if both is None:
        return None
    early, late = sorted(both, key=day_of)
    return Said(f"First: {sentence(early)} Then: {sentence(late)}", [early, late])


def _advice(evidence: Evidence, found: Sequence[Supported]) -> Said:
    cards = [one.card for one in distinct(relevant(found), evidence.question)[:4]]
    if found[0].support < ENOUGH_SPREAD:  # none answers: as for a remark
        cards = _first_chosen(evidence)
    return Said("What memory holds that bears on it: " + " ".join(map(sentence, cards)), cards)


def _bearing(evidence: Evidence) -> Said | None:
    """A remark: the chosen order knows more than shared words do."""
    cards = _first_chosen(evidence)
    if not cards:
        return None
    return Said("This may bear on it: " + " ".join(map(sentence, cards)), cards)


def _first_chosen(evidence: Evidence) -> list[Card]:
    return [candidate.card for candidate in evidence.chosen[:_BEARING]]


_BY_MODE: dict[Mode, Callable[[Evidence, Sequence[Supported]], Said]] = {
    "date": when,
    "duration": how_long,
    "count": how_many,
    "list": _list,
    "yesno": yes_or_no,
    "order": _order,
    "advice": _advice,
}
