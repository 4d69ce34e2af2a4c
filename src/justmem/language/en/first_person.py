"""Who "I" is: words in the first person, put in the third.

Cards name their subject, so "What am I allergic to?" finds little where "What is Mira allergic
to?" finds the card at once.
"""

from __future__ import annotations

import re

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
