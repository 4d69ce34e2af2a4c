"""Verbs after "I", turned to follow a name: "I love" -> "Nora loves"."""

from __future__ import annotations

import re

_PAST = """was were had did went got took made saw met came gave bought found won lost ran ate began
told left felt spent wrote drove flew grew swam sang drew chose spoke broke built sent kept heard
caught taught thought brought said knew became held stood understood fell sold slept rode rose
threw wore paid led lent meant sat shot showed stuck struck swore tore woke wound bent bit blew
dealt dug fought forgot forgave froze hid hung laid lit rang sank shook slid spun stole stung
swept swung dreamt leapt learnt burnt spilt could would should might used"""
PAST = frozenset(_PAST.split())
_UNCHANGED = """put read set cut hit let quit cost hurt shut spread beat bet can will may must can't
won't couldn't wouldn't shouldn't didn't wasn't hadn't mustn't cannot gotta gonna better ought"""
UNCHANGED = PAST | frozenset(_UNCHANGED.split())
_NOT_PAST = frozenset(("need", "feed", "speed", "breed", "seed", "heed", "bleed", "proceed"))
_NOT_PAST |= {"exceed", "succeed", "embed", "bed", "red"}
_AUXILIARIES = {
    "am": "is",
    "'m": "is",
    "are": "is",
    "aren't": "isn't",
    "ain't": "isn't",
    "were": "was",
    "weren't": "wasn't",
    "have": "has",
    "haven't": "hasn't",
    "do": "does",
    "don't": "doesn't",
}
_ADVERBS = """just also always never still usually often sometimes already ever finally even only
kinda now then once both all too almost mostly lately soon definitely truly sorta actually simply
seldom maybe perhaps constantly somehow somewhat quite generally first last forever rather so not"""
ADVERBS = frozenset(_ADVERBS.split())
_NOT_ADVERBS = frozenset(("apply", "fly", "rely", "reply", "family", "supply", "multiply", "imply"))

_BASES = """love like enjoy hate prefer want need hope wish think believe feel know see hear look
go come get make take give find keep let try start begin stop work play study read write paint
draw cook bake run walk hike swim ride drive travel visit live stay move teach learn help support
volunteer meet talk speak say tell ask call watch listen use buy sell spend save earn eat drink
sleep wake wear own plan remember forget dream imagine consider practice sing dance perform join
attend create build design collect grow plant share show send bring carry choose understand miss
appreciate admire value treasure cherish care worry struggle suffer manage lead follow agree tend
have do am are"""
BASES = frozenset(_BASES.split())


def is_adverb(word: str) -> bool:
    return word in ADVERBS or (word.endswith("ly") and len(word) > 4 and word not in _NOT_ADVERBS)


def is_past(word: str) -> bool:
    return word in PAST or (word.endswith("ed") and len(word) > 3 and word not in _NOT_PAST)


def agree(verb: str) -> str:
    """The form after a name: "have" -> "has", "study" -> "studies"; past forms stay."""
    low = verb.lower()
    if low in _AUXILIARIES:
        return _AUXILIARIES[low]
    if low in UNCHANGED or is_past(low) or not re.fullmatch(r"[a-z]+", low):
        return verb
    if low.endswith(("s", "x", "z", "ch", "sh")) or low in ("go", "do", "echo", "veto"):
        return verb + "es"
    if low.endswith("y") and len(low) > 1 and low[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def singular(phrase: str) -> str:
    """A verb phrase after "I" or "we", made to follow a name: "really love hiking and go often"
    -> "really loves hiking and goes often"."""
    pieces = re.split(r"(\s+)", phrase)
    changed = False
    for index in range(0, len(pieces), 2):
        word = pieces[index]
        bare = word.rstrip(",;:.!?")
        if is_adverb(bare.lower()):
            continue
        new = agree(bare)
        changed = new != bare
        pieces[index] = new + word[len(bare) :]
        break
    text = "".join(pieces)
    return _COORDINATED.sub(_agree_second, text) if changed else text


_COORDINATED = re.compile(r"\b(and|or|but)(\s+(?:\w+ly\s+|also\s+|always\s+)?)([a-z]+)\b")


def _agree_second(match: re.Match[str]) -> str:
    """Only plain verbs are safe to change: "hiking and work" may well be a noun."""
    if match[3] not in _SAFE_SECOND:
        return match[0]
    return f"{match[1]}{match[2]}{agree(match[3])}"


_SAFE_SECOND = frozenset(("enjoy", "prefer", "want", "think", "believe", "feel", "know", "go")) | {
    "get",
    "make",
    "take",
    "give",
    "find",
    "have",
    "do",
    "am",
    "are",
}
