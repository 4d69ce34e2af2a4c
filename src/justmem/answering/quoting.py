"""Answers in the very words that were said: from recovered sources, or from the reply that a
request was followed by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from justmem.answering.stretches import stretch_asked_for
from justmem.answering.support import ASKING
from justmem.domain import Card, Citation, Evidence, Session, Source, Turn
from justmem.ports import Reply
from justmem.words import content, names, overlap, sentences, stem, words

_QUOTABLE = 0.25  # the share of the asked words that a quoted turn must have, roughly
_FULL = 3  # words with content: enough to know what a sentence asks for
_ANSWERS = 0.5  # what the share of them in the question before counts
_LEADING = re.compile(
    r"(?:in|for|from|of|on|about|regarding|with)\b[^,?]+, (?=(?:how|what|which|who|where|when)\b)",
    re.IGNORECASE,
)
_OWN_WORDS = re.compile(
    r"\b(?:did I|I (?:said|told|wrote|asked|mentioned|requested))\b", re.IGNORECASE
)

# What a request itself tells: whom it was for, where and when. "Where can I" is a request again.
_OF_THE_REQUEST = re.compile(
    r"(?:who|whose|whom|when|where)\b(?! (?:can|could|should) (?:I|we)\b)", re.IGNORECASE
)


def quotation(evidence: Evidence) -> Reply | None:
    """The turn of the sources that says most of what is asked, in its own words."""
    question = evidence.question
    told = [(place, source) for place, source in enumerate(evidence.sources)]
    speakers = {turn.speaker.lower() for _, source in told for _, turn in source.turns}
    known = {one for name in speakers for one in content(name)}
    asking = _asking(question)
    wanted, context = set(content(asking)) - known, set(content(question)) - known
    asked_of = _asked_of(question, speakers)
    if not _named_in(question, evidence.sources, speakers):
        return None
    best: tuple[float, Citation] | None = None
    for place, source in told:
        for index, (number, turn) in enumerate(source.turns):
            if not _may_speak(turn, asked_of, evidence.sources, question):
                continue
            cited = _cited(evidence, source, number, turn)
            said = content(turn.text)
            score = 0.5 * (overlap(wanted, said) + overlap(context, said)) - 0.1 * place
            score += 0.3 * overlap(wanted, content(cited.quote))
            before = source.turns[index - 1][1] if index and asked_of else None
            if before and before.speaker != turn.speaker and before.text.rstrip().endswith("?"):
                score += _ANSWERS * overlap(wanted, content(before.text))
            if best is None or score > best[0]:
                best = score, cited
    if best is None or best[0] < _QUOTABLE:
        return None
    return _reply(best[1])


def reply_to_request(
    evidence: Evidence, card: Card, sessions: Mapping[str, Session]
) -> Reply | None:
    """What was replied to the request that a card tells of: who asks for it again wants the
    reply, not that they asked."""
    session, question = sessions.get(card.session_id), evidence.question
    if card.kind != "interaction" or session is None:
        return None
    if _OWN_WORDS.search(question) or _OF_THE_REQUEST.match(question):
        return None
    for number in card.turns:
        turn = session.turn(number) if 1 <= number <= len(session.turns) else None
        if turn is not None and turn.role == "assistant":
            source = Source(session_id=session.id, at=session.at, turns=((number, turn),))
            return _reply(_cited(evidence, source, number, turn))
    return None


def _asking(question: str) -> str:
    """The sentence that asks, where others lead up to it."""
    said = [one.text for one in sentences(question)]
    last = said[-1] if said else ""
    return last if len(set(content(last))) >= _FULL else question


def _asked_there(asking: str, text: str) -> str:
    """Without what leads up to the question ("In the lentil soup you gave me, how many lemons"),
    where a text has words of the rest: the soup is all of it, the lemons are in one place."""
    lead = _LEADING.match(asking)
    rest = asking[lead.end() :] if lead else asking
    return rest if (set(content(rest)) - ASKING) & set(content(text)) else asking


def _may_speak(turn: Turn, asked_of: str, sources: Sequence[Source], question: str) -> bool:
    """Whose words are asked for: somebody's by name, or the assistant's. The request before a
    reply says what is asked, but not the answer."""
    if asked_of:
        return turn.speaker.lower() == asked_of
    assisted = any(turn.role == "assistant" for source in sources for _, turn in source.turns)
    return turn.role == "assistant" or not assisted or bool(_OWN_WORDS.search(question))


def _asked_of(question: str, speakers: set[str]) -> str:
    """ "What exactly did Isla say": hers."""
    match = re.search(
        r"\b(?:did|does|do) (?P<who>\w+) (?:\w+ )?(?:say|tell|write|answer|reply|mention|call)\b"
        r"|\b(?P<whose>\w+)(?:'s)? (?:own |exact )?(?:words|said|told|wrote|answered|replied)\b",
        question,
        re.IGNORECASE,
    )
    who = ((match["who"] or match["whose"]) if match else "").lower()
    return next((name for name in speakers if who and who in words(name)), "")


def _named_in(question: str, sources: Sequence[Source], speakers: set[str]) -> bool:
    """Whether the sources have one of the names that are asked about, if there are any."""
    known = {one for name in speakers for one in words(name)} | {"i"}
    asked = {one for name in names(question) for one in words(name) if stem(one) not in ASKING}
    asked -= known
    said = {one for source in sources for _, turn in source.turns for one in words(turn.text)}
    return not asked or bool(asked & said)


def _cited(evidence: Evidence, source: Source, number: int, turn: Turn) -> Citation:
    asked = _asked_there(_asking(evidence.question), turn.text)
    start, end = stretch_asked_for(asked, turn.text, whole_list=evidence.plan.mode == "list")
    return Citation(
        session_id=source.session_id,
        turn=number,
        speaker=turn.speaker,
        said_at=turn.at or source.at,
        quote=turn.text[start:end],
        start=start,
        end=end,
    )


def _reply(cited: Citation) -> Reply:
    day = f"{cited.said_at.day} {cited.said_at:%B %Y}"
    who = cited.speaker[:1].upper() + cited.speaker[1:]
    return Reply(f'{who}, {day}: "{cited.quote}"', sufficient=True, citations=(cited,))
