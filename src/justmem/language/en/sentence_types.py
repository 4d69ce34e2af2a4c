"""Classifies English sentences: requests, commands, questions to the memory, and small talk."""

from __future__ import annotations

import re
from functools import cache

from justmem.language.en.word_lists import english
from justmem.language.words import content_stems, sentences, stem, words

_POLITE = re.compile(
    r"(?:^|[,.!] )(?:please|(?:can|could|would|will) (?:you|u)|i (?:want|need|would like|'d like)"
    r" (?:you to|your help|some help|help with|advice|recommendations|suggestions|tips))\b"
    r"|\b(?:any|some) (?:advice|ideas?|recommendations?|suggestions?|tips)\b",
    re.IGNORECASE,
)
_OPENER = re.compile(
    r"^(?:(?:ok|okay|now|next|then|also|and|so|great|good|perfect|alright|thanks|cool|hey|hi|pls"
    r"|please|yes|no|well|actually)[,.:!]?\s+)*"
)
_ASKS = re.compile(
    r"^(?:(?:what|who|where|when|why|how|which) (?:do|does|did|is|are|was|were|will|would|can|could"
    r"|should|has|have|about|to|many|much|long|often|old)|(?:do|does|are|can|could|would|will|should"
    r"|is|did|was) (?:you|u|i|we|they|he|she|it|there|my|the))\b",
    re.IGNORECASE,
)
# "Where do I live?" asks the memory, "How do I fix it?" asks for help.
_ASKS_MEMORY = re.compile(
    r"^(?:(?:so|and|hey|hi|ok|okay|again)[, ]+)*"
    r"(?:(?:what|where|when|who|whom|which|how (?:many|much|long|old|often))(?:'s|s| is| are| was"
    r"| were| did| do| does| have| has| am)? (?:\w+ ){0,3}?(?:i|my)\b"
    r"(?! (?:do|need|use|make|get|say)\b)"
    r"|(?:do|did) (?:you|u) (?:remember|recall|know (?:my|where i|who i|what i|when i))"
    r"|what do (?:you|u) (?:know|remember) about (?:me|my)|(?:am|did|do|have|was) i\b)",
    re.IGNORECASE,
)
_POLITE_QUESTION = re.compile(
    r"\b(?:how(?: are|'re|’re|re)? (?:you|u|ya)(?: doing)?|how(?: is|'s|’s|s) it going"
    r"|what(?: is|'s|’s|s) (?:up|new|good)|(?:are )?you there|anyone there|you good"
    r"|(?:can|could) (?:you|u) (?:help|hear)(?: me)?)\b(?: (?:today|now))?\s*\?*",
    re.IGNORECASE,
)
_ASKS_ANYTHING = re.compile(
    r"^\W*(?:(?:so|and|hey|hi|hello|ok|okay)[, ]+)*(?:who|whom|whose|what|which|when|where|why|how"
    r"|do|does|did|is|are|was|were|am|can|could|should|will|would|have|has|tell|remind|show|list)\b"
    r"|\bmy (?!pleasure|god|goodness|gosh|bad|friend|dear|man\b)",
    re.IGNORECASE,
)
_LONGEST_CHAT = 300  # characters
_HELP = re.compile(r"\b(?:should|can|could|would|best|how (?:do|to|can|should))\b", re.IGNORECASE)
_PRAISE = re.compile(
    r"\b(?:good|great|nice|awesome|amazing|excellent) (?:job|work|plan|idea|news|start)\b"
    r"|\b(?:that|this|it) (?:works|worked|will do)\b",
    re.IGNORECASE,
)


def asks_memory(question: str) -> bool:
    """Whether a question to the assistant asks for what memory holds: it makes no card."""
    return bool(_ASKS_MEMORY.match(question)) and not _HELP.search(question)


def is_request(sentence: str) -> bool:
    if sentence.rstrip(" \"')").endswith("?") or _POLITE.search(sentence):
        return True
    if is_command(sentence):
        return True
    start = _OPENER.sub("", sentence.lower())
    return bool(_ASKS.match(start)) and ", i " not in start


def is_command(sentence: str) -> bool:
    """Whether it begins with a verb such as "write" or "translate"."""
    start = _OPENER.sub("", sentence.lower())
    first = re.match(r"[\w']+", start)
    if first is None or first[0] not in english().requests:
        return False
    return not re.match(r"\w+(?:'s|,|:| (?:of|is|was|are|were|has)\b)", start)


def is_small_talk(sentence: str, people: frozenset[str] = frozenset()) -> bool:
    """Greetings, thanks, praise: nothing beyond the words of the small-talk list."""
    if any(character.isdigit() for character in sentence):
        return False
    left = [w for w in content_stems(_PRAISE.sub(" ", sentence)) if w not in people]
    return all(word in _small_talk() for word in left)


def is_small_talk_message(text: str) -> bool:
    """Whether a message is only small talk or a bare command such as "stop", so that no memory
    bears on it. A question is small talk only if it is a polite phrase, such as "How are you?"."""
    if len(text) > _LONGEST_CHAT:
        return False
    if " ".join(words(text)) in english().commands:
        return True
    said = [_POLITE_QUESTION.sub("", sentence.text) for sentence in sentences(text)]
    asks = any(sentence.endswith("?") or _ASKS_ANYTHING.search(sentence) for sentence in said)
    return not asks and all(is_small_talk(sentence) for sentence in said)


@cache
def _small_talk() -> frozenset[str]:
    """The words of the small-talk list and their stems."""
    listed = english().smalltalk
    return listed | frozenset(map(stem, listed))
