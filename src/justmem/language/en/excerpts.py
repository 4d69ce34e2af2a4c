"""Finds the exact words that a question asks for: the turn of the sources and the part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from justmem.domain import Citation, Evidence, Source, Turn
from justmem.language.citing import quote_range
from justmem.language.data import english
from justmem.language.words import (
    best_passage,
    content_stems,
    names,
    overlap,
    sentences,
    stem,
    words,
)

_ENOUGH = 0.25  # share of the asked words, roughly, that a quoted turn must have
_SHORT = 300  # characters: a turn up to this long is quoted whole
_LONGEST = 900  # characters: a longer paragraph is cut to its best sentences
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
_NUMBER = re.compile(
    r"\b(?:number|no\.|item|point|step|day|week|part|tip|rule|#) ?(?P<digits>\d{1,2})\b"
    r"|\b(?P<nth>\d{1,2})(?:st|nd|rd|th)\b(?! of)|\b(?P<ordinal>" + _ORDINALS + r")\b",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"[ \t]*(?:[*#_-]+ ?)*(?:(?:day|week|step|part|tip|rule|no\.?) ?)?(?P<number>\d{1,2})[.):]"
    r"|[ \t]*(?P<bullet>[-*•+]) ",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\b(?:code|function|script|snippet|query|command|regex|program)\b", re.IGNORECASE
)
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_OWN_WORDS = re.compile(
    r"\b(?:did I|I (?:said|told|wrote|asked|mentioned|requested))\b", re.IGNORECASE
)
_SAYER = re.compile(
    r"\b(?:did|does|do) (?P<who>[\w'’-]+) (?:\w+ )?(?:say|tell|write|answer|reply|mention|call)\b"
    r"|\b(?P<whose>\w+)(?:['’]s)? (?:own |exact )?(?:words|said|told|wrote|answered|replied)\b",
    re.IGNORECASE,
)


def best_quotation(evidence: Evidence) -> Citation | None:
    """The part of the sources that has most of the asked words; None if none has enough."""
    question = evidence.question
    turns = [(place, source, n, t) for place, source in enumerate(evidence.sources) for n, t in
             source.turns]  # fmt: skip
    speakers = {turn.speaker.lower() for _, _, _, turn in turns}
    if not _sources_have_names(question, turns, speakers):
        return None
    known = {one for name in speakers for one in content_stems(name)}
    wanted = set(content_stems(_asking_sentence(question))) - known
    context = set(content_stems(question)) - known
    best: tuple[float, Citation] | None = None
    before: Turn | None = None
    for place, source, number, turn in turns:
        if _may_answer(turn, question, speakers, evidence.sources):
            span = find_excerpt(_asking_sentence(question), turn.text)
            cited = quote_range(source.session_id, source.at, number, turn, span)
            said = content_stems(turn.text)
            score = 0.5 * (overlap(wanted, said) + overlap(context, said)) - 0.1 * place
            score += 0.3 * overlap(wanted, content_stems(cited.quote))
            if before is not None and before.speaker != turn.speaker:  # what it replies to
                score += 0.3 * overlap(wanted, content_stems(before.text))
            if best is None or score > best[0]:
                best = score, cited
        before = turn
    return best[1] if best is not None and best[0] >= _ENOUGH else None


def _asking_sentence(question: str) -> str:
    """The sentence that asks, where others lead up to it."""
    said = [one.text for one in sentences(question)]
    last = said[-1] if said else ""
    return last if len(set(content_stems(last))) >= 3 else question


def _may_answer(turn: Turn, question: str, speakers: set[str], sources: Sequence[Source]) -> bool:
    """Whose words are asked for: a speaker's by name, one's own, or the assistant's. What
    somebody else said may stand in any turn."""
    match = _SAYER.search(question)
    who = ((match["who"] or match["whose"]) if match else "").lower()
    speaker = next((name for name in speakers if who and who in words(name)), "")
    if speaker:
        return turn.speaker.lower() == speaker
    if who and who not in ("you", "u", "i", "we", "that"):
        return True
    if _OWN_WORDS.search(question):
        return turn.role != "assistant"
    assisted = any(one.role == "assistant" for source in sources for _, one in source.turns)
    return turn.role == "assistant" or not assisted


def _sources_have_names(
    question: str, turns: Sequence[tuple[int, Source, int, Turn]], speakers: set[str]
) -> bool:
    """Whether the sources have one of the names that are asked about, if there are any."""
    known = {one for name in speakers for one in words(name)} | {"i"} | english().question_words
    asked = {one for name in names(question) for one in words(name)} - known
    said = {stem(one) for _, _, _, turn in turns for one in words(turn.text)}
    return not asked or bool(set(map(stem, asked)) & said)


def find_excerpt(question: str, text: str) -> tuple[int, int]:
    """Offsets of what is asked for: item N of a list, the code, a paragraph with what it
    introduces, or the best one or two sentences."""
    number = _item_number(question)
    item = next(_items(text, number), None) if number else None
    if item:
        return item
    if _CODE.search(question) and (code := _FENCED.search(text)):
        return code.span()
    if len(text) <= _SHORT:
        return _strip_range(text, 0, len(text))
    best = best_passage(question, text)
    start, end = _paragraph(text, *best)
    return (start, end) if end - start <= _LONGEST else best


def _item_number(question: str) -> int:
    match = _NUMBER.search(question)
    if match is None:
        return 0
    if match["ordinal"]:
        return _ORDINALS.split("|").index(match["ordinal"].lower()) + 1
    return int(match["digits"] or match["nth"])


def _items(text: str, wanted: int) -> Iterator[tuple[int, int]]:
    """Item `wanted` of each list, with the lines that belong to it."""
    start, bullets, found = 0, 0, None
    for line in text.splitlines(keepends=True):
        match = _ITEM.match(line)
        if match and found is not None:
            yield _strip_range(text, found, start)
            found = None
        if match:
            bullets = bullets + 1 if match["bullet"] else 0
            if int(match["number"] or bullets) == wanted:
                found = start
        elif not line.strip():
            if found is not None:
                yield _strip_range(text, found, start)
            found, bullets = None, 0
        start += len(line)
    if found is not None:
        yield _strip_range(text, found, len(text))


def _paragraph(text: str, start: int, end: int) -> tuple[int, int]:
    """The paragraph around a passage, and the next one if it ends in a colon."""
    first = text.rfind("\n\n", 0, start) + 1
    last = text.find("\n\n", end)
    last = len(text) if last < 0 else last
    if text[:last].rstrip(" *_").endswith(":"):
        after = text.find("\n\n", last + 2)
        last = len(text) if after < 0 else after
    return _strip_range(text, first, last)


def _strip_range(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def widen_to_sentences(text: str, start: int, end: int, longest: int) -> tuple[int, int]:
    """A passage with the sentences after and before it, up to `longest` characters."""
    pieces = sentences(text)
    inside = [n for n, one in enumerate(pieces) if one.start < end and one.end > start]
    if not inside:
        return start, end
    first, last = inside[0], inside[-1]
    while True:
        if last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= longest:
            last += 1
        elif first and pieces[last].end - pieces[first - 1].start <= longest:
            first -= 1
        else:
            return pieces[first].start, pieces[last].end
