"""Yes or no, and only where a card says so itself.

A card that tells of the matter is not yet a yes: it may deny it, plan it, or tell it of somebody
else. Where none of its clauses says what is asked, the card is shown without a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from justmem.answering.counting import distinct
from justmem.answering.sentences import ASKED, Said, clauses, sentence, stated
from justmem.answering.states import asked_now
from justmem.answering.support import ASKING, Supported, relevant, told
from justmem.domain import Card, Evidence
from justmem.words import content, is_stop, names, stem, words

Verdict = Literal["Yes", "No", ""]

_ENOUGH = 0.6  # the share of the asked words that a clause must have to speak of the matter
_JUDGED = 3  # cards that may say yes or no
_NEXT = 2  # words that what ends a thing may be away from it: "left the house to play tennis"
_BEARING = 3  # cards shown where a judgement is asked for
_CONTRACTED = r"(?:do|does|did|is|was|are|were|has|have|had|wo|ca|could|would|should|ai)n['’]?t"
_NEGATION = re.compile(
    rf"\b(?:not|never|cannot|nothing|nobody|none|neither|nor|no longer|hardly|{_CONTRACTED}"
    r"|no(?= \w)(?! (?:doubt|wonder|matter|problem)))\b",
    re.IGNORECASE,
)
_WITHOUT = re.compile(r"\bwithout\b", re.IGNORECASE)
# What turns a thing round, whenever it was: who failed a test never passed it.
_TURNED = re.compile(
    r"\b(?:hat(?:es?|ed)|dislik(?:es?|ed)|(?:can(?:no|['’])t|couldn['’]t) stand|refus(?:es?|ed)"
    r"|avoid(?:s|ed)?|fail(?:s|ed)?|cancel(?:s|l?ed)?|called off|missed)\b",
    re.IGNORECASE,
)
# What ends a thing: who stopped smoking smoked before.
_ENDED = re.compile(
    r"\b(?:stop(?:s|ped)?|quits?|gave up|giv(?:es|en) up|sold|lost|left|used to|no longer)\b",
    re.IGNORECASE,
)
_OPPOSITE = re.compile(
    r"\b(?:stop|quit|give up|cancel|sell|sold|los[et]|leave|left|hate|dislike|refuse|avoid|fail"
    r"|miss|used to|stand)\w*\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(r"^(?:do|does|is|are|am|can|(?:has|have) \w+ got)\b|\bstill\b", re.IGNORECASE)
# Wished for or supposed: no plan yet.
_UNSURE = re.compile(
    r"\b(?:want|hop|wish|dream|consider|think)\w*(?= (?:to|of|for|about)\b)"
    r"|\b(?:want(?:s|ed)?|considering|would|might|(?-i:may)|could|if|should|maybe|perhaps)\b",
    re.IGNORECASE,
)
_PLANNED = re.compile(
    r"\b(?:plan|intend|aim)\w*(?= (?:to|on|for)\b)|\bgoing to\b|\b(?-i:will)\b",
    re.IGNORECASE,
)
_ASKED_AHEAD = re.compile(
    r"\b(?:will|going|plan|intend|soon|next|tomorrow)\w*\b|^(?:is|are|am)\b.*\b\w+ing\b",
    re.IGNORECASE,
)
# Words too light to be compared with words of content: what is asked, and what says so.
_LIGHT = (
    (
        r"\b(?:like|love|enjoy|fond of|fan of|into)\b",
        r"\b(?:lik|lov|enjoy|fond|fan|favou?rit|prefer|ador|hat|dislik|into|passion)\w*|\bstand\b",
    ),
    (
        r"^(?:do|does|did)\b.*\b(?:have|own)\b(?! to\b)|^(?:has|have) \w+ got\b",
        r"\b(?:ha[sd]|have|own\w*|got|bought|adopt\w*|keeps?|kept|inherit\w*|her|his|their|sold"
        r"|lost|my)\b|['’]s\b",
    ),
    (
        r"^(?:is|are|am|was|were)\b(?!.*\b\w+(?:ing|ed)\b)",
        r"\b(?:is|are|was|were|am|became|becomes|turned|as|named|called|stayed|remains)\b",
    ),
)
_SAYS_SO = [(re.compile(a, re.IGNORECASE), re.compile(b, re.IGNORECASE)) for a, b in _LIGHT]
_OPENING = re.compile(r"^(?:so|and|but|well)[, ]+", re.IGNORECASE)
_SAID_NO = re.compile(r"(?:said )?no\b(?=[:,;.]| \(|$)", re.IGNORECASE)
_SAID_YES = re.compile(r"(?:said )?(?:yes|yeah|yep|yup)\b", re.IGNORECASE)
_OF_WHOM = re.compile(r"\s*(?:and )?(?:said (?:that )?)?(?P<name>[A-Z][\w-]+)")
_POSSESSED = re.compile(r"\b(?P<name>[A-Z][\w-]+)['’]s (?P<what>[\w-]+)")


def yes_or_no(evidence: Evidence, found: Sequence[Supported]) -> Said:
    near, question = relevant(found), evidence.question
    # "Would she enjoy it?" asks for a judgement: show what bears on it, and judge nothing.
    judgement = evidence.plan.operation == "compare"
    said = [] if judgement else [(verdict(question, one.card), one.card) for one in near[:_JUDGED]]
    judged = [(word, card) for word, card in said if word]
    if judged:
        word, card = judged[0]
        if asked_now(question):  # what was told last holds, if it is told of the same
            wanted = set(content(question)) - ASKING
            had = wanted & told(card.text)
            alike = [row for row in judged if told(row[1].text) >= had]
            word, card = max(alike, key=lambda row: row[1].said_at)
        return stated(word, card)
    items = distinct(near, question)[: _BEARING if judgement else 1]
    shown = " ".join(sentence(one.card) for one in items)
    return Said(f"Memory does not say so outright. {shown}", [one.card for one in items])


def verdict(question: str, card: Card) -> Verdict:
    question = _OPENING.sub("", question.strip(), count=1)
    holder = card.subject.replace("’", "'").partition("'s ")[0]
    asked = _NEGATION.sub(" ", _rest(question))
    wanted = set(content(asked)) - ASKING - set(map(stem, words(holder)))
    if not wanted:
        return ""
    answered = _answered(wanted, card)
    if answered:
        return answered
    parts = clauses(card.fact)
    clause = max(parts, key=lambda one: len(wanted & told(one)))
    said = told(f"{card.subject} {clause}")
    numbers = {word for word in wanted if word.isdigit()}
    if len(wanted & said) < _ENOUGH * len(wanted) or not numbers <= said:
        return ""
    planned = _PLANNED.search(clause) or (card.status == "planned" and len(parts) == 1)
    if (planned and not _ASKED_AHEAD.search(question)) or _unsure(question, clause):
        return ""
    whole = card.fact if clause.startswith("not ") else clause  # "has a car, not a bike"
    if _of_another(question, card, clause) or not _says_so(question, whole):
        return ""
    denied = _denied(question, clause, wanted, holder)
    if denied is None:
        return ""
    return "No" if denied != _asked_in_the_negative(question) else "Yes"


def _unsure(question: str, clause: str) -> bool:
    """Whether a clause only wishes or supposes what is asked, unless just that is asked."""
    asked = set(map(stem, words(question)))
    return any(stem(match[0].lower()) not in asked for match in _UNSURE.finditer(clause))


def _answered(wanted: set[str], card: Card) -> Verdict:
    """The verdict of the person asked, where they were asked this very thing."""
    asked = ASKED.search(card.fact)
    if asked is None or len(wanted & set(content(asked["question"]))) < _ENOUGH * len(wanted):
        return ""
    if _SAID_NO.match(card.fact):
        return "No"
    return "Yes" if _SAID_YES.match(card.fact) else ""


def _of_another(question: str, card: Card, clause: str) -> bool:
    """Whether a clause is about somebody who is not asked about: asked of Theo and told of Nora,
    or "Nora's sister", or "said Tom lost a watch"."""
    asked = {word for name in names(_rest(question)) for word in words(name)}
    own = set(words(card.subject))
    _, _, held = card.subject.replace("’", "'").partition("'s ")
    if held and not set(words(held)) & set(words(question)):
        return True
    if not (asked - own) <= set(words(card.fact if asked & own else clause)):
        return True
    known = asked | own
    whom = _OF_WHOM.match(clause)
    if whom and whom["name"].lower() not in known and not is_stop(whom["name"].lower()):
        return True
    wanted = set(words(question))
    return any(
        match["name"].lower() not in known and match["what"].lower() in wanted
        for match in _POSSESSED.finditer(clause)
    )


def _says_so(question: str, clause: str) -> bool:
    """ "Met a nurse" does not say that somebody is one."""
    return all(says.search(clause) for asks, says in _SAYS_SO if asks.search(question))


def _denied(question: str, clause: str, wanted: set[str], holder: str) -> bool | None:
    """Whether a clause denies what is asked; None where it has a "not" whose reach is unclear."""
    turned = _TURNED.search(clause)
    rest = clause.replace(turned[0], " ") if turned else clause  # "can't stand" denies once
    denied = turned is not None and not _OPPOSITE.search(question)
    negation = _NEGATION.search(rest)
    if negation and negation[0].lower() != "no longer":
        if not wanted & set(content(rest[negation.end() :])):
            return None
        denied = not denied
    ended = _ENDED.search(rest)
    if ended and not _OPPOSITE.search(question) and _PRESENT.search(question):
        own = set(words(holder))
        after = [word for word in words(rest[ended.end() :]) if content(word) and word not in own]
        denied ^= bool(wanted & told(" ".join(after[:_NEXT])))
    without = _WITHOUT.search(rest)
    if without and wanted & set(content(rest[without.end() :])):
        denied = not denied
    return denied


def _asked_in_the_negative(question: str) -> bool:
    """ "Isn't Nora a nurse?" expects a yes; "Is Nora no longer a nurse?" asks for the end."""
    return bool(_NEGATION.search(_rest(question)))


def _rest(question: str) -> str:
    """What follows "is", "did", "haven't"."""
    return question.partition(" ")[2]
