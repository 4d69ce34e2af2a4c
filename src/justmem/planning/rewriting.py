"""Other ways to look for the same thing: a question as a statement, a remark as what may lie
behind it. Never an answer."""

from __future__ import annotations

import re

from justmem.planning.topics import related
from justmem.words import is_stop, names, words

_AUXILIARY = r"(?:did|does|do|has|have|had|is|are|was|were|will|would|can|could|should|might)"
_WH = re.compile(
    rf"^(?:(?:so|and|but|in|at|on|for|to|with|from|by) )?"
    rf"(?:what|which|who|whom|whose|when|where|why|how(?: many| much| long| often)?)\b"
    rf"(?P<noun>(?: (?!{_AUXILIARY}\b)[\w'+-]+){{0,5}})"
    rf"(?: (?P<aux>{_AUXILIARY}))?\b(?P<rest>.*)$",
    re.IGNORECASE,
)
# "What did she paint, and who bought it?" is two questions.
_AND = re.compile(r",? and (?=(?:what|which|who|when|where|why|how)\b)", re.IGNORECASE)
_LONGEST = 30  # words of a rewrite
# How it is asked, not what was told: nobody says "from earliest to latest" of what they did. When
# it was is looked for by the calendar.
_FORM = re.compile(
    r"\bthe (?:chronological )?order (?:of|in which)\b(?: the)?"
    r"(?: (?:two|three|four|five|six|\d+))?"
    r"|,? ?\bfrom (?:the )?(?:earliest|first|oldest) to (?:the )?(?:latest|last|newest)\b"
    r"|,? ?\bin (?:chronological )?order\b|\bin total\b"
    r"|\b(?:kinds?|types?|sorts?) of\b"
    r"|\b(?:(?:in|during|over|within) )?the (?:past|last) "
    r"(?:(?:\w+ )?(?:days|weeks|months|years)|week|month|year)\b",
    re.IGNORECASE,
)


def rewrites_of(question: str) -> tuple[str, ...]:
    """Up to two: the question said as a statement, and its words with related ones."""
    what = " ".join(_FORM.sub(" ", question).split())
    views = [statement_of(what), _keywords(what)]
    plain = question.rstrip("?").lower()
    return tuple(dict.fromkeys(v for v in views if v and v.lower() != plain))[:2]


def statement_of(question: str) -> str:
    """ "What languages does Nora speak?" -> "Nora speak languages"."""
    parts = _AND.split(question.strip().rstrip("?!. "))
    return _cut(", ".join(map(_told, parts)))


def _told(text: str) -> str:
    match = _WH.match(text)
    if match:
        noun, rest = match["noun"].strip(), match["rest"].strip()
        # Without an auxiliary the words stand in the order of a statement already.
        text = f"{rest} {noun}" if match["aux"] else f"{noun} {rest}"
    else:
        text = re.sub(rf"^{_AUXILIARY}\s+", "", text, flags=re.IGNORECASE)
    return re.sub(r"\b(?:likely|be considered|I)\b", " ", text).strip()


def _keywords(question: str) -> str:
    """Who and what, with words that go with it."""
    who = list(dict.fromkeys(names(question)))
    people = {word for name in who for word in words(name)}
    what = [w for w in words(question) if not is_stop(w) and w not in people]
    more = related(words(question))
    if not more:
        return ""
    return _cut(" ".join([*who, *dict.fromkeys(what), *more]))


def behind(remark: str) -> tuple[str, ...]:
    """What an earlier memory behind a remark may have said: mostly a reason."""
    text = re.sub(r"^\w{1,12}: ", "", remark)
    core = " ".join(dict.fromkeys(word for word in words(text) if not is_stop(word)))
    if not core:
        return ()
    cause = f"always does this because of an earlier experience with {_cut(core)}"
    return cause, f"because {_cut(core)}, I changed my habit"


def _cut(text: str) -> str:
    return " ".join(text.split()[:_LONGEST])
