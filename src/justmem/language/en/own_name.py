"""The name that a speaker gives themselves: "My name is Oskar", "Hi, I'm Oskar", "call me Oz"."""

from __future__ import annotations

import re

from justmem.domain import Card
from justmem.language.data import english
from justmem.language.words import is_stop

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
    return name_in(card.fact.removeprefix("said: "))


def name_in(text: str) -> str | None:
    if match := _PLAIN.search(text):
        return match["name"]
    found = (match["name"] for pattern in _DOUBTFUL for match in pattern.finditer(text))
    name = next(filter(_is_name, found), None)
    return name and name[0].upper() + name[1:]


def _is_name(name: str) -> bool:
    first, lists = name.split()[0].lower(), english()
    known = (lists.not_names, lists.peoples, lists.calendar, lists.smalltalk)
    if is_stop(first) or any(first in words for words in known):
        return False
    return name[0].isupper() or not _VERB.fullmatch(name)
