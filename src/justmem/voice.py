"""Who "I" is: words in the first person, put in the third.

Cards name their subject, so "What am I allergic to?" finds little where "What is Mira allergic
to?" finds the card at once.
"""

from __future__ import annotations

import re

# After these, "me" is the one who wants to be told, not the one it is about.
_TELL = ["tell", "remind", "show", "give", "help", "let", "send", "write", "ask", "find", "get"]
_ME = "".join(f"(?<!{verb} )" for verb in _TELL) + r"\b(?:me|myself)\b"
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
        (r"\bmy\b|\bmine\b", "{}'s"),
        (rf"\bI\b(?!\.)|{_ME}", "{}"),
    )
]


def named(text: str, speaker: str) -> str:
    """`text` as somebody else would put it who speaks of `speaker` by name."""

    def put(match: re.Match[str], instead: str) -> str:
        third = instead.format(speaker)
        return third[0].upper() + third[1:] if match[0][0].isupper() else third

    for pattern, instead in _PAIRS:
        text = pattern.sub(lambda match, instead=instead: put(match, instead), text)  # type: ignore[misc]
    return text


def first_person(text: str) -> bool:
    return named(text, "X") != text
