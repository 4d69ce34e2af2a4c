"""Question -> Plan by rules: what a person hears in the way a question is put.

Also the fallback when a model's plan cannot be read.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime

from justmem import deadlines
from justmem.domain import UNKNOWN_DATE, EventDate, Kind, Mode, Operation, Plan
from justmem.extraction.verbs import BASES
from justmem.language.en import dates
from justmem.planning.entities import entities_of
from justmem.planning.hearing import is_question, needs_source
from justmem.planning.rewriting import behind, rewrites_of
from justmem.ports import Planned
from justmem.words import both_ends


class RulesPlanner:
    """Plans by rules alone: no calls."""

    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        # In a thread: others of this event loop do not wait for it.
        return Planned(await asyncio.to_thread(plan_by_rules, question, at))


def plan_by_rules(question: str, at: datetime) -> Plan:
    """Pure: the same question at the same time always has the same plan. What a question needs is
    plain from its two ends. TimeLimitExceeded if it takes too long."""
    with deadlines.within(deadlines.QUESTION_SECONDS, "Planning this question by rules"):
        return _plan(both_ends(" ".join(question.replace("’", "'").split())), at)


def _plan(text: str, at: datetime) -> Plan:
    if not is_question(text):
        return Plan(
            operation="lookup",
            mode="reply",
            entities=entities_of(text),
            routes=("preference", "state", "event"),
            spans_sessions=True,
            rewrites=behind(text),
        )
    source = needs_source(text)
    mode = mode_of(text)
    period = _period(text, at, mode)
    operation = operation_of(text, mode, source=source)
    spans = not source and spans_sessions(text, operation, mode)
    return Plan(
        operation=operation,
        mode=mode,
        entities=entities_of(text),
        period=period,
        routes=routes_of(text, mode),
        spans_sessions=spans,
        needs_source=source,
        rewrites=rewrites_of(text) if spans else (),
    )


# ---------------------------------------------------------------- mode and operation

_DURATION = re.compile(
    r"\bhow long\b|\bhow (?:many|much) (?:\w+ )?(?:seconds|minutes|hours|days|weeks|months|years"
    r"|decades|time)\b|\bhow old\b|\bhow much (?:earlier|later|older|younger|longer)\b",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"^(?:\w+[, ]+){0,2}when\b|\bwhen (?:did|was|is|does|do|will|were|has|have|are)\b"
    r"|\b(?:what|which|on what|in what|in which) (?:date|day|month|year"
    r"|weekend)s?\b(?! of the week)"
    r"|\bwhat was the date\b|\bsince when\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\b(?:what is|in what|in which|tell me|give me)? ?(?:the )?order (?:of|in which|from)\b"
    r"|\bchronological|\bearliest to latest\b|\bfirst to last\b|\bsequence of\b",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:which|what|who)\b.*\b(?:first|earlier|last|later|before the other)\b.*(?:,| or )"
    r"|\bwhich\b.*\b(?:happen|come|came|start|start\w*|begin|began|occur)\w* (?:first|last"
    r"|earlier)\b"
    r"|\b(?:did|was) .{3,80}\b(?:before or after)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"\byou (?:please )?(?:recommend|suggest)\b|^(?:please )?(?:recommend|suggest)\b"
    r"|\bany (?:\w+ )?(?:tips|ideas|advice|suggestions"
    r"|recommendations)\b|\bwhat should i\b|\bwhat (?:can|could|do you think) i\b|\bhelp me (?:plan"
    r"|choose|decide|find|pick)\b|\bshould i\b|\bi(?:'m| am) (?:looking for|in need of)\b"
    r"|\bdo you have any\b|\bwhat would you\b|\btips (?:for|on)\b|\bideas for\b|\bgive me some\b"
    r"|\bany (?:thoughts|good)\b|\bhow (?:can|could|should|do) i\b|\bwhat do you think\b",
    re.IGNORECASE,
)
_VERBATIM = re.compile(
    r"\b(?:verbatim|word[ -]for[ -]word|exact (?:words?|wording|quote)|quote|what exactly did"
    r"|exactly what)\b|\bwhat (?:did|does|do) (?:\w+ ){1,3}say\b(?! about| to do)",
    re.IGNORECASE,
)
_YESNO = re.compile(
    r"^(?:(?:so|and|but|well)[, ]+)?(?:is|are|was|were|do|does|did|has|have|had|can|could|will"
    r"|would"
    r"|should|am|isn't|aren't|didn't|doesn't|hasn't)\b(?! you (?:\w+ )?(?:recommend|suggest|remind"
    r"|tell|give|help|list|show|name|explain))",
    re.IGNORECASE,
)
_MANY = re.compile(
    r"\bhow many\b|\bhow much (?:money|did|have|has|do|does|more|less|will|was|is|of|total)\b"
    r"|\btotal (?:number|amount|cost|distance|weight|price|time)\b|\bnumber of\b|\bin total\b"
    r"|\bhow often\b|\bcount\b|\baverage\b",
    re.IGNORECASE,
)
_PLURAL_HEAD = re.compile(
    r"\b(?:what|which)(?: (?:all|are|were))?(?: the)?(?: (?:kinds?|types?|sorts?) of)?"
    r"(?: (?!did|does|do|is|was|has|will|would|can|might)[\w'+-]+){0,3}? "
    r"(?:people|children|(?P<noun>[a-z][\w-]*[^s\W]s)(?: (?P<next>[\w']+))?)\b",
    re.IGNORECASE,
)
_FOLLOWING = "did does do is are was were has have had will would can could might should of"
_AFTER_NOUN = frozenset(_FOLLOWING.split())
_LIST = re.compile(
    r"^(?:\w+[, ]+){0,3}(?:what|which|who|where|name|list)\b.*\b(?:has|have) (?:\w+ ){1,6}?"
    r"(?:been|done|made|\w+ed|gone|seen|read|bought|had|tried|won|taken|written|given|met"
    r"|visited)\b"
    r"|^what (?:does|do) (?:\w+ ){1,5}(?:do|like|enjoy|eat|cook|collect|use)\b"
    r"|^what (?:are|were) (?!the (?:name|title)\b)|\blist (?:all|the|every|of)\b|\ball (?:the|of)\b"
    r"|\bwhat (?:all|else|other|various|different|kinds|types|sorts)\b|^name (?:all|the|some)\b"
    r"|\bin what ways\b|\bwhat ways\b|\bwho (?:are|were)\b|\bwhich (?:two|three|four)\b",
    re.IGNORECASE,
)


# "What topic has she written about?" asks for one.
_ONE_THING = re.compile(r"^(?:what|which) (?:[\w'+-]+ ){0,3}?[\w'+-]*[a-rt-z] has\b", re.IGNORECASE)


def mode_of(text: str) -> Mode:
    if _ORDER.search(text):
        return "order"
    if _DURATION.search(text):
        return "duration"
    if _WHEN.search(text) and not _MANY.search(text):
        return "date"
    if _MANY.search(text) and not re.search(
        r"\bhow much (?:is|was|did)\b|\bhow often\b", text, re.I
    ):
        return "count"
    if _VERBATIM.search(text):
        return "verbatim"
    if _ADVICE.search(text):
        return "advice"
    if _YESNO.match(text):
        return "yesno"
    if _FIRST.search(text):
        return "short"
    listed = _LIST.search(text) and not _ONE_THING.search(text)
    return "list" if listed or _many_things(text) else "short"


def _many_things(text: str) -> bool:
    match = _PLURAL_HEAD.search(text)
    if match is None or match["noun"] is None:
        return match is not None
    if re.search(r"\b(?:is|was|does|this|series|news|always)$", match["noun"]):
        return False
    # "Which songs does" and "which songs move", not "which song moves her".
    after = (match["next"] or "of").lower()
    return after in _AFTER_NOUN or after in BASES


_BOTH = re.compile(
    r"\bboth\b|\bin common\b|\bsimilar(?:ities)?\b|\bdiffer(?:ent|ence|s)?\b|\bcompared?\b"
    r"|\bshared?"
    r" by\b|\bmore .{2,60}\bthan\b|\b(?:more|less|better|rather|most|least)\b.{0,80}\bor\b"
    r"|\bwhich\b.*\bthe (?:most|least)\b|\bversus\b|\bvs\b|\bhow much (?:more|less|older|younger"
    r"|earlier|later|longer)\b|\bmore \w+ than\b|\byears older\b",
    re.IGNORECASE,
)
_INFER = re.compile(
    r"^(?:[Ww]ould|[Mm]ight|[Cc]ould) [A-Z]|\blikely\b|\bwould (?:\w+ )?(?:be considered|be"
    r"|want|enjoy|prefer)\b"
    r"|\bmight\b|\bpersonality\b|\battributes?\b|\btraits?\b|\bwhat (?:would|could|might)\b",
)
_AGGREGATE = re.compile(
    r"\bin total\b|\btotal\b|\bcombined\b|\baltogether\b|\bhow many\b|\ball (?:the|of)\b"
    r"|\bnumber of\b|\bhow much (?:money|time|did i spend|have i spent)\b|\baverage\b",
    re.IGNORECASE,
)
_LATEST = re.compile(
    r"\b(?:current|currently|now|latest|most recent|recent|recently|last time|newest|these days"
    r"|at the moment|so far|up to date|nowadays|still|today)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\bover (?:time|the (?:course|weeks?|months?|years?))\b|\bdevelop|\bchang(?:e|ed|es)\b"
    r"|\bevol\w+|\bprogress\w*\b|\bhistory of\b|\bused to\b"
    r"|\bpreviously\b|\bbefore\b.*\bnow\b|\bhow has\b",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\b(?:passed|elapsed) (?:between|since|from)\b|\bbetween\b.*\band\b|\bhow (?:many|long)\b.*"
    r"\b(?:before|after|when|until|since)\b|\btake (?:for )?\b.*\bafter\b",
    re.IGNORECASE,
)


def operation_of(text: str, mode: Mode, *, source: bool = False) -> Operation:
    if source:
        return "lookup"
    if mode == "order" or _FIRST.search(text):
        return "order"
    if _BOTH.search(text) or _INFER.search(text):
        return "compare"
    if mode == "advice":
        return "lookup"
    if mode == "duration":
        counted = re.search(
            r"\bhow many (?:hours|days|minutes)\b.*\b(?:spend|spent|total)\b", text, re.I
        )
        return "aggregate" if counted or "total" in text else "temporal"
    if mode == "count":
        return "temporal" if _LATEST.search(text) else "aggregate"
    if _AGGREGATE.search(text) or mode == "list":
        return "aggregate"
    if mode == "date" or _LATEST.search(text) or _CHANGE.search(text):
        return "temporal"
    return "lookup"


# Many things of one occasion are told together: "What did she eat at the picnic?"
_OCCASION = re.compile(
    r"\b(?:did|was|were|does|do)\b.*\b(?:at|during|after) (?:the|an?|his|her|their|my|our)\b"
    r"|\b(?:did|was|were)\b.*\b(?:on|in) (?:\d|mid|early|late|january|february|march|april|may"
    r"|june|july|august|september|october|november|december)",
    re.IGNORECASE,
)
# What comes again and again, and what one of several would answer, is told more than once; and
# each of two people is told of by themselves.
_AGAIN = re.compile(
    r"\b(?:recurring|recurrent|persistent|usually|regularly|typically|potentially)\b"
    r"|^who (?:has|have)\b|^what (?:is|are) (?:an?|one|some|something)\b"
    r"|^(?!.*\bdid\b).*\b(?-i:[A-Z][a-z]+(?:'s)? and [A-Z][a-z]+)",
    re.IGNORECASE,
)


def spans_sessions(text: str, operation: Operation, mode: Mode) -> bool:
    """Whether the evidence is likely to lie in more than one place."""
    if mode in ("count", "order", "advice") or operation in ("order", "compare"):
        return True
    if operation == "aggregate":
        return not (mode == "list" and _OCCASION.search(text))
    if mode in ("short", "yesno") and _AGAIN.search(text):
        return True
    if mode == "duration":
        return bool(_BETWEEN.search(text)) and not re.search(r"\bago\b", text)
    if mode == "date":
        return bool(re.search(r"\bfirst\b|\bboth\b|\blast time\b", text, re.I))
    return bool(
        _LATEST.search(text) and re.search(r"\bcurrent|\bmost recent|\blatest|\bnow\b", text, re.I)
    ) or bool(_CHANGE.search(text))


# ---------------------------------------------------------------- routes and period

_WORDS_TO_KINDS: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    (r"\b(?:like|love|enjoy|prefer|favou?rite|interest|hobb|passion|taste)", ("preference",)),
    (r"\b(?:husband|wife|friend|family|sister|brother|mother|father|related)", ("relation",)),
    (r"\b(?:how (?:many|much|long|far|tall|old)|price|cost|weigh)", ("measurement", "fact")),
    (r"\b(?:plan|going to|will|upcoming|intend)", ("event", "state")),
    (r"\b(?:did|went|attend|visit|buy|bought|happen|start|when)", ("event",)),
    (r"\b(?:current|now|feel|status|live|work)", ("state", "fact")),
)
_ROUTES = tuple((re.compile(words, re.IGNORECASE), kinds) for words, kinds in _WORDS_TO_KINDS)
_BY_MODE: dict[Mode, tuple[Kind, ...]] = {
    "date": ("event",),
    "order": ("event",),
    "advice": ("preference", "state"),
    "list": ("list",),
    "verbatim": ("interaction",),
}


def routes_of(text: str, mode: Mode) -> tuple[Kind, ...]:
    """Kinds to look at first; they order candidates and never shut any out."""
    kinds = list(_BY_MODE.get(mode, ()))
    for pattern, more in _ROUTES:
        if pattern.search(text):
            kinds.extend(more)
    return tuple(dict.fromkeys(kinds))[:3] or ("fact",)


def _period(text: str, at: datetime, mode: Mode) -> EventDate:
    """ "When did I buy it last year?" still names a period; "how many days before June" none."""
    if mode == "duration" and not re.search(r"\b(?:in|this|last|past)\b", text, re.IGNORECASE):
        return UNKNOWN_DATE
    if re.search(r"\bdays? of the week\b", text, re.IGNORECASE):
        return UNKNOWN_DATE
    cleared = re.sub(r"\b(?:most )?recently\b|\b(?:today|tonight)\s*\?$", " ", text, flags=re.I)
    return dates.period(cleared, at)
