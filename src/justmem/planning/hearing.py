"""Two things to hear before all else: is it a question at all, and does it want exact words?"""

from __future__ import annotations

import re

_ASKS = re.compile(
    r"^(?:(?:so|and|but|ok|okay|hey|hi|also|well|please|now|by the way)[, ]+)*"
    r"(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had|can"
    r"|could|will|would|should|may|might|am|in what|in which|at what|at which|on what|for how|since"
    r" when|by what|to what|to whom|with whom|from where|with which|tell me|remind me|list|name"
    r"|give me|show me|find|describe|explain|summari[sz]e|compare|recommend|suggest|count|quote"
    r"|repeat|what's"
    r"|who's|where's|when's|how's|i wonder|i was wondering|i'm trying to remember|do you remember)"
    r"\b",
    re.IGNORECASE,
)
_ASKS_WITHIN = re.compile(
    r"\b(?:remind me|can you|could you|tell me|any (?:tips|ideas|suggestions|advice"
    r"|recommendations)"
    r"|i (?:want|wanted|would like|need) to (?:know|confirm|check|ask|follow up)|i'm wondering"
    r"|trying to (?:recall|remember)"
    r"|i was wondering|what should i|do you (?:have|know|remember))\b",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"(?:\b(?:you know|right|huh|eh|okay|ok|isn't it|don't you think|am i|is it)\s*\?|\?!|\?\")$",
    re.IGNORECASE,
)


_EXCLAIMS = re.compile(r"(?:can|could|would) you (?:believe|imagine)\b", re.IGNORECASE)
# "When the alarm rang I ran out.": a story may begin like a question.
_TELLS = re.compile(
    r"(?:when|whenever|where|how|what|which|who)\b(?! (?:did|do|does|is|are|was|were|has|have"
    r"|had|can"
    r"|could|will|would|should|many|much|long|often|far|old)\b).*[,—-].*\b(?:I|we|my)\b",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """A remark told to someone is none, even where it ends by asking what they think of it."""
    if _EXCLAIMS.match(text) or ("?" not in text and _TELLS.match(text)):
        return False
    if _ASKS.match(text) or _ASKS_WITHIN.search(text):
        return True
    if not text.endswith("?") or _TAG.search(text):
        return False
    last = re.split(r"(?<=[.!?])\s+", text)[-1]
    # "According to Sam, what matters?" asks; "... and everyone shrugged—am I wrong?" does not.
    clauses = re.split(r", | - ", last)
    return any(_ASKS.match(part) for part in clauses) or len(text.split()) <= 8


# ---------------------------------------------------------------- exact words

# "The cake we made" is a family's; what an assistant and a user do together is to talk.
_TALKED = (
    r"talk|talked|talking|discuss|discussed|discussing|spoke|chatted|outlined|went over|wrote"
    r"|came up with|worked on|brainstormed"
)
_GAVE = (
    r"recommend|suggest|mention|tell|told|say|said|give|gave|provide|write|wrote|list|share"
    r"|describe|explain|create|made|make|come up with|came up with|draft|generate|outline|show"
    r"|propose|send|sent|point|advise|quote|cite|compile|design|help|refer|name|identify"
)
_SOURCE = re.compile(
    r"\bour (?:\w+ ){0,3}(?:chats?|conversations?|discussions?|exchanges?|sessions?)\b"
    r"|\b(?:chat|conversation|discussion) (?:\w+ )?with you\b"
    r"|\b(?:previous|earlier|last|prior|past) (?:chat|conversation|discussion|exchange)\b"
    r"(?! with (?!you\b))"
    rf"|\byou(?: had| have|'ve|'d| also| just| once| previously| originally| earlier| initially)*"
    rf" (?:{_GAVE})(?:e?d)?\b(?! me (?:if|whether))"
    rf"|\b(?:did|had|have) you (?:\w+ )?(?:{_GAVE})(?:e?d)?\b"
    rf"|\b(?:we|we've|we had)(?: \w+ly)? (?:{_TALKED})\b"
    r"|\bthe (?:\w+ ){1,4}(?:you|that you) (?:gave|made|wrote|shared|listed|sent)\b"
    r"|\b(?:verbatim|word[ -]for[ -]word|exact (?:words?|wording|quote|phras\w+|text)|precise words"
    r"|in (?:his|her|their|your|my) own words|quote (?:me|what|exactly|the))\b"
    r"|\bwhat exactly did \w+ (?:say|write|tell|answer|reply)\b"
    r"|\b(?:did|do|does) \w+ say exactly\b|\bexactly what (?:\w+ ){1,3}(?:said|wrote|told)\b"
    r"|\byour (?:previous|earlier|last|first|original) (?:\w+ )?(?:answer|reply|response|message"
    r"|suggestions?|recommendations?|list|plan|recipe|advice|explanation|example|code|script)\b"
    r"|\byour (?:\w+ )?(?:picks?|advice|ideas?|suggestions?|recommendations?|explanation|answer"
    r"|reply|tips?) (?:of|for|on|about|to|was|were|again)\b"
    r"|\bwhat (?:was|were) your (?:\w+ )?(?:picks?|advice|ideas?|suggestions?|recommendations?"
    r"|explanation|answer|reply|tips?)\b"
    r"|^(?:please )?(?:give|show|send|tell) me (?:\w+ ){0,8}?again\b",
    re.IGNORECASE,
)
_REMIND = re.compile(r"\bremind me\b(?P<of>[^.?!]*)", re.IGNORECASE)
_OFFER = re.compile(
    r"\b(?:can|could|would|will|should) you (?:\w+ )?(?:please )?(?:recommend|suggest|give|provide"
    r"|list|share|write|help|show|name|explain|describe|create|make|tell me (?:more|about)"
    r"|come up)\b"
    r"|\bif you (?:recommend|suggest)",
    re.IGNORECASE,
)


def needs_source(text: str) -> bool:
    """Whether it asks for what the assistant said before, or for anyone's exact words."""
    cleared = _OFFER.sub(" ", text)
    if _SOURCE.search(cleared):
        return not _own_words(cleared)
    remind = _REMIND.search(text)
    # "Remind me what I bought" asks for the user's own doings; "remind me of the name of that
    # deli" for something that was told.
    return bool(remind) and not re.search(
        r"\b(?:I|my|mine|we|our)\b(?! (?:was wondering|wanted))", remind["of"] if remind else ""
    )


def _own_words(text: str) -> bool:
    """ "You said" inside what someone else is quoted to have said is no reply of ours."""
    return bool(re.search(r"\b(?:did|does|do) [A-Z]\w+ (?:say|tell|mention) (?:that )?you\b", text))
