"""Answers without a model: quotations, and a direct answer before them only if it was verified.

A direct answer needs the right subject, the right unit or counted noun, a statement that is
neither denied nor only planned, and no newer statement that may say otherwise. In doubt the
quotations stand alone. What memory does not hold is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache

from justmem.domain import Candidate, Card, EventDate, Evidence, Session
from justmem.language.data import english
from justmem.language.en import dates
from justmem.language.en.first_person import first_person
from justmem.language.en.own_name import own_name
from justmem.language.en.statements import is_small_talk
from justmem.language.en.states import NOT_SO, attribute_asked, states_in, superseded
from justmem.language.words import content, is_stop, names, sentences, stem, words

QUOTED = 3  # quotations of an answer
LISTED = 6  # of a list or a count
KNOWN = 8  # of what is known about somebody

_WEAK = -6.0  # closeness below which a statement must share most words of the question
_STRONG = 4.0  # closeness from which a missing word does not matter
_ELSE = 0.3  # more of the asked words in another's statement: the question has the wrong person
_HALF_YEAR = timedelta(days=183)
_CONTEXT = re.compile(r" \((?:asked|about) \".*\"(?:; .*)?\)$| \((?:photo|name): .*\)$", re.DOTALL)
_CLAUSE = re.compile(r"[.;!?,:]+\s|\s(?:and|but|because|so|then|while)\s", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:before|used to|previous(?:ly)?|former(?:ly)?|originally|back then|was|were|b4)\b",
    re.IGNORECASE,
)
_STILL = re.compile(r"(?:is|are|am|do|does|has|have)\b", re.IGNORECASE)  # asks what holds now
# To come, or over.
_NOT_NOW = re.compile(
    r"\b(?:will|going to|sold|lost|gave up|given up|quit|stopped|left|cancel\w*|returned|died)\b"
    r"|['’]ll\b",
    re.IGNORECASE,
)
_PLAIN_NO = re.compile(r"not|never|no|(?:do|does|did|is|was|are|were)n['’]?t", re.IGNORECASE)
_SELF = re.compile(r"\b(?:I|we|me|us|i['’]?(?:m|ve|d|ll)|we['’]?(?:re|ve|d|ll))\b", re.IGNORECASE)
_MY = re.compile(r"\b(?:my|our)\b", re.IGNORECASE)
_I_ASKED = re.compile(
    r"\b(?:am|do|did|have|was|will|can|should|had|are|were) (?:I|we)\b|\b(?:I|we) \w+", re.I
)
_PRONOUN = re.compile(r"\b(?:he|she|they|her|him)\b", re.IGNORECASE)
_PROFILE = re.compile(
    r"^(?:so |and |please )*(?:who(?:['’]s| is| was)|what do (?:you|u) (?:know|remember)"
    r" (?:about|of|abt)|tell me (?:all |everything )?(?:you know )?about|describe|summari[sz]e)"
    r" (?P<who>[\w'’ -]{1,80}?)(?: again)?[?.! ]*$",
    re.IGNORECASE,
)
# "I live in York", "my name is Ada", "my wife": what describes the one who says it.
_OF_ONESELF = re.compile(
    r"\bi(?:['’]?m| am)(?: \w+){1,2}|\bi (?:live|work|have|love|like|enjoy|hate|own|play|study"
    r"|teach|speak|come from|moved|started|got)\b|\bmy (?:name|age|birthday|job|favou?rite|"
    + "|".join(english().relation) + r")\b",
    re.IGNORECASE,
)  # fmt: skip
_NAME_ASKED = re.compile(r"\bwhat(?:['’]?s| is) my name\b|\bwho am i\b", re.IGNORECASE)
_ME = frozenset(("me", "myself", "i", "my life", "my year"))
_ASKED_NOUN = re.compile(r"\b(?:which|(?<!for )my|our) (?P<noun>[\w'’-]+)", re.IGNORECASE)
_MONEY = (
    r"(?:[$£€¥] ?\d[\d.,]*\d?k?|\d[\d.,]*k? ?(?:[$£€¥]|dollars?\b|euros?\b|eur\b|bucks\b|usd\b))"
)
_AMOUNT = r"(?:\d+(?:[.,]\d+)?|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve)"
_UNITS: Sequence[tuple[str, str]] = (
    (r"\bhow much\b.*\b(?:pay|paid|cost|costs|spend|spent|earn|owe|rent|fee|price|salary|worth"
     r"|money|charge|charged|make)\b|\bwhat(?:'s| is| was) .*\b(?:price|cost|rent|salary|fee)\b",
     _MONEY),
    (r"\bhow (?:much|many)\b.*\bweigh|\bhow heavy\b|\bweight\b|\bhow many (?:kg|kilos)\b",
     rf"\b{_AMOUNT} ?(?:kg|kgs|kilos?|kilograms?|lbs?|grams?|g)\b"),
    (r"\bhow (?:tall|high|far|wide|deep)\b|\bwhat distance\b|\bhow many (?:km|kilomet|miles)",
     rf"\b{_AMOUNT} ?(?:km|k|cm|m|metres?|meters?|miles?|feet|ft|inches|kilomet(?:er|re)s?)\b"),
    (r"\bhow old\b", rf"\b{_AMOUNT}(?: years?| yrs?)(?: old|-old)\b|\b(?:is|am|turned|'m) \d+\b"),
    (r"\bhow long\b|\bhow many (?:minutes|hours|days|weeks|months|years)\b",
     rf"\b{_AMOUNT} (?:minutes?|mins?|hours?|days?|weeks?|months?|years?|yrs?)\b"),
)  # fmt: skip
_NUMBERS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"


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
    def said(self) -> date:
        return self.card.said_at.date()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question is about."""

    text: str
    topic: frozenset[str]  # stems, without names and without words of asking
    names: frozenset[str]  # stems of the names
    people: frozenset[str]  # those of them who speak in memory
    own: bool  # about the one who asks
    past: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A direct answer, if there is one, and the statements to quote. `earlier` no longer hold."""

    direct: str
    quoted: Sequence[Statement]
    earlier: frozenset[str] = frozenset()
    whole_turns: bool = True


def answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Answered | None:
    """None: memory does not hold it."""
    asked = understood(evidence)
    found = ranked(evidence, asked, sessions)
    earlier = superseded((one.card for one in found), evidence.at.date())
    if known := _profile(evidence):
        return known
    remark = evidence.plan.mode == "reply"
    if remark and is_small_talk(evidence.question):
        return None
    if name := _own_name(evidence):
        return name
    if ordered := _in_order(evidence, found):
        return ordered
    fitting = _fitting(found, asked)
    if not fitting or (not remark and _unknown(asked, found, fitting)):
        return None
    if evidence.plan.mode in ("list", "count"):
        listed = _listed(evidence, asked, fitting)
        if listed is not None:
            return listed
    # Of a state the newest statement counts, even if its words fit less well.
    state = attribute_asked(evidence.question) and not asked.past
    among = LISTED if state and not _STILL.match(evidence.question) else QUOTED
    quoted = _arranged(asked, _distinct(fitting)[:among], earlier)[:QUOTED]
    direct = "" if remark else _direct(evidence, asked, fitting, earlier)
    return Answered(direct, quoted, earlier)


def understood(evidence: Evidence) -> Asked:
    question = evidence.question
    speakers = {stem(w) for one in evidence.chosen for w in words(one.card.subject)}
    named = {stem(w) for name in names(question) for w in words(name) if not is_stop(w)}
    named |= speakers & set(map(stem, words(question)))
    named -= set(map(stem, english().asking | english().calendar))
    topic = frozenset(content(question)) - named - set(map(stem, english().asking))
    return Asked(
        text=question,
        topic=topic,
        names=frozenset(named),
        people=frozenset(named & speakers),
        own=first_person(question),
        past=bool(_PAST.search(question)),
    )


# ---------------------------------------------------------------- statements, best first


def ranked(evidence: Evidence, asked: Asked, sessions: Mapping[str, Session]) -> list[Statement]:
    dated = evidence.plan.mode == "date"
    found = []
    for candidate in evidence.chosen:
        one = _statement(candidate, sessions)
        if "rerank" not in candidate.scores:  # vectors of different embedders say less than words
            shared = covered(content(evidence.question), one.stems)
            one = replace(one, closeness=max(one.closeness, 8 * shared - 4))
        worth = candidate.score + 2 * covered(asked.topic, one.stems)
        worth += _named(asked, one)
        if asked.own and not asked.names and of_another(one.text, asked):
            worth -= 1
        if one.card.kind == "interaction":
            worth -= 0.5
        if dated and one.card.event_date.start is not None and one.closeness > _WEAK / 2:
            worth += 0.5
        found.append(replace(one, worth=worth))
    return sorted(found, key=lambda one: -one.worth)


def _statement(candidate: Candidate, sessions: Mapping[str, Session]) -> Statement:
    card, scores = candidate.card, candidate.scores
    text = card.fact.removeprefix("said: ").removeprefix("asked the assistant: ")
    near = (scores.get("cosine", 0.0) - 0.68) * 80
    return Statement(
        card=card,
        text=_CONTEXT.sub("", text),
        stems=frozenset(content(card.text)),
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


def covered(wanted: Iterable[str], given: Iterable[str], *, least: int = 4) -> float:
    """The share of the wanted stems that are given, as themselves or in a longer word. `least`:
    letters from which the beginning of a word stands for it."""
    wish, have = set(wanted), set(given)
    return sum(_has(one, have, least) for one in wish) / len(wish) if wish else 0.0


def _has(wanted: str, given: Collection[str], least: int = 4) -> bool:
    if wanted in given or not _alike(wanted).isdisjoint(given):
        return True
    return any(
        (len(wanted) >= least and one.startswith(wanted))
        or (len(one) >= 4 and wanted.startswith(one))
        for one in given
    )


@cache
def _alike(word: str) -> frozenset[str]:
    """Stems of the words that tell of the state that a word asks for: live and moved."""
    states = english().states.values()
    asking = [one for one in states if word in {stem(each) for each in one.asked}]
    return frozenset(stem(each) for one in asking for each in one.asked | one.told)


def _named(asked: Asked, one: Statement) -> float:
    """The share of the asked names that a statement has. "Dal" may be Dalhousie."""
    return covered(asked.names, one.stems, least=3)


def of_another(text: str, asked: Asked) -> bool:
    """Whether a statement is about somebody else than the one who says it: "My partner Jonas is
    allergic". Not if the question asks about the partner too."""
    own = _SELF.search(text)
    kin = re.search(r"\b(?:my|our) (?:\w+ ){0,1}(?:" + "|".join(english().relation) + r")\b", text,
                    re.IGNORECASE)  # fmt: skip
    other = _PRONOUN.search(text)
    if kin and covered(set(content(kin[0])), asked.topic | asked.names):
        return False
    first = min((m.start() for m in (kin, other) if m), default=None)
    return own is None and first is not None and len(text[:first].split()) < 5


def _about(one: Statement, text: str, asked: Asked, speaker: str | None) -> bool:
    """Whether these words of a statement are plainly about the right subject: every name that is
    asked about is in them, or "I" where the one asked about speaks. A relation that is not asked
    about, such as a sister, makes it doubtful."""
    told = frozenset(content(text))
    relations = frozenset(map(stem, english().relation))
    if (told & relations) - set(map(stem, words(asked.text))):
        return False
    own = bool(_SELF.search(text) or _MY.search(text))
    by = set(map(stem, words(one.card.subject)))
    for name in asked.names:
        if not _has(name, told, 3) and not (own and name in by):
            return False
    if asked.own and not asked.names:
        return own and (speaker is None or one.card.subject.lower() == speaker.lower())
    return True


def _fitting(found: Sequence[Statement], asked: Asked) -> list[Statement]:
    """The statements worth quoting. Words that no statement has are left out of account."""
    said = {one for each in found for one in each.stems}
    topic = {one for one in asked.topic if _has(one, said)}
    # A speaker's name is in each of their statements: it says nothing.
    words_asked = (topic | (asked.names - asked.people)) or asked.names
    fitting = [
        one
        for one in found
        if one.closeness > 0
        or covered(topic, one.stems) >= 0.5
        or (covered(words_asked, one.stems, least=3) > 0 and one.closeness > _WEAK)
    ]
    if asked.own and not asked.names:
        fitting = [one for one in fitting if not of_another(one.text, asked)] or fitting
    if asked.people:  # what somebody else said about themselves is no answer
        own = [one for one in fitting if asked.people & one.stems]
        others = [one for one in fitting if not asked.people & one.stems]
        best = max((covered(asked.topic, one.stems) for one in own), default=0.0)
        told = max((covered(asked.topic, one.stems) for one in others), default=0.0)
        fitting = own if told - best < _ELSE else []
    return fitting


def _unknown(asked: Asked, found: Sequence[Statement], fitting: Sequence[Statement]) -> bool:
    """Whether the question is about something that memory does not hold."""
    said = {one for each in found for one in each.stems}
    best = max(one.closeness for one in fitting)
    if any(not _has(name, said, 3) for name in asked.names):
        return True
    wanted = asked.topic | asked.names
    nouns = {stem(m["noun"].lower()) for m in _ASKED_NOUN.finditer(asked.text)} & asked.topic
    if best < _STRONG and any(not _has(noun, said) for noun in nouns):
        return True
    if asked.names and not any(_named(asked, one) for one in fitting):
        return True
    if asked.own and not asked.names and _I_ASKED.search(asked.text):
        return all(of_another(one.text, asked) for one in fitting)
    return not covered(wanted, said) and best < 2


def _distinct(found: Iterable[Statement]) -> list[Statement]:
    """One statement of each turn."""
    kept: dict[tuple[str, int], Statement] = {}
    for one in found:
        kept.setdefault((one.card.session_id, one.card.turns[-1]), one)
    return list(kept.values())


def _arranged(asked: Asked, found: Sequence[Statement], earlier: frozenset[str]) -> list[Statement]:
    """Best first; of statements that share the same words with the question the newest first,
    or the oldest if the past is asked about. What no longer holds comes last."""
    wanted = asked.topic | asked.names
    shared = [frozenset(w for w in wanted if _has(w, one.stems)) for one in found]
    place = {same: shared.index(same) for same in shared}
    if _STILL.match(asked.text):
        place = {same: int(len(same) < 2 and not same & asked.topic) for same in shared}
    sign = 1 if asked.past else 0 if re.search(r"\bdid\b", asked.text, re.IGNORECASE) else -1
    order = sorted(
        range(len(found)),
        key=lambda n: (
            (found[n].card.id in earlier) != asked.past and bool(earlier),
            place[shared[n]],
            sign * found[n].card.said_at.timestamp(),
        ),
    )
    return [found[n] for n in order]


# ---------------------------------------------------------------- who somebody is


def _profile(evidence: Evidence) -> Answered | None:
    """What was said about somebody, newest first."""
    match = _PROFILE.match(evidence.question.strip())
    if match is None:
        return None
    who = match["who"].lower().strip()
    if who in _ME:
        found = [_statement(one, {}) for one in evidence.candidates or evidence.chosen]
        told = [one for one in found if _OF_ONESELF.search(one.text)]
    elif re.match(r"(?:my|our|the|an?|your)\b", who):
        return None
    else:
        wanted = {stem(word) for word in words(who)}
        found = [_statement(one, {}) for one in evidence.chosen]
        told = [one for one in found if covered(wanted, one.stems) == 1]
    told = [one for one in told if one.card.kind != "interaction" and len(one.text.split()) > 2]
    newest = sorted(told[: 2 * KNOWN], key=lambda one: one.card.said_at, reverse=True)[:KNOWN]
    earlier = superseded((one.card for one in newest), evidence.at.date())
    return Answered("", newest, earlier, whole_turns=False) if newest else None


def _own_name(evidence: Evidence) -> Answered | None:
    """How the one who asks introduced themselves."""
    if not _NAME_ASKED.search(evidence.question):
        return None
    found = [_statement(one, {}) for one in evidence.candidates or evidence.chosen]
    told = [(one, name) for one in found if (name := own_name(one.card))]
    if not told:
        return None
    one, name = max(told, key=lambda row: row[0].card.said_at)
    return Answered(f"{name}.", [one])


# ---------------------------------------------------------------- direct answers


def _direct(
    evidence: Evidence, asked: Asked, found: Sequence[Statement], earlier: frozenset[str]
) -> str:
    question, mode = asked.text, evidence.plan.mode
    if evidence.plan.operation == "compare" or not asked.topic:
        return ""
    if not asked.past and (value := _state(evidence, asked, found, earlier)):
        return value
    for wanted, unit in _UNITS:
        if re.search(wanted, question, re.IGNORECASE):
            return _quantity(evidence, asked, found, re.compile(unit, re.IGNORECASE))
    if mode == "date":
        return _when(evidence, asked, found)
    if mode == "yesno":
        return _verdict(evidence, asked, found)
    return ""


def _state(
    evidence: Evidence, asked: Asked, found: Sequence[Statement], earlier: frozenset[str]
) -> str:
    """Where somebody lives now, and the like: the newest value, if it is the only one."""
    attribute = attribute_asked(asked.text)
    if attribute is None or not re.match(r"(?:where|who|what|how)\b", asked.text, re.IGNORECASE):
        return ""
    holder = {evidence.speaker.lower()} if asked.own and evidence.speaker else set()
    holder |= {w for name in names(asked.text) for w in words(name)}
    if asked.own and asked.names:  # "my sister Anna's boss": not plain enough
        return ""
    plain = not (asked.topic - {stem(w) for w in english().states[attribute].asked})
    told = [
        (one, state)
        for one in found
        for state in states_in(one.card)
        if state.attribute == attribute and state.holder in holder and not one.correction
    ]
    values = {state.value.lower() for one, state in told if one.card.id not in earlier}
    newest = max(told, key=lambda row: row[0].card.said_at, default=None)
    if newest is None or not plain or newest[1].value.lower() not in values:
        return ""
    if _outdated(newest[0], asked, found):
        return ""
    day = newest[0].said
    unit = " kg" if attribute == "weight" and re.search("k", newest[0].text) else ""
    return f"{newest[1].value}{unit} (said on {day.day} {day:%B %Y})"


def _clauses(text: str) -> list[str]:
    return [part for part in _CLAUSE.split(text) if part.strip()]


def _full(evidence: Evidence, asked: Asked, found: Sequence[Statement]) -> list[Statement]:
    """Statements that have every asked word and are about the right subject."""
    return [
        one
        for one in found
        if covered(asked.topic, one.stems) == 1
        and not one.correction
        and one.card.kind != "interaction"
        and _about(one, one.text, asked, evidence.speaker)
    ]


def _outdated(one: Statement, asked: Asked, found: Sequence[Statement]) -> bool:
    """Whether a newer statement shares the subject and a word of what is asked."""
    return any(
        other.said > one.said
        and covered(asked.topic, other.stems) > 0
        and _named(asked, other) == _named(asked, one)
        for other in found
    )


def _quantity(
    evidence: Evidence, asked: Asked, found: Sequence[Statement], unit: re.Pattern[str]
) -> str:
    """The one amount with the asked unit. The clause with the amount must share a word with the
    question, and the whole statement all but one."""
    topic = frozenset(w for w in asked.topic if not re.search(rf"\b{re.escape(w)}", unit.pattern))
    for one in found:
        if one.correction:
            return ""
        amounts = unit.findall(one.text)
        clause = next((c for c in _clauses(one.text) if unit.search(c)), "")
        shares = covered(topic, content(clause)) > 0 and covered(topic, one.stems) > 0.65
        if len(amounts) != 1 or not shares or NOT_SO.search(clause):
            continue
        if not _about(one, clause, asked, evidence.speaker) or _outdated(one, asked, found):
            return ""
        match = unit.search(one.text)
        return match[0].strip(" .,") if match else ""
    return ""


def _when(evidence: Evidence, asked: Asked, found: Sequence[Statement]) -> str:
    full = [one for one in _full(evidence, asked, found) if not NOT_SO.search(one.text)]
    if re.search(r"\bdid\b|\bwas\b|\bwere\b", asked.text, re.IGNORECASE):
        full = [one for one in full if one.card.status != "planned"]
    if not full:
        return ""
    one = full[0] if asked.past else max(full, key=lambda each: each.card.said_at)
    when = date_told(one, asked.topic)
    others = {date_told(each, asked.topic).text for each in full} - {when.text, "unknown"}
    if when.start is None or (others and one.said == full[-1].said):
        return ""
    return dates.say(when) + "."


def date_told(one: Statement, topic: Iterable[str] = ()) -> EventDate:
    """The date of a statement, if it is the only one in it or stands with the asked words. A day
    without a year, half a year away from when it was said, may lie on the other side."""
    when = one.card.event_date
    found = dates.find(one.text, one.card.said_at)
    if len({each.date.text for each in found}) > 1:
        best = [c for c in _clauses(one.text) if covered(topic, content(c)) > 0]
        found = [each for each in found if any(each.text in clause for clause in best)]
        when = found[0].date if len(found) == 1 else EventDate()
    far = when.start is not None and abs(when.start - one.said) > _HALF_YEAR
    if far and when.start and str(when.start.year) not in one.text:
        return EventDate()
    return when


def _verdict(evidence: Evidence, asked: Asked, found: Sequence[Statement]) -> str:
    """Yes or no, if a clause says all that is asked and nothing newer is said about it."""
    question = asked.text.lower()
    if NOT_SO.search(question) or re.match(r"(?:would|could|should|can|may)\b", question):
        return ""
    for one in _full(evidence, asked, found):
        if _ahead(one) or _outdated(one, asked, found):
            return ""
        clauses = [c for c in _clauses(one.text) if covered(asked.topic, content(c)) == 1]
        clause = clauses[0] if clauses else ""
        others = {stem(w) for name in names(clause) for w in words(name)} - asked.names
        plain = _about(one, clause, asked, evidence.speaker) and not others - {"i"}
        if not plain or not _says_so(question, clause):
            continue
        if _NOT_NOW.search(clause):
            return ""
        denied = NOT_SO.search(clause)
        if denied is None:
            return "Yes."
        return "No." if _PLAIN_NO.fullmatch(denied[0]) else ""
    return ""


def _ahead(one: Statement) -> bool:
    """Whether it lay in the future when it was said."""
    start = one.card.event_date.start
    return start is not None and start > one.said


def _says_so(question: str, clause: str) -> bool:
    """ "Do I have a dog" needs a word of possession, "is she vegan" one of being."""
    told = set(words(clause))
    if re.match(r"(?:do|does|did)\b.*\b(?:have|own)\b", question):
        return bool(told & english().possession)
    if re.match(r"(?:is|are|am|was|were)\b", question):
        return bool(re.search(r"\b(?:is|are|am|was|were|im)\b|['’](?:s|m|re)\b", clause, re.I))
    return True


# ---------------------------------------------------------------- several statements


def _listed(evidence: Evidence, asked: Asked, found: Sequence[Statement]) -> Answered | None:
    """Counts and lists. A number is given if it stands right before the counted noun; otherwise
    the statements that have the noun and the verb are counted: there are at least that many."""
    full = [one for one in _full(evidence, asked, found) if not NOT_SO.search(one.text)]
    full = [one for one in full if one.card.status != "planned"]
    if evidence.plan.mode == "count":
        counted = re.search(r"\bhow many (?:\w+ ){0,2}?(?P<noun>[\w-]+?s|people|children)\b",
                            asked.text, re.IGNORECASE)  # fmt: skip
        if counted is None:
            return None
        number = rf"\b(?P<n>\d+|{_NUMBERS}) (?:\w+ )?{re.escape(counted['noun'])}\b"
        told = [(one, m) for one in full for m in re.finditer(number, one.text, re.IGNORECASE)]
        vague = re.search(r"\bdid (?:\w+ ){1,2}(?:do|get|make|have)\b", asked.text, re.IGNORECASE)
        if told and len({m["n"] for _, m in told}) == 1 and not vague:
            if not _outdated(told[0][0], asked, found):
                return Answered(
                    f"{told[0][1]['n'].capitalize()}.", _distinct([told[0][0], *found])[:QUOTED]
                )
            return None
        items = _distinct(full)
        days = {date_told(one).text if date_told(one).start else one.said for one in items}
        if len(asked.topic) > 1 and 1 < len(items) == len(days):
            return Answered(f"At least {len(items)} in memory:", _by_date(items)[:LISTED])
        return None
    best = max(covered(asked.topic, one.stems) for one in found)
    near = [one for one in found if covered(asked.topic, one.stems) >= max(best, 0.5)]
    items = _distinct(near)[:LISTED]
    return Answered("", _by_date(items)) if len(items) > QUOTED else None


def _by_date(found: Iterable[Statement]) -> list[Statement]:
    return sorted(found, key=lambda one: one.card.event_date.start or one.said)


def _in_order(evidence: Evidence, found: Sequence[Statement]) -> Answered | None:
    """The things that a question lists, each by its best statement, in order of their dates."""
    if evidence.plan.operation != "order" and "order" not in words(evidence.question):
        return None
    items = _things(evidence.question) if found else []
    placed: list[tuple[date, Statement]] = []
    for item in items:
        wanted = set(content(item)) - {"new", "old"}
        shares = [covered(wanted, one.stems, least=3) for one in found]
        best = found[shares.index(max(shares))]
        if max(shares) < 0.6 or best.card.status == "planned":
            return None
        placed.append((date_told(best).start or best.said, best))
    if len(items) < 2 or len({day for day, _ in placed}) < len(items):
        return None
    ordered = sorted(zip(placed, items, strict=True), key=lambda row: row[0][0])
    lines = [f"{n}. {item} ({day.day} {day:%B %Y})" for n, ((day, _), item) in
             enumerate(ordered, 1)]  # fmt: skip
    return Answered("\n".join(lines), [one for (_, one), _ in ordered])


def _things(question: str) -> list[str]:
    """ "Which came first, the job or the car?" -> the job, the car."""
    _, colon, rest = question.partition(":")
    if not colon:
        match = re.search(r"\bfirst\b,?(?P<rest>.*\bor\b.*)", question, re.IGNORECASE)
        rest = match["rest"] if match else ""
    parts = re.split(r",| or | and ", rest.strip(" ?."))
    return [part.strip(" ,:") for part in parts if content(part)]


def sentence_range(text: str, start: int, end: int, longest: int) -> tuple[int, int]:
    """A stretch with the sentences after and before it, as far as they fit."""
    pieces = sentences(text)
    inside = [n for n, one in enumerate(pieces) if one.start < end and one.end > start]
    if not inside:
        return start, end
    first, last = inside[0], inside[-1]
    while True:
        if last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= longest:
            last += 1
        elif first and pieces[last].end - pieces[first - 1].start <= longest:
            first -= 1
        else:
            return pieces[first].start, pieces[last].end
