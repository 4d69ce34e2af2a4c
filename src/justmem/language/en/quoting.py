"""Selects the statements that fit a question, and orders them for quoting."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from justmem.domain import Candidate, Card, Evidence, Session
from justmem.language.en.word_lists import english
from justmem.language.words import content_stems, stem, stems_of_names, words

# Bounds of closeness. A reranker's logit of 0 means that the statement is as likely as not to fit.
_WEAK = -2.0  # below it, a statement must share words with the question
_PREFIX = 3  # letters that a stem has to have to stand for a longer one
_SHARE = 0.3  # of the question's words that it must share then
_STRONG = 4.0  # from it on, a missing noun does not matter
_CERTAIN = 1.5  # from it on, a missing word does not make a statement uncertain
# If a statement of somebody else has this much more of the topic, the question names the wrong
# person.
_MUCH_MORE = 0.3
_ABOUT_AS_CLOSE = 2.0
# What the share of the question's words and closeness are worth for the order of the statements.
_SHARED = 2.0
_CLOSE = 0.1
_CONTEXT = re.compile(r" \((?:asked|about) \".*\"(?:; .*)?\)$| \((?:photo|name): .*\)$", re.DOTALL)
_PAST = re.compile(
    r"\b(?:before|used to|previous(?:ly)?|former(?:ly)?|originally|back then|was|were|b4)\b",
    re.IGNORECASE,
)
_EVENT = re.compile(r"\b(?:did|had|ago|first|when)\b", re.IGNORECASE)
_NOW = re.compile(
    r"\b(?:is|are|am|do|does|has|have|can|now|rn|still|these days|(?:what|where|who|how)s)\b"
    r"|['’]s\b",
    re.IGNORECASE,
)
_OWN_STATE = re.compile(r"\b(?:am|are|do|have) (?:i|we)\b", re.IGNORECASE)
_SELF = re.compile(r"\b(?:i|we|im|ive|me|us)\b", re.IGNORECASE)
_OWN_NOUN = re.compile(r"\b(?:(?<!for )my|our) (?P<noun>[\w'’-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """A card as it was said, and how well it fits the question."""

    card: Card
    text: str  # the words, without their context
    stems: frozenset[str]  # of the words, their context and the speaker
    closeness: float  # the reranker's logit, or an estimate of it
    correction: int  # the turn of the same session that corrects it; 0: none

    @property
    def turn(self) -> tuple[str, int]:
        return self.card.session_id, self.card.turns[-1]


@dataclass(frozen=True, slots=True)
class Question:
    """What a question is about."""

    text: str
    topic: frozenset[str]  # stems, without names and without question words
    names: frozenset[str]  # stems of the names
    people: frozenset[str]  # those of them who speak in memory
    about_past: bool
    about_now: bool


def parse_question(evidence: Evidence) -> Question:
    question = evidence.question
    speakers = {stem(w) for one in evidence.chosen for w in words(one.card.subject)}
    named = stems_of_names(question) | (speakers & set(map(stem, words(question))))
    asking = set(map(stem, english().question_words))
    past = bool(_PAST.search(question))
    now = not past and bool(_NOW.search(question)) and not _EVENT.search(question)
    return Question(
        text=question,
        topic=frozenset(content_stems(question)) - named - asking,
        names=frozenset(named - asking),
        people=frozenset(named & speakers),
        about_past=past,
        about_now=now and evidence.plan.operation != "reply",
    )


def rank_statements(
    evidence: Evidence, asked: Question, sessions: Mapping[str, Session]
) -> list[Statement]:
    """Best first, by the score of the card, the words of the question that it has, and its
    closeness."""
    asked_stems = content_stems(evidence.question)
    found = []
    for one in evidence.chosen:
        statement = statement_from(one, sessions, asked_stems)
        shared = coverage(asked.topic, statement.stems)
        found.append((one.score + _SHARED * shared + _CLOSE * statement.closeness, statement))
    return [statement for _, statement in sorted(found, key=lambda row: -row[0])]


def statement_from(
    candidate: Candidate, sessions: Mapping[str, Session], asked: Iterable[str] = ()
) -> Statement:
    card, scores = candidate.card, candidate.scores
    stems = frozenset(content_stems(card.text))
    near = max(-10.0, min(10.0, (scores.get("cosine", 0.0) - 0.68) * 80))
    # Without a reranker, shared words say more than vectors.
    closeness = scores.get("rerank", max(near, 8 * coverage(asked, stems) - 4))
    text = card.words.removeprefix("asked the assistant: ")
    correction = _correction(card, sessions.get(card.session_id))
    return Statement(card, _CONTEXT.sub("", text), stems, closeness, correction)


def _correction(card: Card, session: Session | None) -> int:
    """The next turn of the same speaker, if it corrects the card: "wait, no"."""
    if session is None:
        return 0
    own = max((n for n in card.turns if session.turn(n).role != "assistant"), default=0)
    for number in range(own + 1, min(own + 3, len(session.turns) + 1)) if own else ():
        turn = session.turn(number)
        if turn.speaker == session.turn(own).speaker:
            return number if _corrects(turn.text) else 0
    return 0


def _corrects(text: str) -> bool:
    pattern = "|".join(map(re.escape, english().corrections))
    return bool(re.match(rf"(?:{pattern})\b", text, re.IGNORECASE)) and not text.endswith("?")


def coverage(wanted: Iterable[str], given: Iterable[str]) -> float:
    """The share of the wanted stems that are given."""
    wish, have = set(wanted), set(given)
    return sum(contains_stem(one, have) for one in wish) / len(wish) if wish else 0.0


def contains_stem(wanted: str, given: Collection[str]) -> bool:
    """Whether the stem is given, or one that it begins with or that begins with it. "Dal" may be
    Dalhousie."""
    return wanted in given or any(
        (len(wanted) >= _PREFIX and one.startswith(wanted))
        or (len(one) > _PREFIX and wanted.startswith(one))
        for one in given
    )


def select_fitting(found: Sequence[Statement], asked: Question) -> list[Statement]:
    """The statements worth quoting. Words that no statement has are ignored."""
    said = {one for each in found for one in each.stems}
    topic = {one for one in asked.topic if contains_stem(one, said)}
    # A speaker's name is in each of their statements, so it does not tell them apart.
    wanted = (topic | (asked.names - asked.people)) or asked.names
    fitting = [
        one for one in found if one.closeness > _WEAK or coverage(wanted, one.stems) >= _SHARE
    ]
    if not asked.people:
        return fitting
    # What somebody else said about themselves is no answer.
    own = [one for one in fitting if asked.people & one.stems]
    others = [one for one in fitting if not asked.people & one.stems]
    best = max((coverage(asked.topic, one.stems) for one in own), default=0.0)
    told = max((coverage(asked.topic, one.stems) for one in others), default=0.0)
    return own if told - best < _MUCH_MORE else []


def is_unknown(asked: Question, found: Sequence[Statement], fitting: Sequence[Statement]) -> bool:
    """Whether the question is about something that memory does not hold."""
    said = {one for each in found for one in each.stems}
    closest = max(one.closeness for one in fitting)
    if any(not contains_stem(name, said) for name in asked.names):
        return True
    nouns = {stem(m["noun"].lower()) for m in _OWN_NOUN.finditer(asked.text)} & asked.topic
    return closest < _STRONG and any(not contains_stem(noun, said) for noun in nouns)


def is_certain(asked: Question, one: Statement) -> bool:
    """Whether a statement may be taken for the answer. "My friend has a dog" does not say whether I
    have one."""
    if _OWN_STATE.search(asked.text) and not _SELF.search(one.text):
        return False
    return one.closeness > _CERTAIN or (one.closeness > 0 and coverage(asked.topic, one.stems) == 1)


def one_per_turn(found: Iterable[Statement]) -> list[Statement]:
    kept: dict[tuple[str, int], Statement] = {}
    for one in found:
        kept.setdefault(one.turn, one)
    return list(kept.values())


def order_for_quoting(
    asked: Question, found: Sequence[Statement], earlier: frozenset[str]
) -> list[Statement]:
    """Best first. If the present is asked about, the newest of those that are about as close as
    the closest comes first. What no longer holds comes last, or first if the past is asked about.
    """
    closest = max((one.closeness for one in found), default=0.0)

    def place(one: Statement) -> tuple[bool, bool, float]:
        ended = bool(earlier) and (one.card.id in earlier) != asked.about_past
        if not asked.about_now:
            return ended, False, 0.0
        far = one.closeness < closest - _ABOUT_AS_CLOSE
        return ended, far, 0.0 if far else -one.card.said_at.timestamp()

    return sorted(found, key=place)
