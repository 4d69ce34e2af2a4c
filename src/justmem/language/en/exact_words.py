"""Whether a question asks for exact words: what the assistant said before, or a quotation."""

from __future__ import annotations

import re


def any_of(*patterns: str) -> re.Pattern[str]:
    """A pattern that finds any of these, in upper or lower case."""
    return re.compile("|".join(patterns), re.IGNORECASE)


_TALKED = (
    r"(?:talk|talked|talking|discuss|discussed|discussing|spoke|chatted|outlined|went over|wrote"
    r"|came up with|worked on|brainstormed)"
)
_GAVE = (
    r"(?:recommend|suggest|mention|tell|told|say|said|give|gave|provide|write|wrote|list|share"
    r"|describe|explain|create|made|make|come up with|came up with|draft|generate|outline|show"
    r"|propose|send|sent|point|advise|quote|cite|compile|design|help|refer|name|identify)(?:e?d)?"
)
_REPLY = (
    r"(?:answer|reply|response|message|suggestions?|recommendations?|list|plan|recipe|advice"
    r"|explanation|example|code|script|picks?|ideas?|tips?)"
)
_TALK = r"(?:chats?|conversations?|discussions?|exchanges?|sessions?)"
EXACT_WORDS = (
    r"\b(?:verbatim|word[ -]for[ -]word|exact (?:words?|wording|quote|phras\w+|text)"
    r"|precise words|in (?:his|her|their|your|my) own words|quote (?:me|what|exactly|the)"
    r"|what exactly did \w+ (?:say|write|tell|answer|reply)|(?:did|do|does) \w+ say exactly"
    r"|exactly what (?:\w+ ){1,3}(?:said|wrote|told))\b"
)
_SOURCE = any_of(
    rf"\bour (?:\w+ ){{0,3}}{_TALK}\b",
    rf"\b{_TALK} (?:\w+ )?with you\b",
    rf"\b(?:previous|earlier|prior|past) {_TALK}\b(?! with (?!you\b))",
    r"\blast (?:chat|conversation|discussion|exchange)\b(?! with (?!you\b))",
    rf"\byou(?: had| have|'ve|'d| \w+ly| also| just| once| earlier)* {_GAVE}\b"
    r"(?! me (?:if|whether))",
    rf"\b(?:did|had|have) you (?:\w+ )?{_GAVE}\b",
    rf"\b(?:we|we've|we had)(?: \w+ly)? {_TALKED}\b",
    EXACT_WORDS,
    rf"\byour (?:previous|earlier|last|first|original) (?:\w+ )?{_REPLY}\b",
    rf"\byour (?:\w+ )?{_REPLY} (?:of|for|on|about|to|was|were|again)\b",
    rf"\bwhat (?:was|were) your (?:\w+ )?{_REPLY}\b",
    r"^(?:please )?(?:give|show|send|tell) me (?:\w+ ){0,8}?again\b",
)
_REMIND = any_of(r"\bremind me\b(?P<of>[^.?!]*)")
# A request for something new.
_OFFER = any_of(
    r"\b(?:can|could|would|will|should) you (?:\w+ )?(?:please )?(?:recommend|suggest|give|provide"
    r"|list|share|write|help|show|name|explain|describe|create|make|tell me (?:more|about)"
    r"|come up)\b",
    r"\bif you (?:recommend|suggest)",
)


def needs_source(text: str) -> bool:
    """Whether it asks for what the assistant said before, or for anyone's exact words."""
    if _SOURCE.search(_OFFER.sub(" ", text)):
        return True
    remind = _REMIND.search(text)
    # "Remind me what I bought" asks for a fact; "remind me of the name of that deli" for words.
    return bool(remind and not re.search(r"\b(?:I|my|mine|we|our)\b", remind["of"], re.IGNORECASE))
