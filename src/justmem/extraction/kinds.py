"""What sort of memory a fact is, and whether it is over, going on or still to come."""

from __future__ import annotations

import re

from justmem.domain import Kind, Status
from justmem.extraction.verbs import is_adverb, is_past

_PLANNED = re.compile(
    r"\b(?:will|won't|going to|plan(?:s|ning)?|hop(?:es|ing) to|is (?:\w+ )?thinking (?:of|about)"
    r"|want(?:s|ing)? to|would (?:love|like) to|look(?:s|ing) forward|can't wait|about to|intends?"
    r"|considering|dreams? of|next (?:week|month|year|weekend|summer|\w+day)|tomorrow|upcoming"
    r"|scheduled|(?:is|are) (?:\w+ly )?(?:hosting|having|visiting|heading|attending|starting|"
    r"launching|opening|moving)\b.*\b(?:next|soon|tomorrow|this (?:week|weekend|month)))\b",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:loves?|likes?|enjoys?|prefers?|hates?|adores?|dislikes?|favou?rites?|fan of|into|keen on"
    r"|passion(?:ate)?|fond of|interested in|obsessed|would rather|can't stand|allergic|tastes?"
    r"|appreciates?|values?|treasures?|cherish(?:es)?)\b",
    re.IGNORECASE,
)
_UNITS = (
    r"(?:years?|months?|weeks?|days?|hours?|minutes?|miles?|km|kilomet\w+|met(?:er|re)s?|feet|foot"
    r"|inch(?:es)?|pounds?|lbs?|kg|kilos?|grams?|ounces?|oz|cups?|dollars?|bucks|euros?|percent"
    r"|degrees?|points?|pages?|steps?|calories|gb|mb|tb|mph|mpg|followers?|people|times|reps)"
)
_NUMBER = r"(?:\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|a dozen|dozens?)"
_MEASUREMENT = re.compile(rf"[$€£]\s?\d|\d\s?%|\b{_NUMBER}[ -]{_UNITS}\b(?! ago)", re.IGNORECASE)
_RELATION = re.compile(
    r"\b(?:husband|wife|partner|boyfriend|girlfriend|fianc[ée]+|spouse|mom|mother|mum|dad|father"
    r"|parents?|sister|brother|siblings?|son|daughter|kids?|children|grandma|grandpa|grandmother"
    r"|grandfather|aunt|uncle|cousins?|niece|nephew|friends?|colleagues?|coworkers?|neighbou?rs?"
    r"|roommate|mentors?|boss|married|engaged|dating)\b",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"(?:[\w' -]{1,40},\s+){2,}(?:and|or|&)\s+\w+"
    r"|(?:[\w' -]{1,40},\s+){2,}[\w' -]{1,40} (?:and|or|&) "
    r"|(?:[\w' -]{1,40},\s+){3,}",
    re.IGNORECASE,
)
_ONGOING = re.compile(
    r"^(?:\w+ly |just |still |also )*(?:is|are|isn't|has been|have been|keeps?|continues?|feels?"
    r"|works?|tries|needs?)\b|\b(?:currently|these days|right now|lately|at the moment|still)\b",
    re.IGNORECASE,
)


# "Is allergic to nuts, so there will be none": what follows is of another time.
_CLAUSE = re.compile(r"[;(]|, (?:so|but|which|because)\b| (?:because|so that|since)\b")


def status_of(fact: str) -> Status:
    if _happened(fact):
        return "completed"
    if _PLANNED.search(_CLAUSE.split(fact, maxsplit=1)[0]):
        return "planned"
    return "ongoing" if _ONGOING.search(fact) else "stable"


_EXCHANGED = re.compile(r"shared a photo|pasted |(?:asked|told) the assistant (?:to |\")")


def kind_of(fact: str, status: Status) -> Kind:
    told = fact.removeprefix("said ")
    if _EXCHANGED.match(fact):
        return "interaction"
    if status == "completed":
        if _PREFERENCE.search(told[:40]) and not re.search(r"\bago\b|yesterday|last ", told):
            return "preference"
        return "event" if fact is told or _happened(told) else "fact"
    if _LIST.search(told):
        return "list"
    if _PREFERENCE.search(told):
        return "preference"
    if status == "planned":
        return "event"
    if _MEASUREMENT.search(told):
        return "measurement"
    if _RELATION.search(told):
        return "relation"
    return "state" if status == "ongoing" else "fact"


def _happened(fact: str) -> bool:
    """Whether the main verb is a simple past, which opens the fact."""
    words = fact.lower().removeprefix("said ").replace("(", " ").split()
    for word in words[:4]:
        bare = word.strip(",.;:'\"")
        if is_adverb(bare):
            continue
        if bare in ("would", "could", "should", "might", "used"):
            return False
        return is_past(bare)
    return False
