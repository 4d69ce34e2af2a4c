"""Plan an English question by its wording. No model is called.

In order: is it a question, does it need the exact words, what form has the answer, does the
evidence span sessions, and which period is meant.
"""

from __future__ import annotations

import re
from datetime import datetime

from justmem.domain import UNKNOWN_DATE, EventDate, Mode, Operation, Plan
from justmem.language.data import english
from justmem.language.en import dates
from justmem.language.en.exact_words import EXACT_WORDS, any_of, needs_source
from justmem.language.en.sentence_types import is_command
from justmem.language.words import is_stop, words
from justmem.runtime.text import both_ends

_LONGEST_VIEW = 30  # words of a remark that its searches have


def plan_question(question: str, at: datetime) -> Plan:
    text = _normalize(question)
    if not is_question(text):
        views = remark_views(text)
        return Plan(mode="reply", spans_sessions=bool(views), rewrites=views)
    source = needs_source(text)
    mode = mode_of(text)
    operation = operation_of(text, mode, source=source)
    return Plan(
        operation=operation,
        mode=mode,
        period=period_of(text, at, mode),
        spans_sessions=not source and (mode == "advice" or operation in _SPANNING),
        needs_source=source,
    )


# Operations whose evidence is likely to lie in more than one session.
_SPANNING = frozenset({"order", "compare", "aggregate"})


def _normalize(question: str) -> str:
    """The two ends of a long question tell what it needs."""
    return both_ends(" ".join(question.replace("’", "'").split()))


_AUXILIARY = (
    r"(?:did|does|do|has|have|had|is|are|was|were|am|will|would|can|could|should|may|might)"
)
_WH = r"(?:who|whom|whose|what|which|when|where|why|how)"

# ---------------------------------------------------------------- question or remark

_ASKS = any_of(
    r"^(?:(?:so|and|but|ok|okay|hey|hi|also|well|please|now|by the way)[, ]+)*"
    rf"(?:(?:(?:in|at|on|for|by|to|with|from|since|around|until|about|of) )?{_WH}(?:'?s|'re|'d)?"
    rf"|{_AUXILIARY}(?:n't)?|tell me|remind me|list|name|give me|show me|find|describe|explain"
    r"|summari[sz]e|compare|recommend|suggest|count|quote|repeat|i wonder|i(?:'m| was) wondering"
    r"|i'm trying to remember)\b"
)
_ASKS_WITHIN = any_of(
    r"\b(?:remind me|can you|could you|tell me|what should i|do you (?:have|know|remember)"
    r"|any (?:tips|ideas|suggestions|advice|recommendations)|i(?:'m| was) wondering"
    r"|i (?:want|wanted|would like|need) to (?:know|ask|check)|trying to (?:recall|remember))\b"
)
# "When the alarm rang, I ran out.": a story may begin like a question.
_TELLS = any_of(
    rf"^(?:when|whenever|where|how|what|which|who)\b"
    rf"(?! (?:{_AUXILIARY}|many|much|long|often|far|old)\b).*[,—-].*\b(?:I|we|my)\b"
)
_FEW_WORDS = 8


def is_question(text: str) -> bool:
    """False for a remark, even if it ends by asking what the other thinks of it."""
    if "?" not in text and _TELLS.match(text):
        return False
    if is_command(text) or _ASKS.match(text) or _ASKS_WITHIN.search(text):
        return True
    if not text.endswith("?"):
        return False
    last = re.split(r"(?<=[.!?])\s+", text)[-1]
    asks = any(_ASKS.match(clause) for clause in re.split(r", | - ", last))
    return asks or len(text.split()) <= _FEW_WORDS


def remark_views(remark: str) -> tuple[str, ...]:
    """Searches for what may lie behind a remark. None for small talk."""
    told = dict.fromkeys(word for word in words(remark) if not is_stop(word))
    if english().smalltalk.issuperset(told):
        return ()
    core = " ".join(list(told)[:_LONGEST_VIEW])
    return tuple(view.format(core) for view in english().remark_views)


# ---------------------------------------------------------------- the form of the answer

_UNIT = r"(?:seconds|minutes|hours|days|weeks|months|years|decades|time)"
_DURATION = any_of(
    rf"\bhow (?:long|old)\b|\bhow (?:many|much) (?:\w+ )?{_UNIT}\b",
    r"\bhow much (?:earlier|later|older|younger|longer)\b",
)
_WHEN = any_of(
    rf"^(?:\w+[, ]+){{0,2}}when\b|\bwhen {_AUXILIARY}\b|\bsince when\b|\bwhat was the date\b",
    r"\b(?:what|which) (?:date|day|month|year|weekend)s?\b(?! of the week)",
)
_ORDER = any_of(
    r"\border (?:of|in which|from)\b|\border:|\bchronological|\bsequence of\b",
    r"\bearliest to latest\b|\bfirst to last\b",
)
_FIRST = any_of(
    r"\b(?:which|what|who)\b.*\b(?:first|earlier|last|later)\b.*(?:,| or )",
    r"\bwhich\b.*\b(?:happen|come|came|start|begin|began|occur)\w* (?:first|last|earlier)\b",
    r"\b(?:did|was) .{3,80}\bbefore or after\b",
)
_ADVICE = any_of(
    r"\byou (?:please )?(?:recommend|suggest)\b|^(?:please )?(?:recommend|suggest)\b",
    r"\bany (?:\w+ )?(?:tips|ideas|advice|suggestions|recommendations|thoughts)\b|\bany good\b",
    r"\bshould i\b|\bwhat (?:can|could|do you think) i\b|\bwhat (?:would you|do you think)\b",
    r"\bhelp me (?:plan|choose|decide|find|pick)\b|\bi(?:'m| am) (?:looking for|in need of)\b",
    r"\bdo you have any\b|\btips (?:for|on)\b|\bideas for\b|\bgive me some\b",
    r"\bhow (?:can|could|should|do) i\b",
)
_VERBATIM = any_of(EXACT_WORDS, r"\bwhat (?:did|does|do) (?:\w+ ){1,3}say\b(?! about| to do)")
_YES_NO = any_of(
    rf"^(?:(?:so|and|but|well)[, ]+)?{_AUXILIARY}(?:n't)?\b(?! you (?:\w+ )?(?:recommend|suggest"
    r"|remind|tell|give|help|list|show|name|explain))"
)
_COUNT = any_of(
    r"\bhow many\b|\bhow much (?:money|have|has|do|does|more|less|will|of|total)\b",
    r"\btotal (?:number|amount|cost|distance|weight|price)\b|\bnumber of\b|\bin total\b",
    r"\bcount\b|\baverage\b",
)
_LIST = any_of(
    r"^(?:\w+[, ]+){0,3}(?:what|which|who|where|name|list)\b.*\b(?:has|have) (?:\w+ ){1,6}?"
    r"(?:been|done|made|\w+ed|gone|seen|read|bought|had|won|taken|written|given|met)\b",
    r"^what (?:does|do) (?:\w+ ){1,5}(?:do|like|enjoy|eat|cook|collect|use)\b",
    r"^what (?:are|were) (?!the (?:name|title)\b)|\bwho (?:are|were)\b",
    r"^which (?:people|children|(?!series\b|news\b)[a-z]\w*[^s\W]s)\b",
    r"\blist (?:all|the|every|of)\b|\ball (?:the|of)\b|^name (?:all|the|some)\b",
    r"\bwhat (?:all|else|other|various|different|ways)\b|\bwhich (?:two|three|four)\b",
)
# "Which songs does", "what old boats have": a plural noun before the verb.
_PLURAL = any_of(
    r"\b(?:what|which) (?:\w+ )?(?:kinds|types|sorts) of\b",
    rf"\b(?:what|which)(?: the)?(?: (?!{_AUXILIARY}\b)[\w'+-]+){{0,3}}? "
    rf"(?:people|children|(?!this\b|series\b|news\b)[a-z][\w-]*[^s\W]s) (?:{_AUXILIARY}|of)\b",
)


# The first that fits decides.
_FORMS: tuple[tuple[re.Pattern[str], Mode], ...] = (
    (_ORDER, "order"),
    (_DURATION, "duration"),
    (_COUNT, "count"),
    (_WHEN, "date"),
    (_VERBATIM, "verbatim"),
    (_ADVICE, "advice"),
    (_YES_NO, "yesno"),
    (_FIRST, "short"),
    (_PLURAL, "list"),
    (_LIST, "list"),
)


def mode_of(text: str) -> Mode:
    return next((mode for pattern, mode in _FORMS if pattern.search(text)), "short")


_COMPARED = any_of(
    r"\bboth\b|\bin common\b|\bsimilar(?:ities)?\b|\bdiffer(?:ent|ence|s)?\b|\bcompared?\b",
    r"\bshared? by\b|\bmore .{1,60}\bthan\b|\bversus\b|\bvs\b",
    r"\b(?:more|less|better|rather|most|least)\b.{0,80}\bor\b|\bwhich\b.*\bthe (?:most|least)\b",
    r"\bhow much (?:more|less|older|younger|earlier|later|longer)\b|\byears older\b",
)
_INFERRED = re.compile(
    r"^(?:[Ww]ould|[Mm]ight|[Cc]ould) [A-Z]|\blikely\b|\bmight\b|\bwhat (?:would|could)\b"
    r"|\bwould (?:\w+ )?(?:be|want|enjoy|prefer)\b"
)
_LATEST = any_of(r"\b(?:current|currently|now|rn|latest|most recent)\b")
_RECENT = any_of(
    r"\b(?:recent|recently|last time|newest|these days|at the moment|so far|nowadays"
    r"|still|today)\b"
)


def operation_of(text: str, mode: Mode, *, source: bool = False) -> Operation:
    if source:
        return "lookup"
    if mode == "order" or _FIRST.search(text):
        return "order"
    if _COMPARED.search(text) or _INFERRED.search(text):
        return "compare"
    if mode == "advice":
        return "lookup"
    latest = _LATEST.search(text) or _RECENT.search(text)
    if mode == "duration":
        return "aggregate" if _SPENT.search(text) else "temporal"
    if mode == "count":
        return "temporal" if latest else "aggregate"
    if mode == "list":
        return "aggregate"
    if mode == "date" or latest:
        return "temporal"
    return "lookup"


_SPENT = any_of(rf"\bhow many {_UNIT}\b.*\b(?:spend|spent)\b")


# ---------------------------------------------------------------- the period


def period_of(text: str, at: datetime, mode: Mode) -> EventDate:
    """ "When did I buy it last year?" names a period; "how many days before June" does not."""
    if mode == "duration" and not re.search(r"\b(?:in|this|last|past)\b", text, re.IGNORECASE):
        return UNKNOWN_DATE
    if re.search(r"\bdays? of the week\b", text, re.IGNORECASE):
        return UNKNOWN_DATE
    cleared = re.sub(r"\b(?:most )?recently\b|\b(?:today|tonight)\s*\?$", " ", text, flags=re.I)
    return dates.period(cleared, at)
