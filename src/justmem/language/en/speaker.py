"""The speaker: the name they give themselves, and that name in place of "I".

Cards name their subject. So "What am I allergic to?" finds little, and "What is Mira allergic to?"
finds the card.
"""

from __future__ import annotations

import re

from justmem.domain import Card
from justmem.language.en.word_lists import english
from justmem.language.words import is_stop

# ---------------------------------------------------------------- the speaker's own name

NAME_WORD = "name"  # the statements add it to a card that gives a name without it
_NAME = r"(?P<name>(?-i:[A-Z])[\w'’-]*\w(?: (?-i:[A-Z])[\w'’-]*\w){0,2})"
_END = r"(?=\s*(?:[.,;!?)\n]|$|\b(?:and|but|by the way|btw|n|here)\b))"
_PLAIN = re.compile(rf"\bmy (?:first |full )?name(?:['’]?s| is) {_NAME}", re.IGNORECASE)
# What follows these may be no name: "call me Later", "Hi, I'm German".
_DOUBTFUL = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bmy name(?:['’]?s| is) (?P<name>[^\W\d_]{{2,20}}){_END}",
        r"(?:^|[.!,;] |\b(?:please|just|you can|can|everyone|friends|people) )calls? me "
        rf"{_NAME}{_END}",
        rf"(?:^|[.!] )(?:hi|hey|hello)\b[\w ]{{0,12}}[,.!]? (?:i['’]?m|i am|this is) {_NAME}{_END}",
        rf"(?:^|[.!] )(?:i['’]?m|i am) {_NAME},? (?:by the way|btw)\b",
        # As a model writes it: "User | is named Oskar".
        rf"^(?:is (?:named|called)|goes by|['’]s name is|has the name) {_NAME}",
    )
]
_VERB = re.compile(r".*(?:ed|ing)")


def own_name(card: Card) -> str | None:
    if card.kind == "interaction":
        return None
    return name_in(card.words)


def name_in(text: str) -> str | None:
    if match := _PLAIN.search(text):
        return match["name"]
    found = (match["name"] for pattern in _DOUBTFUL for match in pattern.finditer(text))
    name = next(filter(_is_name, found), None)
    return name and name[0].upper() + name[1:]


def _is_name(name: str) -> bool:
    first, lists = name.split()[0].lower(), english()
    known = (lists.question_words, lists.peoples, lists.calendar, lists.smalltalk)
    if is_stop(first) or any(first in words for words in known):
        return False
    return name[0].isupper() or not _VERB.fullmatch(name)


# ---------------------------------------------------------------- first person to third

# After these, "me" is the one who wants to be told, not the one it is about.
_TELL = ["tell", "remind", "show", "give", "help", "let", "send", "write", "ask", "find", "get"]
_ME = "".join(f"(?<!{verb} )" for verb in _TELL) + r"\b(?:me|myself|(?-i:us)|ourselves)\b"
# What the one who asks did with the assistant, not with family: to talk.
_WITH_YOU = (
    r"(?! (?:\w+ly |had |have |are |were |been ){0,3}"
    r"(?:talk|discuss|speak|spoke|chat|outlin|went over|brainstorm))"
)
_OURS = r"(?! (?:\w+ ){0,3}(?:chats?|conversations?|discussions?|exchanges?|sessions?|talks?)\b)"
_PAIRS = [
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\bam I\b", "is {}"),
        (r"\bI am\b|\bI['’]m\b", "{} is"),
        (r"\bdo I\b", "does {}"),
        (r"\bdon['’]t I\b", "doesn't {}"),
        (r"\bhave I\b", "has {}"),
        (r"\bhaven['’]t I\b", "hasn't {}"),
        (r"\bI have\b|\bI['’]ve\b", "{} has"),
        (r"\bI['’]d\b", "{} would"),
        (r"\bI['’]ll\b", "{} will"),
        (rf"\bare we\b{_WITH_YOU}", "is {}"),
        (rf"\bwere we\b{_WITH_YOU}", "was {}"),
        (rf"\bwe are\b{_WITH_YOU}|\bwe['’]re\b{_WITH_YOU}", "{} is"),
        (rf"\bdo we\b{_WITH_YOU}", "does {}"),
        (rf"\bhave we\b{_WITH_YOU}", "has {}"),
        (rf"\bwe have\b{_WITH_YOU}|\bwe['’]ve\b{_WITH_YOU}", "{} has"),
        (rf"\bwe['’]d\b{_WITH_YOU}", "{} would"),
        (rf"\bwe['’]ll\b{_WITH_YOU}", "{} will"),
        (rf"\bmy\b|\bmine\b|\bour\b{_OURS}|\bours\b", "{}'s"),
        (rf"\bI\b(?!\.)|\bwe\b(?!['’]){_WITH_YOU}|{_ME}", "{}"),
    )
]


def name_speaker(text: str, speaker: str) -> str:
    """`text` as somebody else would put it who speaks of `speaker` by name."""

    def put(match: re.Match[str], instead: str) -> str:
        third = instead.format(speaker)
        return third[0].upper() + third[1:] if match[0][0].isupper() else third

    for pattern, instead in _PAIRS:
        text = pattern.sub(lambda match, instead=instead: put(match, instead), text)  # type: ignore[misc]
    return text


def is_first_person(text: str) -> bool:
    return name_speaker(text, "X") != text
