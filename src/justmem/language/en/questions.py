"""Plans an English question by its wording. No model is called.

In order: is it a question, does it need exact words, what is done with the evidence, and which
period is meant.
"""

from __future__ import annotations

import re
from datetime import datetime

from justmem.domain import UNKNOWN_DATE, EventDate, Operation, Plan
from justmem.language.en import dates
from justmem.language.en.sentence_types import is_command
from justmem.language.en.word_lists import english
from justmem.language.words import is_stop, words
from justmem.runtime.validation import both_ends

_LONGEST_VIEW = 30  # words of a remark that its searches have
# Operations whose evidence is likely to be in more than one session.
_SPANNING = frozenset({"order", "compare", "aggregate", "advice"})


def plan_question(question: str, at: datetime) -> Plan:
    text = both_ends(" ".join(question.replace("’", "'").split()))
    if not is_question(text):
        views = remark_views(text)
        return Plan(operation="reply", spans_sessions=bool(views), rewrites=views)
    source = needs_source(text)
    operation = operation_of(text)
    if source and operation != "quote":
        operation = "lookup"
    return Plan(
        operation=operation,
        period=period_of(text, at),
        spans_sessions=not source and operation in _SPANNING,
        needs_source=source,
    )


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_AUXILIARY = (
    r"(?:did|does|do|has|have|had|is|are|was|were|am|will|would|can|could|should|may|might)"
)
_WH = r"(?:who|whom|whose|what|which|when|where|why|how)"

# ---------------------------------------------------------------- question or remark

_ASKS = _any_of(
    r"^(?:(?:so|and|but|ok|okay|hey|hi|also|well|please|now|by the way)[, ]+)*"
    rf"(?:(?:(?:in|at|on|for|by|to|with|from|since|around|until|about|of) )?{_WH}(?:'?s|'re|'d)?"
    rf"|{_AUXILIARY}(?:n't)?|tell me|remind me|list|name|give me|show me|find|describe|explain"
    r"|summari[sz]e|compare|recommend|suggest|count|quote|repeat|i wonder|i(?:'m| was) wondering"
    r"|i'm trying to remember)\b"
)
_ASKS_WITHIN = _any_of(
    r"\b(?:remind me|can you|could you|tell me|what should i|do you (?:have|know|remember)"
    r"|any (?:tips|ideas|suggestions|advice|recommendations)|i(?:'m| was) wondering"
    r"|i (?:want|wanted|would like|need) to (?:know|ask|check)|trying to (?:recall|remember))\b"
)
_FEW_WORDS = 8


def is_question(text: str) -> bool:
    """False for a remark, even if it ends by asking what the other thinks of it."""
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


# ---------------------------------------------------------------- exact words

_TALK = r"(?:chats?|conversations?|discussions?|exchanges?|sessions?)"
_GAVE = (
    r"(?:recommend|suggest|mention|tell|told|say|said|give|gave|provide|write|wrote|list|share"
    r"|describe|explain|create|made|make|come up with|came up with|draft|generate|outline|show"
    r"|propose|send|sent|advise|quote|name)(?:e?d)?"
)
_EXACT_WORDS = (
    r"\b(?:verbatim|word[ -]for[ -]word|exact (?:words?|wording|quote|phras\w+|text)"
    r"|in (?:his|her|their|your|my) own words|quote (?:me|what|exactly|the)"
    r"|what exactly did \w+ (?:say|write|tell|answer|reply)|(?:did|do|does) \w+ say exactly"
    r"|exactly what (?:\w+ ){1,3}(?:said|wrote|told))\b"
)
_SOURCE = _any_of(
    rf"\bour (?:\w+ ){{0,3}}{_TALK}\b|\b{_TALK} (?:\w+ )?with you\b",
    rf"\byou(?: had| have|'ve|'d| \w+ly| also| just| once| earlier)* {_GAVE}\b"
    r"(?! me (?:if|whether))",
    r"\b(?:we|we've|we had)(?: \w+ly)? (?:talk|discuss|spoke|chatted|outlined|went over|wrote"
    r"|came up with|worked on|brainstorm)(?:ed|ing)?\b",
    _EXACT_WORDS,
)
# "Remind me of the name of that deli" asks for words, "remind me what I bought" for a fact.
_REMIND = _any_of(r"\bremind me\b(?![^.?!]*\b(?:I|my|mine|we|our)\b)")
# A request for something new.
_OFFER = _any_of(
    rf"\b(?:can|could|would|will|should) you (?:\w+ )?(?:please )?(?:help|{_GAVE})\b(?! me again)",
)


def needs_source(text: str) -> bool:
    """Whether it asks for what the assistant said before, or for anyone's exact words."""
    return bool(_SOURCE.search(_OFFER.sub(" ", text)) or _REMIND.search(text))


# ---------------------------------------------------------------- what is done with the evidence

_UNIT = r"(?:seconds|minutes|hours|days|weeks|months|years|decades|time)"
_DURATION = rf"\bhow (?:long|old)\b|\bhow (?:many|much) (?:\w+ )?{_UNIT}\b"
_LATEST = (
    r"\b(?:current|currently|now|rn|latest|most recent|recent|recently|last time|newest"
    r"|these days|at the moment|so far|nowadays|still|today)\b"
)
_NOT_PLURAL = r"(?!this\b|series\b|news\b)"
# The first that fits decides.
_OPERATIONS: tuple[tuple[re.Pattern[str], Operation], ...] = (
    (_any_of(_EXACT_WORDS, r"\bwhat (?:did|does|do) (?:\w+ ){1,3}say\b(?! about| to do)"), "quote"),
    (
        _any_of(
            r"\border (?:of|in which|from)\b|\border:|\bearliest to latest\b",
            r"\b(?:which|what|who)\b.*\b(?:first|earlier|last|later)\b.* or ",
        ),
        "order",
    ),
    (
        _any_of(
            r"\byou (?:please )?(?:recommend|suggest)\b|\b(?:tips|ideas|advice|suggestions)\b",
            r"\bshould i\b|\bwhat (?:can|could) i\b|\bhow (?:can|could|should|do) i\b",
        ),
        "advice",
    ),
    (
        _any_of(
            r"\bboth\b|\bin common\b|\bdiffer(?:ent|ence|s)?\b|\bcompared?\b|\bshared? by\b",
            r"\bmore .{1,60}\bthan\b|\b(?:more|less|better|rather|most|least)\b.{0,80}\bor\b",
            r"\bwhich\b.*\bthe (?:most|least)\b|\blikely\b|\bmight\b|\bwhat (?:would|could)\b",
            r"\bhow much (?:more|less|older|younger|earlier|later|longer)\b|\byears older\b",
            r"^(?:would|might|could) (?-i:[A-Z])|\bwould (?:\w+ )?(?:be|want|enjoy|prefer)\b",
        ),
        "compare",
    ),
    (_any_of(rf"\bhow many {_UNIT}\b.*\b(?:spend|spent)\b"), "aggregate"),
    (
        _any_of(
            _DURATION,
            rf"^(?:\w+[, ]+){{0,2}}when\b|\bwhen {_AUXILIARY}\b|\bwhat was the date\b",
            r"\b(?:what|which) (?:date|day|month|year|weekend)s?\b(?! of the week)",
            rf"\bhow (?:many|much)\b.*{_LATEST}",
        ),
        "temporal",
    ),
    (
        _any_of(
            r"\bhow many\b|\bhow much (?:money|have|has|do|does|more|less|will|of|total)\b",
            r"\btotal (?:number|amount|cost|distance|weight|price)\b|\bnumber of\b|\bin total\b",
        ),
        "aggregate",
    ),
    # "Which songs does", "what old boats have": a plural noun before the verb.
    (
        _any_of(
            rf"\b(?:what|which)(?: the)?(?: (?!{_AUXILIARY}\b)[\w'+-]+){{0,3}}? "
            rf"(?:people|children|{_NOT_PLURAL}[a-z][\w-]*[^s\W]s) (?:{_AUXILIARY}|of)\b",
            r"^(?:\w+[, ]+){0,3}(?:what|which|who|where|name|list)\b.*\b(?:has|have) (?:\w+ ){1,6}?"
            r"(?:been|done|made|\w+ed|gone|seen|read|bought|had|won|taken|written|given|met)\b",
            r"^what (?:does|do) (?:\w+ ){1,5}(?:do|like|enjoy|eat|cook|collect|use)\b",
            r"^what (?:are|were) (?!the (?:name|title)\b)|\blist (?:all|the|every|of)\b",
            rf"^which (?:people|children|{_NOT_PLURAL}[a-z]\w*[^s\W]s)\b",
        ),
        "aggregate",
    ),
    (_any_of(_LATEST), "temporal"),
)


def operation_of(text: str) -> Operation:
    return next((name for pattern, name in _OPERATIONS if pattern.search(text)), "lookup")


# ---------------------------------------------------------------- the period


def period_of(text: str, at: datetime) -> EventDate:
    """ "When did I buy it last year?" names a period; "how many days before June" does not."""
    lasts = re.search(_DURATION, text, re.IGNORECASE)
    if lasts and not re.search(r"\b(?:in|this|last|past)\b", text, re.IGNORECASE):
        return UNKNOWN_DATE
    if re.search(r"\bdays? of the week\b", text, re.IGNORECASE):
        return UNKNOWN_DATE
    cleared = re.sub(r"\b(?:most )?recently\b|\b(?:today|tonight)\s*\?$", " ", text, flags=re.I)
    return dates.period(cleared, at)
