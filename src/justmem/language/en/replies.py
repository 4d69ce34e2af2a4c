"""What is quoted and what is claimed (`answers.py`), as text and citations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from justmem.domain import Access, Card, Citation, Evidence, Session
from justmem.language.citing import cite, quote
from justmem.language.en import answers, excerpts
from justmem.language.en.relevance import Findings
from justmem.ports import NOT_IN_MEMORY, Reply

CLOSEST = "No statement answers this for certain. The closest:"
_LONGEST = 280  # characters: a turn up to this long is quoted whole


def reply(evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
    if evidence.access is Access.REPLAY and (cited := excerpts.best_quotation(evidence)):
        return Reply(_line(cited, cited.quote), sufficient=True, citations=(cited,))
    answered = answers.answer(evidence, sessions)
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
                    start, end = excerpts.find_excerpt(question, turn.text)
                    said = _cut(quote("", session, number), turn.text, start, end)
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
    return _cut(own, said, start, end)


def _cut(cited: Citation, text: str, start: int, end: int) -> Citation:
    return cited.model_copy(update={"start": start, "end": end, "quote": text[start:end]})
