"""Answers English questions without a model.

An answer quotes statements. A direct answer stands before the quotations only if it was verified.
If memory does not hold the answer, the reply says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from justmem.domain import Access, Card, Citation, Evidence, Session
from justmem.language.citing import cite, quote, quote_range
from justmem.language.en import excerpts
from justmem.language.en.direct import direct_answer
from justmem.language.en.lists import (
    MOST_LISTED,
    find_count,
    find_list,
    find_order,
    find_own_name,
    find_profile,
)
from justmem.language.en.relevance import (
    MOST_QUOTED,
    Findings,
    is_certain,
    is_unknown,
    one_per_turn,
    order_for_quoting,
    parse_question,
    put_update_first,
    rank_statements,
    select_fitting,
)
from justmem.language.en.sentence_types import is_small_talk
from justmem.language.en.states import attribute_asked, superseded
from justmem.ports import NOT_IN_MEMORY, Reply

CLOSEST = "No statement answers this for certain. The closest:"
_LONGEST = 280  # characters: a turn up to this long is quoted whole


def answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    if evidence.access is Access.REPLAY and (cited := excerpts.best_quotation(evidence)):
        return Reply(_line(cited, cited.quote), sufficient=True, citations=(cited,))
    answered = _find_answer(evidence, sessions)
    if answered is None:
        return Reply(NOT_IN_MEMORY, sufficient=False)
    quoted = list(_quotations(evidence.question, answered, sessions))
    lines = [line for line, _ in quoted]
    if answered.direct:
        lines.insert(0, answered.direct)
    elif not answered.certain:
        lines.insert(0, CLOSEST)
    citations = tuple(citation for _, citation in quoted)
    return Reply("\n".join(lines), sufficient=True, citations=citations)


def _find_answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Findings | None:
    """What answers the question, or None if memory does not hold it."""
    asked = parse_question(evidence)
    found = rank_statements(evidence, asked, sessions)
    if known := find_profile(evidence):
        return known
    remark = evidence.plan.mode == "reply"
    if remark and is_small_talk(evidence.question):
        return None
    if special := find_own_name(evidence) or find_order(evidence, found):
        return special
    fit = select_fitting(found, asked)
    if not fit or (not remark and is_unknown(asked, found, fit)):
        return None
    if several := find_count(evidence, asked, fit) or find_list(evidence, asked, fit):
        return several
    earlier = superseded((one.card for one in found), evidence.at.date())
    # Of a state the newest statement counts, even if its words fit less well.
    state = attribute_asked(evidence.question) and not asked.about_past
    best = one_per_turn(fit)[: MOST_LISTED if state else MOST_QUOTED]
    ordered = order_for_quoting(asked, best, earlier)
    quoted = put_update_first(asked, ordered, one_per_turn(fit))[:MOST_QUOTED]
    direct = "" if remark else direct_answer(evidence, asked, fit, earlier)
    certain = bool(direct) or remark or any(is_certain(asked, one) for one in quoted)
    return Findings(direct, quoted, earlier, certain=certain)


def _quotations(
    question: str, answered: Findings, sessions: Mapping[str, Session]
) -> Iterator[tuple[str, Citation]]:
    """Each quotation as a line and as a citation. A correction follows what it corrects, and the
    assistant's reply the request it answers, if the request is the best there is."""
    for place, one in enumerate(answered.quoted):
        session = sessions.get(one.card.session_id)
        cited = _quoted(one.card, one.text, session, whole=answered.whole_turns)
        earlier = "earlier: " if one.card.id in answered.earlier else ""
        # One line for each quotation; the citation keeps the line breaks.
        words = " ".join((cited.quote or one.text).split())
        yield earlier + _line(cited, words, one.card.subject), cited
        if session is not None and one.correction:
            correction = quote("", session, one.correction)
            yield "corrected: " + _line(correction, correction.quote), correction
        if session is not None and not place and one.card.kind == "interaction":
            for number, turn in enumerate(session.turns, 1):
                if number in one.card.turns and turn.role == "assistant":
                    span = excerpts.find_excerpt(question, turn.text)
                    said = quote_range(session.id, session.at, number, turn, span)
                    yield _line(said, said.quote), said


def _line(cited: Citation, words: str, subject: str = "") -> str:
    return f'{cited.speaker or subject}, {cited.said_at.day} {cited.said_at:%B %Y}: "{words}"'


def _quoted(card: Card, text: str, session: Session | None, *, whole: bool) -> Citation:
    """The card's words in its turn, with the sentences around them if they are short."""
    cited = cite(card, session)
    if session is None or not cited:  # the place alone
        return cite(card, None)[-1]
    own = next((one for one in cited if text[:60] in session.turn(one.turn).text), cited[-1])
    said = session.turn(own.turn).text
    start = said.find(text)
    start, end = (start, start + len(text)) if start >= 0 else (own.start, own.end)
    if whole:
        start, end = excerpts.widen_to_sentences(said, start, end, _LONGEST)
    return own.model_copy(update={"start": start, "end": end, "quote": said[start:end]})
