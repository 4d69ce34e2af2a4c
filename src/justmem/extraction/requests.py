"""What a user asks an assistant for: the anchors by which a reply is found again."""

from __future__ import annotations

import re

from justmem.extraction.pronouns import expand
from justmem.extraction.statements import Cut, Statement

_POLITE = re.compile(
    r"^(?:(?:and|also|but|so|then|now|ok|okay|great|yes|no|perfect|thanks|well|please)[,.!]?\s+)*"
    r"(?:can|could|would|will) you (?:please |also |maybe |possibly )*(?:help me (?:to )?)?",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"^I (?:want|need|would like|am hoping|was hoping|was wondering if)(?: you)? "
    r"(?:to (?:know|learn|hear|ask|see|get)|for you to|you to|if you (?:can|could)|your help"
    r"|some help|help with|advice|recommendations?|suggestions?|tips|you could)\b",
    re.IGNORECASE,
)
_HEAD = (
    r"^(?:(?:ok|okay|now|next|then|also|and|so|great|good|perfect|alright|please)[,.:]?\s+){0,4}"
)
_ORDER = re.compile(
    _HEAD + r"(?:give|write|tell|show|list|create|make|explain|describe|suggest|recommend"
    r"|provide|summari[sz]e|translate|rewrite|rephrase|generate|compare|help|find|draft|design"
    r"|act|pretend|imagine|continue|expand|add|change|convert|calculate|solve|remind|edit|improve"
    r"|fix|analy[sz]e|outline|plan|teach|define|elaborate|include|use|let's"
    r"|let (?:it|there) be|assess|categori[sz]e|classify|combine|condense|critique|discuss"
    r"|evaluate|extract|organi[sz]e|paraphrase|proofread|regenerate|replace|respond|revise|reword"
    r"|shorten|simplify|come up with|go (?:on|ahead)|try again)\b"
    r"(?!-|[,:]|'s| (?:of|is|was|are|were|has)\b)",  # "Plan of the week": a noun
    re.IGNORECASE,
)
# Without a question mark: "when will it be held", "is there a shorter way". What goes on after a
# comma or a colon is told: "Should I get the job, I will move".
_ASKS = re.compile(
    _HEAD + r"(?!.{0,200}:|.{0,200}, (?:I|my|we|our)\b|what is\b.{0,200}\bis\b)(?:"
    r"(?:what|who|where|when|why|how) (?:do|does|did|is|are|was|were|will|would|can|could|should"
    r"|has|have)\b"
    r"|(?:what|which)(?: [\w'-]+){1,2} (?:do|does|did|should|can|could|would|will)"
    r" (?:I|you|we|they|he|she|it|the|my|your|one)\b"
    r"|how (?:many|much|long|often|old|far|big)\b(?! (?:I|my|we|our)\b)|how to\b"
    r"|(?:do|does|are|can|could|would|will|should|have|has|is) (?:you|I|we|they|he|she|it|there)\b"
    r"|any (?:other )?(?:advice|ideas?|recommendations?|suggestions?|thoughts|tips)"
    r"(?= (?:about|for|how|on|please|to)\b|$)"
    r")",
    re.IGNORECASE,
)
_WAYS = (_ORDER, _WISH, _ASKS)
# How the assistant is to behave: nothing about the user.
_ROLE = re.compile(
    _HEAD + r"(?:from now on,? |instead,? )?(?:you (?:will|must|should|shall|need to|have to|can"
    r"|may|are (?:now|to|going to|an?|the)|cannot|do not|don't)\b"
    r"(?! (?:believe|imagine|know|laugh|love|remember)\b)"
    r"|your (?:task|job|role|goal|answers?|repl(?:y|ies)|responses?|output)"
    r" (?:are|is|must|should|will)\b)",
    re.IGNORECASE,
)
_LONGEST = 40  # words of a request worth keeping; the rest is in the source
_LINES = 3  # breaks in one sentence from which it is a list
_MUCH = 120  # words: more than news


def requests(parts: Cut, *, answers: bool = False) -> tuple[list[str], list[Statement]]:
    """The requests of a turn, as facts, and the statements that tell something of the user.
    `answers`: the assistant has just asked something, so that a word or two may say much."""
    asked = [_ask(question) for question in parts.questions]
    kept: list[Statement] = []
    given: list[str] = []  # to work on, without a word about oneself
    role = False
    for statement in parts.statements:
        plain = expand(statement.text)
        own = _SELF.search(plain) is not None
        if not own and _ROLE.match(plain):
            if not role:  # the rest of its instructions is in the source
                asked.append(_ask(plain))
            role = True
        elif any(way.match(plain) for way in _WAYS):
            asked.append(_ask(plain))
        elif own or answers:
            kept.append(statement)
        elif plain.count("\n") >= _LINES:
            given.append(plain)
        elif not _is_aside(plain):
            kept.append(statement)
    if not answers and len(parts.raw.split()) >= _MUCH and not _SELF.search(parts.raw):
        given += [expand(statement.text) for statement in kept]
        kept = []
    if given:
        asked.append(f'told the assistant "{_short(". ".join(given).strip(" ?.!"))}"')
    return asked, kept


# Also as it is typed in haste; in a long paste "i" and "us" would be other languages and others.
_SELF = re.compile(
    r"\b(?:I|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself|[Ww]e|[Oo]urs?|us)\b|(?<![\w.])i(?=['’ ])"
    r"|\bim (?=an? |the |in |not |so |\w+ing\b)"
)


def _is_aside(text: str) -> bool:
    """About what the assistant said, or about anyone. What names somebody, a number or a title
    may be news all the same."""
    return not _NAMES.search(text) and bool(_REACTS.match(text) or _ANYONE.search(text))


_NAMES = re.compile(r"\d|(?<=\s)[A-Z][a-z]|[\"“]")
_REACTS = re.compile(
    r"(?:it is|it's|it was|that is|that's) (?:\w+ )?(?:amazing|crazy|cool|encouraging|fascinating"
    r"|good|great|hard|incredible|inspiring|interesting|nice|reassuring|sad|surprising)"
    r" (?:to (?:hear|imagine|know|learn|note|read|see|think)|how|that)\b",
    re.IGNORECASE,
)
_ANYONE = re.compile(r"\byou (?:can|could|should|will|have to|need to|want to)\b", re.IGNORECASE)


def _ask(text: str) -> str:
    plain = _short(expand(text).strip(" ?.!"))
    polite = _POLITE.match(plain)
    if polite and polite.end() < len(plain):
        return f"asked the assistant to {_own(plain[polite.end() :])}"
    if _ORDER.match(plain):
        plain = re.sub(rf"{_HEAD}(?:let's )?", "", plain, flags=re.IGNORECASE)
        return f"asked the assistant to {_own(plain[0].lower() + plain[1:])}"
    return f'asked the assistant "{plain}"'


def _own(text: str) -> str:
    for pattern, word in ((r"\bmy\b", "their"), (r"\b(?:me|us)\b", "them"), (r"\bour\b", "their")):
        text = re.sub(pattern, word, text, flags=re.IGNORECASE)
    return re.sub(r"\bI am\b", "they are", re.sub(r"\bI\b(?! am)", "they", text))


def _short(text: str) -> str:
    words = " ".join(text.split()).split(" ")
    return " ".join(words) if len(words) <= _LONGEST else " ".join(words[:_LONGEST]) + " …"


# ---------------------------------------------------------------- pastes

_LONG = 1000  # characters: people do not type this much about themselves in one go
_CODE = re.compile(
    r"```|^[ \t]*(?:def |class |import |from \w+ import|#include|function |const |SELECT "
    r"|</?\w+[ >]|[{}]\)?;?[ \t]*$)|[;{][ \t]*$",
    re.MULTILINE,
)
_TABLE = re.compile(
    r"(?:^[^\n|]*\|[^\n|]*\|[^\n]*\n){2,}^[^\n|]*\|[^\n|]*\||(?:^[^\n\t]+\t[^\n]*\n){3,}",
    re.MULTILINE,
)
_OWN_WORDS = re.compile(r"\b(?:I|I'm|I've|my|me|we|our)\b")


def pasted(text: str) -> tuple[str, str]:
    """The user's own words, and a name for what was pasted behind them (or nothing)."""
    head = text[:_LOOKED_AT]
    code, table = _CODE.search(head), _TABLE.search(head)
    is_code = code is not None and (code.group() == "```" or len(_CODE.findall(head)) > 2)
    if not (is_code or table or _is_long(text)):
        return text, ""
    kind = "code" if is_code else "a table" if table else "a text"
    found = [match.start() for match in (code if is_code else None, table) if match]
    cut_at = min([*found, _first_break(head)])
    own, rest = text[:cut_at], head[cut_at:]
    first = next((line.strip(" `#|*") for line in rest.splitlines() if line.strip(" `#|*")), "")
    return own, f'{kind} that begins "{_short(first)}"' if first else ""


_LOOKED_AT = 20_000  # characters: enough to name what was pasted


def _is_long(text: str) -> bool:
    """Long, and hardly about oneself: one in sixty words at most is "I" or "my"."""
    if len(text) <= _LONG:
        return False
    head = text[:_LOOKED_AT]
    return len(text) > 6 * _LONG or len(_OWN_WORDS.findall(head)) * 60 < len(head.split())


def _first_break(text: str) -> int:
    """Where the user's own words end: a blank line, a colon at a line's end, or 400 characters."""
    match = re.search(r":\s*\n|\n\s*\n|\n", text[:600])
    return match.end() if match else min(len(text), 400)
