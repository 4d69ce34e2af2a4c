"""Answers without a model: cut out of the cards, and honest about it.

Each mode of asking has one function below. All of them speak from the evidence only; where its
support is weak the answer is that it is not in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from justmem.answering.citing import cite
from justmem.answering.counting import distinct, stated_number
from justmem.answering.quoting import quotation, reply_to_request
from justmem.answering.spans import (
    ago,
    day_of,
    duration_in,
    length,
    surely_both,
    told_of_both,
    unit_asked,
)
from justmem.answering.support import (
    ENOUGH_SPREAD,
    Supported,
    asked_words,
    negated,
    relevant,
    suffices,
    supported,
)
from justmem.dates import say
from justmem.domain import Access, Card, Citation, Evidence, Mode, Session
from justmem.ports import Reply
from justmem.words import content

NOT_IN_MEMORY = "That is not in memory."
_MOST_LISTED = 8
_BEARING = 3  # cards shown where none is the answer


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    cards: Sequence[Card] = ()


class RulesAnswerer:
    """Answers by rules alone: no calls."""

    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        return answer_by_rules(evidence, sessions)


def answer_by_rules(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    if evidence.plan.mode == "reply":
        said = _bearing(evidence, supported(evidence))
        return _reply(said, sessions)
    if evidence.access is Access.REPLAY:
        quoted = quotation(evidence)
        if quoted is not None:
            return quoted
    found = supported(evidence)
    timed = evidence.plan.mode == "duration" or evidence.plan.operation == "order"
    if not suffices(evidence, found) and not (timed and surely_both(evidence.question, found)):
        return Reply(NOT_IN_MEMORY, sufficient=False)
    replied = reply_to_request(evidence, found[0].card, sessions)
    if replied is not None:
        return replied
    return _reply(_BY_MODE.get(evidence.plan.mode, _best)(evidence, found), sessions)


def _reply(said: _Said | None, sessions: Mapping[str, Session]) -> Reply:
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


def _best(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    if evidence.plan.operation == "order":
        first = _which_first(evidence, found)
        if first is not None:
            return first
    if evidence.plan.operation == "temporal":  # a newer memory replaces an older one
        return _latest(evidence, found)
    return _Said(_sentence(found[0].card), [found[0].card])


def _date(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    near = relevant(found)
    dated = next((one for one in near if one.card.event_date.start is not None), None)
    if dated is not None and dated.support >= near[0].support - 2.5:
        card = dated.card
        when = say(card.event_date)
        sentence = _closed(_capital(_to_the_point(_plain(card), evidence.question)))
        # Rules write dates into their facts: said once is enough.
        return _Said(sentence if when in sentence else f"{_capital(when)}: {sentence}", [card])
    card = near[0].card
    day = f"{card.said_at.day} {card.said_at:%B %Y}"
    return _Said(f"No date was given; it was told on {day}: {_sentence(card, dated=False)}", [card])


def _duration(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    question, unit = evidence.question, unit_asked(evidence.question)
    if re.search(r"\bago\b", question, re.IGNORECASE):
        card = next(
            (one.card for one in relevant(found) if one.card.event_date.start), found[0].card
        )
        return _Said(f"{_capital(ago(card, evidence.at, unit))}: {_sentence(card)}", [card])
    both = told_of_both(question, found) if evidence.plan.spans_sessions else None
    if both is not None:
        between = length(day_of(both[0]), day_of(both[1]), unit)
        return _Said(f"{between}: {_sentence(both[0])} {_sentence(both[1])}", both)
    for one in relevant(found):
        stated = duration_in(one.card.fact)
        if stated:
            return _Said(f"{_capital(stated)}: {_sentence(one.card)}", [one.card])
    card = found[0].card
    if card.event_date.start and re.search(r"\bhow long (?:has|have)\b", question, re.IGNORECASE):
        span = length(day_of(card), evidence.at.date(), unit)
        return _Said(f"{span}, since {say(card.event_date)}: {_sentence(card)}", [card])
    return _Said(_sentence(card), [card])


def _count(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    near = relevant(found)
    stated = stated_number(evidence.question, near)
    if stated is not None:
        number, holder = stated
        return _Said(f"{_capital(number)}: {_sentence(holder.card)}", [holder.card])
    items = distinct(near, evidence.question)[:_MOST_LISTED]
    return _Said(f"{len(items)}: {_listed(items)}", [one.card for one in items])


def _list(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    items = distinct(relevant(found), evidence.question)[:_MOST_LISTED]
    return _Said(_listed(items), [one.card for one in items])


def _yesno(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    card = found[0].card
    if evidence.plan.operation == "compare":
        # "Would she enjoy it?" asks for a judgement: show what bears on it, and judge nothing.
        items = distinct(relevant(found), evidence.question)[:3]
        listed = " ".join(_sentence(one.card) for one in items)
        return _Said(f"Memory does not say so outright. {listed}", [one.card for one in items])
    word = "No" if negated(card.fact) != negated(evidence.question) else "Yes"
    return _Said(f"{word}: {_sentence(card)}", [card])


def _order(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    first = _which_first(evidence, found)
    if first is not None:
        return first
    items = sorted(
        distinct(relevant(found), evidence.question)[:_MOST_LISTED],
        key=lambda one: day_of(one.card),
    )
    listed = " ".join(f"{number}. {_sentence(one.card)}" for number, one in enumerate(items, 1))
    return _Said(listed, [one.card for one in items])


def _which_first(evidence: Evidence, found: Sequence[Supported]) -> _Said | None:
    both = told_of_both(evidence.question, found)
    if both is None:
        return None
    early, late = sorted(both, key=day_of)
    return _Said(f"First: {_sentence(early)} Then: {_sentence(late)}", [early, late])


def _advice(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    cards = [one.card for one in distinct(relevant(found), evidence.question)[:4]]
    if found[0].support < ENOUGH_SPREAD:  # none answers: as for a remark
        cards = _first_chosen(evidence)
    listed = " ".join(map(_sentence, cards))
    return _Said(f"What memory holds that bears on it: {listed}", cards)


def _bearing(evidence: Evidence, found: Sequence[Supported]) -> _Said | None:
    """A remark: the chosen order knows more than shared words do."""
    cards = _first_chosen(evidence)
    if not cards:
        return None
    return _Said("This may bear on it: " + " ".join(map(_sentence, cards)), cards)


def _first_chosen(evidence: Evidence) -> list[Card]:
    return [candidate.card for candidate in evidence.chosen[:_BEARING]]


def _latest(evidence: Evidence, found: Sequence[Supported]) -> _Said:
    near = sorted(relevant(found)[:4], key=lambda one: one.card.said_at, reverse=True)
    newest, older = near[0].card, [one.card for one in near[1:]]
    text = _sentence(newest)
    before = next((card for card in older if card.said_at.date() < newest.said_at.date()), None)
    if before is None:
        return _Said(text, [newest])
    told = f"{before.said_at.day} {before.said_at:%B %Y}"
    return _Said(f"{text} Before that, told on {told}: {_sentence(before)}", [newest, before])


_BY_MODE: dict[Mode, Callable[[Evidence, Sequence[Supported]], _Said]] = {
    "date": _date,
    "duration": _duration,
    "count": _count,
    "list": _list,
    "yesno": _yesno,
    "order": _order,
    "advice": _advice,
}


# ---------------------------------------------------------------- sentences


def _plain(card: Card) -> str:
    return re.sub(r"\s*\((?:asked|about) \".*?\"\)", "", card.text).rstrip(" .")


def _sentence(card: Card, *, dated: bool = True) -> str:
    text = _capital(_plain(card))
    if dated and card.event_date.start is not None and say(card.event_date) not in text:
        text += f" ({say(card.event_date)})"
    return _closed(text)


def _listed(items: Sequence[Supported]) -> str:
    """Numbered, since cards have semicolons of their own."""
    texts = [_plain(one.card) for one in items]
    if len(texts) == 1:
        return _closed(texts[0])
    return _closed("; ".join(f"({number}) {text}" for number, text in enumerate(texts, 1)))


_CLAUSES = re.compile(r"; | -+ |(?= \(photo: )")


def _to_the_point(text: str, question: str) -> str:
    """Without what follows the clause that says most of what is asked."""
    wanted = asked_words(question)
    ends = [*(match.start() for match in _CLAUSES.finditer(text)), len(text)]
    clauses = [text[start:end] for start, end in pairwise([0, *ends])]
    shared = [len(wanted & set(content(clause))) for clause in clauses]
    most, end = max(zip(shared, ends, strict=True))  # of equal clauses the last
    return text[:end] if most else text


def _closed(text: str) -> str:
    return text + ("" if text.endswith(("!", "?")) else ".")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
