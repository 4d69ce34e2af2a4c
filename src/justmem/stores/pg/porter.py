"""Porter's stemmer, letter for letter as SQLite's FTS5 has it, so that both stores find the same
words by the same stems. It works on bytes, as FTS5 does; a test compares the two."""

from __future__ import annotations

from functools import lru_cache

_LONGEST = 64

_STEP_2 = (
    (b"ational", b"ate"), (b"tional", b"tion"), (b"enci", b"ence"), (b"anci", b"ance"),
    (b"izer", b"ize"), (b"logi", b"log"), (b"bli", b"ble"), (b"alli", b"al"), (b"entli", b"ent"),
    (b"eli", b"e"), (b"ousli", b"ous"), (b"ization", b"ize"), (b"ation", b"ate"),
    (b"ator", b"ate"), (b"alism", b"al"), (b"iveness", b"ive"), (b"fulness", b"ful"),
    (b"ousness", b"ous"), (b"aliti", b"al"), (b"iviti", b"ive"), (b"biliti", b"ble"),
)  # fmt: skip
_STEP_3 = (
    (b"ical", b"ic"), (b"ness", b""), (b"icate", b"ic"), (b"iciti", b"ic"), (b"ful", b""),
    (b"ative", b""), (b"alize", b"al"),
)  # fmt: skip
_STEP_4 = (
    b"al", b"ance", b"ence", b"er", b"ic", b"able", b"ible", b"ant", b"ement", b"ment", b"ent",
    b"ion", b"ou", b"ism", b"ate", b"iti", b"ous", b"ive", b"ize",
)  # fmt: skip


@lru_cache(100_000)
def stem(word: str) -> str:
    raw = word.encode()
    if not 3 <= len(raw) <= _LONGEST:
        return word
    return _stemmed(raw).decode(errors="replace")


def _stemmed(word: bytes) -> bytes:
    word = _past(_plural(word))
    if word.endswith(b"y") and _has_vowel(word[:-1]):
        word = word[:-1] + b"i"
    word = _replaced(_replaced(word, _STEP_2), _STEP_3)
    word = _dropped(word)
    if word.endswith(b"e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _short(rest)):
            word = rest
    if word.endswith(b"ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _plural(word: bytes) -> bytes:
    if not word.endswith(b"s"):
        return word
    if word.endswith(b"es"):
        long = (len(word) > 4 and word.endswith(b"sses")) or (
            len(word) > 3 and word.endswith(b"ies")
        )
        return word[:-2] if long else word[:-1]
    return word if word.endswith(b"ss") else word[:-1]


def _past(word: bytes) -> bytes:
    if word.endswith(b"eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in (b"ed", b"ing"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and rest and _has_vowel(rest):
            return _mended(rest)
    return word


def _mended(word: bytes) -> bytes:
    if len(word) > 2 and word.endswith((b"at", b"bl", b"iz")):
        return word + b"e"
    last = word[-1:]
    if len(word) > 1 and last not in b"aeiou" and last not in b"lsz" and last == word[-2:-1]:
        return word[:-1]
    return word + b"e" if _measure(word) == 1 and _short(word) else word


def _replaced(word: bytes, table: tuple[tuple[bytes, bytes], ...]) -> bytes:
    for ending, instead in table:
        if len(word) > len(ending) and word.endswith(ending):
            rest = word[: -len(ending)]
            return rest + instead if _measure(rest) > 0 else word
    return word


def _dropped(word: bytes) -> bytes:
    for ending in _STEP_4:
        if len(word) > len(ending) and word.endswith(ending):
            rest = word[: -len(ending)]
            fits = _measure(rest) > 1 and (ending != b"ion" or rest.endswith((b"s", b"t")))
            return rest if fits else word
    return word


def _consonants(word: bytes) -> list[bool]:
    found: list[bool] = []
    before = False
    for letter in word:
        before = letter not in b"aeiou" and not (letter == 0x79 and before)
        found.append(before)
    return found


def _measure(word: bytes) -> int:
    """How often vowels are followed by consonants: the m of the algorithm, up to 2."""
    count, vowel = 0, False
    for consonant in _consonants(word):
        if consonant and vowel:
            count += 1
            if count == 2:
                break
        vowel = not consonant
    return count


def _has_vowel(word: bytes) -> bool:
    return any(
        letter in b"aeiou" or (letter == 0x79 and place > 0) for place, letter in enumerate(word)
    )


def _short(word: bytes) -> bool:
    """Ends as in `hop`: consonant, vowel, consonant that is not w, x or y."""
    if word[-1:] in (b"w", b"x", b"y"):
        return False
    return _consonants(word)[-3:] == [True, False, True]
