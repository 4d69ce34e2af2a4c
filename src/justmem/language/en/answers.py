"""Answers English questions without a model: quotations with their dates.

If memory does not hold the answer, the reply says so. If no statement surely answers the question,
the reply says that too, and quotes the closest ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from justmem.domain import Access, Candidate, Card, Citation, Evidence, Session
from justmem.language.citing import cite, cite_turn, quote_range, show_correction
from justmem.language.en import excerpts, scores
from justmem.language.en.descriptions import in_order, person_asked
from justmem.language.en.quoting import (
    Statement,
    coverage,
    is_certain,
    is_unknown,
    one_per_turn,
    order_for_quoting,
    parse_question,
    rank_statements,
    split_by_person,
    statement_from,
)
from justmem.language.en.sentence_types import is_small_talk
from justmem.language.en.speaker import own_name
from justmem.language.en.states import asked_state, cards_with_state, replacements
from justmem.language.en.word_lists import english
from justmem.language.words import content_stems, stem, words
from justmem.ports import NOT_IN_MEMORY, Reply

CLOSEST = "No statement answers this for certain. The closest:"
_LONGEST = 280  # characters: a turn up to this long is quoted whole
_QUOTED = 3  # quotations of an answer
_LISTED = 5  # quotations of an answer that needs several statements, such as a list or a count
_OF_EVENT = 0.5  # the share of an event's words that its statement must have
_KNOWN = 8  # quotations about somebody
_NAME_ASKED = re.compile(r"\bwhat(?:['’]?s| is) my name\b|\bwho am i\b", re.IGNORECASE)


def answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    if evidence.access is Access.REPLAY and (cited := excerpts.best_quotation(evidence)):
        return Reply(_line(cited, cited.quote), sufficient=True, citations=(cited,))
    if described := _descriptions(evidence):
        return _reply(evidence, described, sessions, whole_turns=False)
    if named := _introductions(evidence):
        return _reply(evidence, named, sessions)
    if values := _values_of_state(evidence):
        earlier = frozenset(one.card.id for one in values[1:])
        return _reply(evidence, values, sessions, earlier=earlier)
    if events := _events_in_order(evidence):
        return _reply(evidence, events, sessions)
    return _answer_by_quoting(evidence, sessions)


def _answer_by_quoting(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    asked = parse_question(evidence)
    found = rank_statements(evidence, asked, sessions)
    own, others = split_by_person(found, asked)
    remark = evidence.plan.is_remark
    if remark:
        own, others = found, []
    fitting = scores.worth_quoting(own)
    small_talk = remark and is_small_talk(evidence.question)
    if not fitting or small_talk or scores.names_other_person(own, others):
        return Reply(NOT_IN_MEMORY, sufficient=False)
    chance = scores.chance_right(own)
    if not remark and is_unknown(asked, found, chance):
        return Reply(NOT_IN_MEMORY, sufficient=False)
    newer = replacements((one.card for one in found), evidence.at.date())
    earlier = frozenset(newer)
    most = _LISTED if evidence.plan.spans_sessions and not remark else _QUOTED
    corrected = _corrected(evidence)
    best = [corrected.get(one.turn, one) for one in one_per_turn(fitting)[:most]]
    # What replaced a quoted statement is quoted too.
    new = {newer[one.card.id].id for one in best if one.card.id in earlier}
    best = one_per_turn([*best, *(one for one in found if one.card.id in new)])
    quoted = order_for_quoting(asked, best, earlier)[:most]
    if evidence.plan.operation == "order":
        quoted.sort(key=lambda one: one.card.since)
    is_state = quoted[0].card.id in earlier | new
    answers = is_certain(asked, quoted[0], chance) and not _is_over(quoted[0].card, evidence)
    certain = remark or is_state or answers
    return _reply(evidence, quoted, sessions, earlier=earlier, certain=certain)


def _is_over(card: Card, evidence: Evidence) -> bool:
    """Whether a time to come is asked about, but the event of the card was before it."""
    asked, end = evidence.plan.period.start, card.event_date.end
    return asked is not None and end is not None and end < asked and asked > evidence.at.date()


def _corrected(evidence: Evidence) -> dict[tuple[str, int], Statement]:
    """The statements that somebody corrected by hand, by their turn. They stand for all of it: the
    words of the turn hold the error."""
    known = {one.card.id: one for one in (*evidence.candidates, *evidence.chosen)}
    found = [statement_from(known[id], {}) for id in evidence.corrected if id in known]
    return {one.turn: one for one in found}


def _descriptions(evidence: Evidence) -> list[Statement]:
    """ "Who is Ines?", "What do you know about me?": what describes them, as in a profile."""
    person = person_asked(evidence.question)
    if person is None:
        return []
    wanted = {stem(word) for word in words(person)}
    told = [
        card
        for card in evidence.cards
        if card.id not in evidence.earlier
        and (
            coverage(wanted, content_stems(card.text)) == 1
            if person
            else evidence.speaker in (None, card.subject)
        )
    ]
    known = {one.card.id: one for one in (*evidence.candidates, *evidence.chosen)}
    found = [known.get(card.id, Candidate(card=card)) for card in in_order(told, person)]
    return [statement_from(one, {}) for one in found[:_KNOWN]]


def _introductions(evidence: Evidence) -> list[Statement]:
    """ "What is my name?": the newest statement in which the speaker gives it."""
    if not _NAME_ASKED.search(evidence.question):
        return []
    found = [statement_from(one, {}) for one in evidence.candidates or evidence.chosen]
    told = [one for one in found if own_name(one.card)]
    return sorted(told, key=lambda one: one.card.said_at, reverse=True)[:1]


def _values_of_state(evidence: Evidence) -> list[Statement]:
    """ "Where do I live?": the newest statement with a value, then those with earlier ones."""
    asked = asked_state(evidence.question)
    if asked is None or evidence.plan.period.start is not None:
        return []
    known = {one.card.id: one for one in (*evidence.candidates, *evidence.chosen)}
    cards = [one.card for one in known.values()]
    speakers = {card.subject for card in cards}
    speaker = evidence.speaker if evidence.speaker in speakers else None
    if speaker is None and len(speakers) > 1 and not asked.holder:
        return []
    found = cards_with_state(asked, speaker, cards)
    return [statement_from(known[card.id], {}) for card in found][:_QUOTED]


def _events_in_order(evidence: Evidence) -> list[Statement]:
    """ "Which came first, the move or the new job?": the best statement of each event, by the date
    of the event."""
    if evidence.plan.operation != "order":
        return []
    listed = evidence.question.partition(":")[2] or evidence.question
    parts = re.split(r"[,;?]|\b(?:or|and|then)\b", listed)
    asking = set(map(stem, english().question_words))
    events = [set(content_stems(part)) - asking for part in parts]
    known = [statement_from(one, {}) for one in evidence.candidates or evidence.chosen]
    found = []
    for event in filter(None, events):
        best = max(known, key=lambda one: coverage(event, one.stems))
        if coverage(event, best.stems) >= _OF_EVENT:
            found.append(best)
    distinct = one_per_turn(found)
    return sorted(distinct, key=lambda one: one.card.since) if len(distinct) > 1 else []


# ---------------------------------------------------------------- quotations


def _reply(
    evidence: Evidence,
    quoted: Sequence[Statement],
    sessions: Mapping[str, Session],
    *,
    earlier: frozenset[str] = frozenset(),
    certain: bool = True,
    whole_turns: bool = True,
) -> Reply:
    """`earlier`: ids of cards that no longer hold. `certain`: whether a statement answers the
    question. `whole_turns`: whether the sentences around a statement are quoted with it."""
    kept: dict[tuple[str, int, int], tuple[str, Citation]] = {}
    for place, one in enumerate(quoted):
        by_hand = one.card.id in evidence.corrected
        for line, cited in _quotations(
            one,
            evidence.question,
            sessions,
            whole_turns=whole_turns,
            best=not place,
            by_hand=by_hand,
        ):
            kept.setdefault((cited.session_id, cited.turn, cited.start), (line, cited))
    found = kept.values()
    lines = [f"earlier: {line}" if cited.card_id in earlier else line for line, cited in found]
    if not certain:
        lines.insert(0, CLOSEST)
    return Reply("\n".join(lines), sufficient=True, citations=tuple(cited for _, cited in found))


def _quotations(
    one: Statement,
    question: str,
    sessions: Mapping[str, Session],
    *,
    whole_turns: bool,
    best: bool,
    by_hand: bool,
) -> Iterator[tuple[str, Citation]]:
    """The statement as a line and as a citation, then its correction. If the best statement is a
    request, the assistant's reply follows it. `by_hand`: whether somebody corrected its card."""
    session = sessions.get(one.card.session_id)
    cited = _cited(one.card, one.text, session, whole=whole_turns)
    # One line for each quotation. The citation keeps the line breaks.
    line = _line(cited, " ".join((cited.quote or one.text).split()), one.card.subject)
    date = _event_date(one.card)
    yield (show_correction(one.card, date, line) if by_hand else line + date), cited
    if session is None:
        return
    if one.correction:
        correction = cite_turn("", session, one.correction)
        yield "corrected: " + _line(correction, correction.quote), correction
    if best and one.card.kind == "interaction":
        for number, turn in enumerate(session.turns, 1):
            if number in one.card.turns and turn.role == "assistant":
                span = excerpts.find_excerpt(question, turn.text)
                said = quote_range(session.id, session.at, number, turn, span)
                yield _line(said, said.quote), said


def _line(cited: Citation, words: str, subject: str = "") -> str:
    return f'{cited.speaker or subject}, {cited.said_at.day} {cited.said_at:%B %Y}: "{words}"'


def _event_date(card: Card) -> str:
    """The date of the event, unless it is the day of the statement."""
    when = card.event_date
    if when.start is None or when.end is None or when.text == str(card.said_at.date()):
        return ""
    day = f"{when.start.day} {when.start:%B %Y}"
    shown = {
        "year": f"{when.start:%Y}",
        "month": f"{when.start:%B %Y}",
        "range": f"{day} to {when.end.day} {when.end:%B %Y}",
    }
    return f" (date: {shown.get(when.precision, day)})"


def _cited(card: Card, text: str, session: Session | None, *, whole: bool) -> Citation:
    """The card's words in its turn, with the sentences around them if they are short."""
    cited = cite(card, session)
    if session is None or not cited:
        return cite(card, None)[-1]
    own = next((one for one in cited if text[:60] in session.turn(one.turn).text), cited[-1])
    said = session.turn(own.turn).text
    start = said.find(text)
    start, end = (start, start + len(text)) if start >= 0 else (own.start, own.end)
    if whole:
        start, end = excerpts.widen_to_sentences(said, start, end, _LONGEST)
    return own.model_copy(update={"start": start, "end": end, "quote": said[start:end]})
