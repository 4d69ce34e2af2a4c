"""Selects the statements that fit a question, and orders them for quoting."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from justmem.domain import Candidate, Card, Evidence, Session
from justmem.language.en import scores
from justmem.language.en.word_lists import english
from justmem.language.words import content_stems, overlap, stem, stems_of_names, words

_ABOUT_AS_CLOSE = 1.5
_PREFIX = 3  # letters that a stem has to have to stand for a longer one
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
_OWN_STATE = re.compile(
    r"(?:so |and )?(?:what (?:am|are)|am|are|do|have) (?:i|we)\b", re.IGNORECASE
)
_SELF = re.compile(r"\b(?:i|we|im|ive|me|us)\b", re.IGNORECASE)
_OWN_NOUN = re.compile(r"\b(?:(?<!for )my|our) (?P<noun>[\w'’-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """A card as it was said, and how well it fits the question."""

    card: Card
    text: str  # the words, without their context
    stems: frozenset[str]  # of the words, their context and the speaker
    signals: tuple[float, float, float]  # logit of the reranker, score, share of asked words
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
    remark = evidence.plan.is_remark
    past = bool(_PAST.search(question))
    now = not past and bool(_NOW.search(question)) and not _EVENT.search(question)
    return Question(
        text=question,
        topic=frozenset(content_stems(question)) - named - asking,
        names=frozenset(named - asking),
        people=frozenset(named & speakers),
        about_past=past,
        about_now=now and not remark,
    )


def rank_statements(
    evidence: Evidence, asked: Question, sessions: Mapping[str, Session]
) -> list[Statement]:
    """Best first."""
    wanted = frozenset(content_stems(evidence.question)) - asked.people
    found = [statement_from(one, sessions, wanted) for one in evidence.chosen]
    return sorted(found, key=scores.worth, reverse=True)


def statement_from(
    candidate: Candidate, sessions: Mapping[str, Session], asked: Iterable[str] = ()
) -> Statement:
    card, found = candidate.card, candidate.scores
    stems = frozenset(content_stems(card.text))
    share = overlap(asked, stems)
    # Without a reranker, shared words say more than vectors.
    near = (found.get("cosine", 0.0) - 0.68) * 80
    logit = max(-11.0, min(11.0, found.get("rerank", max(near, 8 * share - 4))))
    text = card.words.removeprefix("asked the assistant: ")
    correction = _correction(card, sessions.get(card.session_id))
    return Statement(
        card, _CONTEXT.sub("", text), stems, (logit, candidate.score, share), correction
    )


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


def split_by_person(
    found: Iterable[Statement], asked: Question
) -> tuple[list[Statement], list[Statement]]:
    """The statements by or about the people that the question names, and the others."""
    own: list[Statement] = []
    others: list[Statement] = []
    for one in found:
        (own if not asked.people or asked.people & one.stems else others).append(one)
    return own, others


def is_unknown(asked: Question, found: Sequence[Statement], chance: float) -> bool:
    """Whether the question is about something that memory does not hold."""
    said = {one for each in found for one in each.stems}
    if any(not contains_stem(name, said) for name in asked.names):
        return True
    nouns = {stem(m["noun"].lower()) for m in _OWN_NOUN.finditer(asked.text)} & asked.topic
    return chance < scores.LIKELY and any(not contains_stem(noun, said) for noun in nouns)


def is_certain(asked: Question, one: Statement, chance: float) -> bool:
    """Whether a statement may be taken for the answer. "My friend has a dog" does not say whether I
    have one, and "Jonas is allergic to cats" does not say what I am allergic to."""
    if _OWN_STATE.match(asked.text) and not _SELF.search(one.text):
        return False
    return chance >= scores.LIKELY


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
    closest = max((one.signals[0] for one in found), default=0.0)

    def place(one: Statement) -> tuple[bool, bool, float]:
        ended = bool(earlier) and (one.card.id in earlier) != asked.about_past
        if not asked.about_now:
            return ended, False, 0.0
        far = one.signals[0] < closest - _ABOUT_AS_CLOSE
        return ended, far, 0.0 if far else -one.card.said_at.timestamp()

    return sorted(found, key=place)
