"""What a user asks an assistant for: the anchors by which a reply is found again."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
_ORDER = re.compile(
    r"^(?:please\s+)?(?:give|write|tell|show|list|create|make|explain|describe|suggest|recommend"
    r"|provide|summari[sz]e|translate|rewrite|rephrase|generate|compare|help|find|draft|design"
    r"|act|pretend|imagine|continue|expand|add|change|convert|calculate|solve|remind|edit|improve"
    r"|fix|analy[sz]e|outline|plan|teach|define|elaborate|include|use|let's)\b",
    re.IGNORECASE,
)
_LONGEST = 40  # words of a request worth keeping; the rest is in the source


@dataclass(frozen=True, slots=True)
class Request:
    fact: str


def requests(parts: Cut) -> tuple[list[Request], list[Statement]]:
    """The requests of a turn, and the statements that are none."""
    asked = [Request(_ask(question)) for question in parts.questions]
    kept = []
    for statement in parts.statements:
        plain = expand(statement.text)
        if _ORDER.match(plain) or _WISH.match(plain):
            asked.append(Request(_ask(plain)))
        else:
            kept.append(statement)
    return asked, kept


def _ask(text: str) -> str:
    plain = _short(expand(text).strip(" ?.!"))
    polite = _POLITE.match(plain)
    if polite and polite.end() < len(plain):
        return f"asked the assistant to {_own(plain[polite.end() :])}"
    if _ORDER.match(plain):
        plain = re.sub(r"^please\s+", "", plain, flags=re.IGNORECASE)
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
    r"```|^\s*(?:def |class |import |from \w+ import|#include|function |const |SELECT |</?\w+[ >]"
    r"|[{}]\)?;?\s*$)|[;{]\s*$",
    re.MULTILINE,
)
_TABLE = re.compile(
    r"(?:^[^\n|]*\|[^\n]*\|[^\n]*\n?){3,}|(?:^[^\n\t]+\t[^\n]*\n){3,}", re.MULTILINE
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
