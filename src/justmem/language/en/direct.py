"""Direct answers: the newest value of a state, a date, yes or no.

A direct answer needs a statement about the right subject that is neither denied nor only planned,
and no newer statement that may contradict it. In doubt there is no direct answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from justmem.domain import EventDate, Evidence
from justmem.language.data import english
from justmem.language.en import dates
from justmem.language.en.relevance import Question, Statement, coverage, is_about, share_of_names
from justmem.language.en.states import NOT_SO, attribute_asked, states_in
from justmem.language.words import content_stems, names, stem, words

_HALF_YEAR = timedelta(days=183)
_CLAUSE = re.compile(r"[.;!?,:]+\s|\s(?:and|but|because|so|then|while)\s", re.IGNORECASE)
# To come, or over.
_NOT_NOW = re.compile(
    r"\b(?:will|going to|sold|lost|gave up|given up|quit|stopped|left|cancel\w*|returned|died)\b"
    r"|['’]ll\b",
    re.IGNORECASE,
)
_PLAIN_NO = re.compile(r"not|never|no|(?:do|does|did|is|was|are|were)n['’]?t", re.IGNORECASE)


def direct_answer(
    evidence: Evidence, asked: Question, found: Sequence[Statement], earlier: frozenset[str]
) -> str:
    mode = evidence.plan.mode
    if evidence.plan.operation == "compare" or not asked.topic:
        return ""
    if not asked.about_past and (value := _newest_state(evidence, asked, found, earlier)):
        return value
    if mode == "date":
        return _date(evidence, asked, found)
    if mode == "yesno":
        return _yes_or_no(evidence, asked, found)
    return ""


def _newest_state(
    evidence: Evidence, asked: Question, found: Sequence[Statement], earlier: frozenset[str]
) -> str:
    """Where somebody lives now, and the like: the newest value, if it is the only one."""
    attribute = attribute_asked(asked.text)
    if attribute is None or not re.match(r"(?:where|who|what|how)\b", asked.text, re.IGNORECASE):
        return ""
    holder = {evidence.speaker.lower()} if asked.first_person and evidence.speaker else set()
    holder |= {w for name in names(asked.text) for w in words(name)}
    if asked.first_person and asked.names:  # "my sister Anna's boss": not plain enough
        return ""
    plain = not (asked.topic - {stem(w) for w in english().states[attribute].question_words})
    told = [
        (one, state)
        for one in found
        for state in states_in(one.card)
        if state.attribute == attribute and state.holder in holder and not one.correction
    ]
    values = {state.value.lower() for one, state in told if one.card.id not in earlier}
    newest = max(told, key=lambda row: row[0].card.said_at, default=None)
    if newest is None or not plain or newest[1].value.lower() not in values:
        return ""
    if is_outdated(newest[0], asked, found):
        return ""
    day = newest[0].said_on
    unit = " kg" if attribute == "weight" and re.search("k", newest[0].text) else ""
    return f"{newest[1].value}{unit} (said on {day.day} {day:%B %Y})"


def _clauses(text: str) -> list[str]:
    return [part for part in _CLAUSE.split(text) if part.strip()]


def full_statements(
    evidence: Evidence, asked: Question, found: Sequence[Statement]
) -> list[Statement]:
    """Statements that have every asked word and are about the right subject."""
    return [
        one
        for one in found
        if coverage(asked.topic, one.stems) == 1
        and not one.correction
        and one.card.kind != "interaction"
        and is_about(one, one.text, asked, evidence.speaker)
    ]


def is_outdated(one: Statement, asked: Question, found: Sequence[Statement]) -> bool:
    """Whether a newer statement shares the subject and a word of what is asked."""
    return any(
        other.said_on > one.said_on
        and coverage(asked.topic, other.stems) > 0
        and share_of_names(asked, other) == share_of_names(asked, one)
        for other in found
    )


def _date(evidence: Evidence, asked: Question, found: Sequence[Statement]) -> str:
    full = [one for one in full_statements(evidence, asked, found) if not NOT_SO.search(one.text)]
    if re.search(r"\bdid\b|\bwas\b|\bwere\b", asked.text, re.IGNORECASE):
        full = [one for one in full if one.card.status != "planned"]
    if not full:
        return ""
    one = full[0] if asked.about_past else max(full, key=lambda each: each.card.said_at)
    when = date_of(one, asked.topic)
    others = {date_of(each, asked.topic).text for each in full} - {when.text, "unknown"}
    if when.start is None or (others and one.said_on == full[-1].said_on):
        return ""
    return dates.describe(when) + "."


def date_of(one: Statement, topic: Iterable[str] = ()) -> EventDate:
    """The date of a statement, if it is the only one in it or stands with the asked words. A day
    without a year, half a year away from when it was said, may lie on the other side."""
    when = one.card.event_date
    found = dates.find(one.text, one.card.said_at)
    if len({each.date.text for each in found}) > 1:
        best = [c for c in _clauses(one.text) if coverage(topic, content_stems(c)) > 0]
        found = [each for each in found if any(each.text in clause for clause in best)]
        when = found[0].date if len(found) == 1 else EventDate()
    far = when.start is not None and abs(when.start - one.said_on) > _HALF_YEAR
    if far and when.start and str(when.start.year) not in one.text:
        return EventDate()
    return when


def _yes_or_no(evidence: Evidence, asked: Question, found: Sequence[Statement]) -> str:
    """Yes or no, if a clause says all that is asked and nothing newer is said about it."""
    question = asked.text.lower()
    if NOT_SO.search(question) or re.match(r"(?:would|could|should|can|may)\b", question):
        return ""
    for one in full_statements(evidence, asked, found):
        if _was_in_future(one) or is_outdated(one, asked, found):
            return ""
        clauses = [c for c in _clauses(one.text) if coverage(asked.topic, content_stems(c)) == 1]
        clause = clauses[0] if clauses else ""
        others = {stem(w) for name in names(clause) for w in words(name)} - asked.names
        plain = is_about(one, clause, asked, evidence.speaker) and not others - {"i"}
        if not plain or not _has_verb_asked_for(question, clause):
            continue
        if _NOT_NOW.search(clause):
            return ""
        denied = NOT_SO.search(clause)
        if denied is None:
            return "Yes."
        return "No." if _PLAIN_NO.fullmatch(denied[0]) else ""
    return ""


def _was_in_future(one: Statement) -> bool:
    """Whether the event was in the future when the statement was made."""
    start = one.card.event_date.start
    return start is not None and start > one.said_on


def _has_verb_asked_for(question: str, clause: str) -> bool:
    """ "Do I have a dog" needs a word of possession, "is she vegan" one of being."""
    told = set(words(clause))
    if re.match(r"(?:do|does|did)\b.*\b(?:have|own)\b", question):
        return bool(told & english().possession)
    if re.match(r"(?:is|are|am|was|were)\b", question):
        return bool(re.search(r"\b(?:is|are|am|was|were|im)\b|['’](?:s|m|re)\b", clause, re.I))
    return True
