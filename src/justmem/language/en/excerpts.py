"""Finds the exact words that a question asks for: the turn of the sources and the part of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from justmem.domain import Citation, Evidence, Turn
from justmem.language.citing import quote_range
from justmem.language.words import (
    best_passage,
    content_stems,
    overlap,
    sentences,
    stem,
    stems_of_names,
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


def best_quotation(evidence: Evidence) -> Citation | None:
    """The part of the sources that has most of the asked words; None if none has enough."""
    asked = _asking_sentence(evidence.question)
    turns = [turn for source in evidence.sources for _, turn in source.turns]
    speakers = {stem(word) for turn in turns for word in words(turn.speaker)}
    said = {stem(word) for turn in turns for word in words(turn.text)}
    named = stems_of_names(evidence.question) - speakers
    if named and said.isdisjoint(named):
        return None
    may_answer = _those_asked_for(evidence.question, turns)
    wanted = set(content_stems(asked)) - speakers
    best: tuple[float, Citation] | None = None
    before = ""  # the turn that is replied to
    for place, source in enumerate(evidence.sources):
        for number, turn in source.turns:
            if turn in may_answer:
                span = find_excerpt(asked, turn.text)
                cited = quote_range(source.session_id, source.at, number, turn, span)
                score = overlap(wanted, content_stems(turn.text)) - 0.1 * place
                score += 0.3 * overlap(wanted, content_stems(cited.quote))
                score += 0.3 * overlap(wanted, content_stems(before))
                best = max(best or (score, cited), (score, cited), key=lambda row: row[0])
            before = turn.text
    return best[1] if best is not None and best[0] >= _ENOUGH else None


def _asking_sentence(question: str) -> str:
    """The sentence that asks, where others lead up to it."""
    said = [one.text for one in sentences(question)]
    last = said[-1] if said else ""
    return last if len(set(content_stems(last))) >= 3 else question


def _those_asked_for(question: str, turns: list[Turn]) -> list[Turn]:
    """The turns of a speaker whom the question names, one's own, or the assistant's."""
    asked = set(words(question))
    named = [turn for turn in turns if asked & set(words(turn.speaker))]
    if named:
        return named
    own = _OWN_WORDS.search(question)
    of_role = [turn for turn in turns if (turn.role == "assistant") is not bool(own)]
    # What somebody else said may be in any turn: "What exactly did Tobi say?"
    told = re.search(r"\bdid (?!you\b|u\b|i\b|we\b)\w+", question, re.IGNORECASE)
    return turns if told or not of_role else of_role


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
    """Item `wanted` of each list: up to the next item or an empty line."""
    start, bullets, found = 0, 0, None
    for line in [*text.splitlines(keepends=True), ""]:
        match = _ITEM.match(line)
        ends = match is not None or not line.strip()
        if ends and found is not None:
            yield _strip_range(text, found, start)
        if ends:
            bullets = bullets + 1 if match and match["bullet"] else 0
            number = int(match["number"] or bullets) if match else 0
            found = start if number == wanted else None
        start += len(line)


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
