"""What a question is about: names, quotations, and the noun phrases that carry it."""

from __future__ import annotations

import re

from justmem.words import is_stop, names, words

_QUOTED = re.compile(r"[\"“]([^\"”]{2,80})[\"”]|(?<!\w)['‘]([^'’]{2,60})['’](?!\w)")
_WEAK_WORDS = """what which who when where why how many much long often time times day days week
weeks month months year years ago happened happen first last event events passed between kind
type sort name names way ways did does remind previous conversation chat wondering wanted
confirm looking back going follow mentioned recommended suggested told able currently recent
recently different total number amount order earliest latest person people thing things favorite
lot describe feel feels likely considered want wants good best new do"""
_WEAK = frozenset(_WEAK_WORDS.split())
MOST = 6


def entities_of(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for match in _QUOTED.finditer(text):
        found.append(match[1] or match[2])
    spoken = _QUOTED.sub(" ", text)
    for name in names(spoken):
        if name.lower() not in _WEAK:
            found.append(name)
    taken = {word for name in found for word in words(name)}
    for phrase in _phrases(spoken):
        if not set(words(phrase)) & taken:
            found.append(phrase)
    return tuple(dict.fromkeys(found))[:MOST]


def _phrases(text: str) -> list[str]:
    """Runs of content words, longest first: "charity race", "summer pottery class"."""
    runs: list[list[str]] = [[]]
    for token in re.findall(r"[\w'+-]+|[^\w\s]", text.lower()):
        bare = token.removesuffix("'s")
        if not re.match(r"\w", token) or is_stop(bare) or bare in _WEAK:
            runs.append([])
        else:
            runs[-1].append(token)
            if token.endswith("'s"):
                runs.append([])
    phrases = [" ".join(run[-3:]) for run in runs if run]
    return sorted(phrases, key=lambda phrase: -len(phrase.split()))[:4]
