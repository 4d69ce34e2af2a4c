"""Text of any language: sentences with their offsets, words, stems, overlap.

`sentences` and `words` work for every language. Three things are those of English for all texts:
the stop words, the stems and irregular forms (`is_stop`, `stem`, `content_stems`), and the
abbreviations that end in a full stop. The index needs the same stems for a question and for the
text that it looks for, and a few words do not show their language.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from justmem.language.en.word_lists import english
from justmem.runtime import deadlines
from justmem.runtime.validation import SEGMENT

_LOCAL = threading.local()
_LONGEST = 64  # characters of a word that is worth stemming

_WORD = re.compile(r"[^\W_]+(?:['’.&+/-][^\W_]+)*", re.UNICODE)
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|approx|dept|inc|ltd|co|jan|feb|mar"
    r"|apr|jun|jul|aug|sept?|oct|nov|dec|fig|vol|a\.m|p\.m|u\.s)|(?-i:(?<![\w'’])[A-HJ-Z]))\.$",
    re.IGNORECASE,
)
_GERMAN_MONTH = re.compile(
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
)
_BREAK = re.compile(
    # Possessive, and not begun inside a run: else a long run is tried from each of its characters.
    r"(?<![.!?…])([.!?…]++)([\"'”’)\]*]*+)(\s++|$)|\n++|(?<=[。!?])(?![.!?…])"
    r"|(?<=[\u2600-\u27bf\U0001f300-\U0001faff\ufe0f])\s++(?=[A-Z])"  # "Inspiring 💪 I wrote"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A part of a text, without space around it: `text == whole[start:end]`."""

    text: str
    start: int
    end: int


def sentences(text: str) -> list[Sentence]:
    """Cuts at full stops, question and exclamation marks and line ends.

    None is longer than a segment, and no pattern is given more than a segment at a time. So all
    the rules that read sentences take time in proportion to the text, whatever their patterns."""
    found: list[Sentence] = []
    start = 0
    while start < len(text):
        deadlines.check()
        end = _segment_end(text, start)
        here = _sentences(text, start, end)
        if end < len(text) and len(here) > 1:  # the last may go on in the next segment
            end = here.pop().start
        found += here
        start = end
    return found


def _sentences(text: str, first: int, last: int) -> list[Sentence]:
    found: list[Sentence] = []
    start = first
    for match in _BREAK.finditer(text[first:last]):
        stop, end = first + match.start(), first + match.end()
        if match.group(1) == "." and not _ends_sentence(text, stop, end):
            continue
        _add(found, text, start, end)
        start = end
    _add(found, text, start, last)
    return found


def _segment_end(text: str, start: int) -> int:
    """With a line, else with a sentence, else with a word, where one ends in its second half."""
    half, end = start + SEGMENT // 2, start + SEGMENT
    if end >= len(text):
        return len(text)
    ends = (text.rfind(mark, half, end) + len(mark) for mark in _ENDS)
    return next((at for at in ends if at > half), end)


_ENDS = ("\n", ". ", "! ", "? ", " ")


def _ends_sentence(text: str, stop: int, end: int) -> bool:
    if end >= len(text):
        return True
    before = text[max(0, stop - 12) : stop + 1]
    following = text[end]
    if _ABBREVIATION.search(before):
        # "at 5 p.m. We left" ends; "Dr. Smith" and "J. Smith" do not.
        return before.lower().endswith(("etc.", ".m.")) and following.isupper()
    # "1. Buy milk": the number belongs to its item.
    if re.search(r"(?:^|\n)\s*\d{1,2}\.$", text[max(0, stop - 5) : stop + 1]):
        return False
    if _GERMAN_MONTH.match(text, end) and re.search(r"\b\d{1,2}\.$", before):
        return False  # "zum 1. Februar"
    return not following.islower()


def _add(found: list[Sentence], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    inner = piece.strip()
    if inner:
        lead = start + len(piece) - len(piece.lstrip())
        found.append(Sentence(inner, lead, lead + len(inner)))


def words(text: str) -> list[str]:
    """Lower-cased words; a possessive 's is not part of its word."""
    found = []
    for match in _WORD.finditer(text):
        word = match.group().lower().replace("’", "'")
        found.append(word[:-2] if word.endswith("'s") else word)
    return found


def is_stop(word: str) -> bool:
    return word.replace("'", "") in english().stop


def content_stems(text: str) -> list[str]:
    """Stems of the words that carry meaning, in order, with repeats."""
    return [stem(word) for word in words(text) if not is_stop(word) and _has_meaning(word)]


def _has_meaning(word: str) -> bool:
    return len(word) > 1 or word.isdigit() or not word.isascii()


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """What "paints", "painted" and "painting" have in common."""
    if len(word) > _LONGEST:
        return word
    stemmed: str = _stemmer().stemWord(english().forms.get(word, word))
    return stemmed


def _stemmer() -> Any:
    """One for each thread: a stemmer is not safe to share."""
    if not hasattr(_LOCAL, "stemmer"):
        import snowballstemmer  # takes a while to import

        _LOCAL.stemmer = snowballstemmer.stemmer("english")
    return _LOCAL.stemmer


def asks_the_same(text: str, asked: Collection[str]) -> bool:
    """Whether a text is a question that has no other stems than the one that is asked."""
    return "?" in text and set(content_stems(text)).issubset(asked)


def overlap(wanted: Iterable[str], given: Iterable[str]) -> float:
    """The share of the wanted stems that are given; 0 where nothing is wanted."""
    wish = set(wanted)
    return len(wish & set(given)) / len(wish) if wish else 0.0


def stems_of_names(text: str) -> set[str]:
    """Stems of the capitalised words inside a sentence, without those of the calendar."""
    inside = (match[0] for one in sentences(text) for match in _NAME_INSIDE.finditer(one.text))
    found = (word for match in inside for word in words(match))
    return {stem(word) for word in found if not is_stop(word) and word not in english().calendar}


_NAME_INSIDE = re.compile(r"(?<=[\w,;:] )[A-Z][\w'’-]+")


_SHORT = 160  # characters: a text up to this long is one passage


def best_passage(hint: str, text: str) -> tuple[int, int]:
    """Offsets of the best-matching one or two neighbouring sentences, or of the whole text if
    it is short. Of equals the earlier and shorter one."""
    whole = len(text) - len(text.lstrip()), len(text.rstrip())
    if len(text) <= _SHORT or whole[0] >= whole[1]:
        return whole if whole[0] < whole[1] else (0, len(text))
    pieces = sentences(text)
    if len(pieces) < 2:
        return whole
    wanted = set(content_stems(hint))
    stems = [content_stems(piece.text) for piece in pieces]
    # A word that every second sentence has tells little about which one is meant.
    frequency = Counter(stem for found in stems for stem in set(found))
    weigh = {stem: 1.0 / math.sqrt(frequency[stem]) for stem in wanted if stem in frequency}

    def value(run: Sequence[int]) -> float:
        given = {stem for index in run for stem in stems[index]}
        return sum(weight for stem, weight in weigh.items() if stem in given)

    singles = [(value([index]), -index, (index, index)) for index in range(len(pieces))]
    best = max(singles)
    pairs = [(value([i, i + 1]), -i, (i, i + 1)) for i in range(len(pieces) - 1)]
    widest = max(pairs)
    # Two sentences are chosen only if they are clearly better than one.
    first, last = widest[2] if widest[0] > best[0] * 1.3 + 0.3 else best[2]
    return _bounds(pieces, first, last)


def _bounds(pieces: Sequence[Sentence], first: int, last: int) -> tuple[int, int]:
    return pieces[first].start, pieces[last].end
