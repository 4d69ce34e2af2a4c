"""Which statements fit a question, and in which order they are quoted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

from justmem.domain import Candidate, Card, Evidence, Session
from justmem.language.data import english
from justmem.language.en.speaker import is_first_person
from justmem.language.words import content_stems, is_stop, names, stem, words

MOST_QUOTED = 3  # quotations of an answer
_WEAK = -6.0  # closeness below which a statement must share most words of the question
_STRONG = 4.0  # closeness from which a missing word does not matter
_CERTAIN = 1.0  # closeness from which a missing word does not make a statement uncertain
_LEAST = -10.0  # closeness below which words in common mean nothing
# If a statement of somebody else has this much more of the asked words, the question names the
# wrong person.
_MUCH_MORE = 0.3
_CONTEXT = re.compile(r" \((?:asked|about) \".*\"(?:; .*)?\)$| \((?:photo|name): .*\)$", re.DOTALL)
_PAST = re.compile(
    r"\b(?:before|used to|previous(?:ly)?|former(?:ly)?|originally|back then|was|were|b4)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:now|new|changed|moved|switched|instead|no longer|anymore|update)\b", re.IGNORECASE
)
_SELF = re.compile(r"\b(?:I|we|me|us|i['’]?(?:m|ve|d|ll)|we['’]?(?:re|ve|d|ll))\b", re.IGNORECASE)
_MY = re.compile(r"\b(?:my|our)\b", re.IGNORECASE)
_I_ASKED = re.compile(
    r"\b(?:am|do|did|have|was|will|can|should|had|are|were) (?:I|we)\b|\b(?:I|we) \w+", re.I
)
_PRONOUN = re.compile(r"\b(?:he|she|they|her|him)\b", re.IGNORECASE)
_ASKED_NOUN = re.compile(r"\b(?:which|(?<!for )my|our) (?P<noun>[\w'’-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """A card as it was said, and how well it fits the question."""

    card: Card
    text: str  # the words, without what they answer
    stems: frozenset[str]  # of the words, their context and the speaker
    closeness: float  # what the models say, about as a reranker's logit
    worth: float = 0.0
    correction: int = 0  # the turn of the same session that corrects it; 0: none

    @property
    def said_on(self) -> date:
        return self.card.said_at.date()


@dataclass(frozen=True, slots=True)
class Question:
    """What a question is about."""

    text: str
    topic: frozenset[str]  # stems, without names and without words of asking
    names: frozenset[str]  # stems of the names
    people: frozenset[str]  # those of them who speak in memory
    first_person: bool  # about the one who asks
    about_past: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """A direct answer, if there is one, and the statements to quote. `earlier` no longer hold.
    `certain`: False if the statements may not answer the question."""

    direct: str
    quoted: Sequence[Statement]
    earlier: frozenset[str] = frozenset()
    whole_turns: bool = True
    certain: bool = True


def parse_question(evidence: Evidence) -> Question:
    question = evidence.question
    speakers = {stem(w) for one in evidence.chosen for w in words(one.card.subject)}
    named = {stem(w) for name in names(question) for w in words(name) if not is_stop(w)}
    named |= speakers & set(map(stem, words(question)))
    named -= set(map(stem, english().question_words | english().calendar))
    topic = frozenset(content_stems(question)) - named - set(map(stem, english().question_words))
    return Question(
        text=question,
        topic=topic,
        names=frozenset(named),
        people=frozenset(named & speakers),
        first_person=is_first_person(question),
        about_past=bool(_PAST.search(question)),
    )


def rank_statements(
    evidence: Evidence, asked: Question, sessions: Mapping[str, Session]
) -> list[Statement]:
    dated = evidence.plan.mode == "date"
    found = []
    for candidate in evidence.chosen:
        one = statement_from(candidate, sessions)
        if "rerank" not in candidate.scores:  # vectors of different embedders say less than words
            shared = coverage(content_stems(evidence.question), one.stems)
            one = replace(one, closeness=max(one.closeness, 8 * shared - 4))
        worth = candidate.score + 2 * coverage(asked.topic, one.stems)
        worth += share_of_names(asked, one)
        if asked.first_person and not asked.names and is_about_another(one.text, asked):
            worth -= 1
        if one.card.kind == "interaction":
            worth -= 0.5
        if dated and one.card.event_date.start is not None and one.closeness > _WEAK / 2:
            worth += 0.5
        found.append(replace(one, worth=worth))
    return sorted(found, key=lambda one: -one.worth)


def statement_from(candidate: Candidate, sessions: Mapping[str, Session]) -> Statement:
    card, scores = candidate.card, candidate.scores
    text = card.fact.removeprefix("said: ").removeprefix("asked the assistant: ")
    near = (scores.get("cosine", 0.0) - 0.68) * 80
    return Statement(
        card=card,
        text=_CONTEXT.sub("", text),
        stems=frozenset(content_stems(card.text)),
        closeness=scores.get("rerank", max(-10.0, min(10.0, near))),
        correction=_correction(card, sessions.get(card.session_id)),
    )


def _correction(card: Card, session: Session | None) -> int:
    """The next turn of the same speaker, if it takes back what was just said."""
    if session is None:
        return 0
    numbered = [(n, turn) for n, turn in enumerate(session.turns, 1) if turn.role != "assistant"]
    own = [(n, turn) for n, turn in numbered if n in card.turns][-1:]
    later = [(n, turn) for n, turn in numbered if own and own[0][0] < n <= own[0][0] + 2]
    same = [(n, turn.text) for n, turn in later if turn.speaker == own[0][1].speaker][:1]
    return next((n for n, text in same if _corrects(text)), 0)


def _corrects(text: str) -> bool:
    pattern = "|".join(map(re.escape, english().corrections))
    return bool(re.match(rf"(?:{pattern})\b", text, re.IGNORECASE)) and not text.endswith("?")


def coverage(wanted: Iterable[str], given: Iterable[str], *, least: int = 4) -> float:
    """The share of the wanted stems that are given, as themselves or in a longer word. `least`:
    letters from which the beginning of a word stands for it."""
    wish, have = set(wanted), set(given)
    return sum(contains_stem(one, have, least) for one in wish) / len(wish) if wish else 0.0


def contains_stem(wanted: str, given: Collection[str], least: int = 4) -> bool:
    if wanted in given or not _stems_for_state(wanted).isdisjoint(given):
        return True
    return any(
        (len(wanted) >= least and one.startswith(wanted))
        or (len(one) >= 4 and wanted.startswith(one))
        for one in given
    )


@cache
def _stems_for_state(word: str) -> frozenset[str]:
    """Stems of the words that tell of the state that a word asks for: live and moved."""
    states = english().states.values()
    asking = [one for one in states if word in {stem(each) for each in one.question_words}]
    return frozenset(
        stem(each) for one in asking for each in one.question_words | one.statement_words
    )


def share_of_names(asked: Question, one: Statement) -> float:
    """The share of the asked names that a statement has. "Dal" may be Dalhousie."""
    return coverage(asked.names, one.stems, least=3)


def is_about_another(text: str, asked: Question) -> bool:
    """Whether a statement is about somebody else than the one who says it: "My partner Jonas is
    allergic". Not if the question asks about the partner too."""
    own = _SELF.search(text)
    kin = re.search(r"\b(?:my|our) (?:\w+ ){0,1}(?:" + "|".join(english().relation) + r")\b", text,
                    re.IGNORECASE)  # fmt: skip
    other = _PRONOUN.search(text)
    if kin and coverage(set(content_stems(kin[0])), asked.topic | asked.names):
        return False
    first = min((m.start() for m in (kin, other) if m), default=None)
    return own is None and first is not None and len(text[:first].split()) < 5


def is_about(one: Statement, text: str, asked: Question, speaker: str | None) -> bool:
    """Whether these words of a statement are plainly about the right subject: every name that is
    asked about is in them, or "I" where the one asked about speaks. A relation that is not asked
    about, such as a sister, makes it doubtful."""
    told = frozenset(content_stems(text))
    relations = frozenset(map(stem, english().relation))
    if (told & relations) - set(map(stem, words(asked.text))):
        return False
    own = bool(_SELF.search(text) or _MY.search(text))
    by = set(map(stem, words(one.card.subject)))
    for name in asked.names:
        if not contains_stem(name, told, 3) and not (own and name in by):
            return False
    if asked.first_person and not asked.names:
        return own and (speaker is None or one.card.subject.lower() == speaker.lower())
    return True


def select_fitting(found: Sequence[Statement], asked: Question) -> list[Statement]:
    """The statements worth quoting. Words that no statement has are left out of account."""
    said = {one for each in found for one in each.stems}
    topic = {one for one in asked.topic if contains_stem(one, said)}
    # A speaker's name is in each of their statements: it says nothing.
    words_asked = (topic | (asked.names - asked.people)) or asked.names
    fitting = [
        one
        for one in found
        if one.closeness > 0
        or (coverage(topic, one.stems) >= 0.5 and one.closeness >= _LEAST)
        or (coverage(words_asked, one.stems, least=3) > 0 and one.closeness > _WEAK)
    ]
    if asked.first_person and not asked.names:
        fitting = [one for one in fitting if not is_about_another(one.text, asked)] or fitting
    if asked.people:  # what somebody else said about themselves is no answer
        own = [one for one in fitting if asked.people & one.stems]
        others = [one for one in fitting if not asked.people & one.stems]
        best = max((coverage(asked.topic, one.stems) for one in own), default=0.0)
        told = max((coverage(asked.topic, one.stems) for one in others), default=0.0)
        fitting = own if told - best < _MUCH_MORE else []
    return fitting


def is_unknown(asked: Question, found: Sequence[Statement], fitting: Sequence[Statement]) -> bool:
    """Whether the question is about something that memory does not hold."""
    said = {one for each in found for one in each.stems}
    best = max(one.closeness for one in fitting)
    if any(not contains_stem(name, said, 3) for name in asked.names):
        return True
    wanted = asked.topic | asked.names
    nouns = {stem(m["noun"].lower()) for m in _ASKED_NOUN.finditer(asked.text)} & asked.topic
    if best < _STRONG and any(not contains_stem(noun, said) for noun in nouns):
        return True
    if asked.names and not any(share_of_names(asked, one) for one in fitting):
        return True
    if asked.first_person and not asked.names and _I_ASKED.search(asked.text):
        return all(is_about_another(one.text, asked) for one in fitting)
    return not coverage(wanted, said) and best < 2


def is_certain(asked: Question, one: Statement) -> bool:
    """Whether a statement may be taken for the answer. At a closeness of 0, a reranker finds that
    as likely as not."""
    return one.closeness > _CERTAIN or (one.closeness > 0 and coverage(asked.topic, one.stems) == 1)


def put_update_first(
    asked: Question, quoted: Sequence[Statement], found: Iterable[Statement]
) -> list[Statement]:
    """For a question about the present, newer statements about the same thing come first if they
    say that it changed: "Miso is on 5.1 kilos now"."""
    if asked.about_past or not quoted or re.search(r"\bdid\b", asked.text, re.IGNORECASE):
        return list(quoted)
    last = max(one.said_on for one in quoted)
    wanted = (asked.topic | asked.names) - asked.people
    newer = [
        one
        for one in found
        if one.said_on > last and _CHANGED.search(one.text) and coverage(wanted, one.stems) > 0
    ]
    return [*sorted(newer, key=lambda one: one.said_on, reverse=True)[:1], *quoted]


def one_per_turn(found: Iterable[Statement]) -> list[Statement]:
    """One statement of each turn."""
    kept: dict[tuple[str, int], Statement] = {}
    for one in found:
        kept.setdefault((one.card.session_id, one.card.turns[-1]), one)
    return list(kept.values())


def order_for_quoting(
    asked: Question, found: Sequence[Statement], earlier: frozenset[str]
) -> list[Statement]:
    """Best first; of statements that share the same words with the question the newest first,
    or the oldest if the past is asked about. What no longer holds comes last."""
    wanted = asked.topic | asked.names
    shared = [frozenset(w for w in wanted if contains_stem(w, one.stems)) for one in found]
    place = {same: shared.index(same) for same in shared}
    sign = 1 if asked.about_past else 0 if re.search(r"\bdid\b", asked.text, re.IGNORECASE) else -1
    order = sorted(
        range(len(found)),
        key=lambda n: (
            (found[n].card.id in earlier) != asked.about_past and bool(earlier),
            place[shared[n]],
            sign * found[n].card.said_at.timestamp(),
        ),
    )
    return [found[n] for n in order]
