"""Plan -> Evidence: views, candidates, ten places, the cards read, and sources under REPLAY."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from math import log2

import numpy as np

from justmem import rank
from justmem.budget.ledger import Tally
from justmem.domain import (
    Access,
    Budget,
    Candidate,
    Card,
    EventDate,
    Evidence,
    Plan,
    Retention,
    Session,
    Source,
    Turn,
    quote,
)
from justmem.language.words import content_stems, overlap, stems_of_names, words
from justmem.ports import (
    Embedder,
    Filter,
    Found,
    Language,
    Reach,
    Reranker,
    Store,
    Vectors,
    View,
    best_bare,
)
from justmem.rank import Profile, Scores
from justmem.runtime import tokens
from justmem.runtime.text import both_ends

UNRELATED = "nothing in memory is relevant to this"
NO_FILTER = Filter()
_QUOTES = 4  # turns without a card that may become candidates
_REMARK = 4  # times as many cards by meaning are candidates for a remark
# Share of the candidates' mean that is subtracted from vectors. All of it is best for remarks
# (LoCoMo-Plus: 57 instead of 38 of a hundred with half of it). For questions, anything from half to
# all of it finds equally much.
_CENTRE = 0.75
_SOON = timedelta(days=7)  # most events are told within this time
_YEAR = timedelta(days=366)

# Relevance threshold: a question is about something in memory if the similarity of the nearest card
# or turn, plus a tenth of the largest share of its words that a card has, reaches this bound. The
# scale of similarities depends on the embedder, so one that is not listed has no threshold.
# `justmem-eval harm` measures it.
_RELEVANT = {"bge-small-en-v1.5": 0.64}
_WORDS = 0.1
_PERSONAL = 0.02  # less is enough for a question about the one who asks or about a known speaker
_FEW, _MANY = 0.02, 64  # less is enough where candidates are few: the best of many is nearer
_STRANGER = 0.1  # more is needed if the question has names, but no card has any of them

_PASSAGES = 30  # per view and kind of search
_SESSIONS = 2  # sessions whose turns may share the source budget
_LEAST_PART = 60  # tokens: a smaller part of a turn is not worth reading
_TURN_TOKENS = 8  # of a turn's number and speaker


class Retrieval:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        reranker: Reranker | None,
        budget: Budget,
        profile: Profile,
        retention: Retention,
        language: Language,
    ) -> None:
        self._language = language
        self._store = store
        self._embedder = embedder
        self._reranker = reranker
        self._budget = budget
        self._profile = profile
        self._paper = profile.select_by == "question"
        self._retention = retention

    async def evidence(self, asked: Evidence, tally: Tally, where: Filter = NO_FILTER) -> Evidence:
        """`asked` with the places chosen, the cards read, the sources and all candidates."""
        plan = asked.plan
        with tally.stage("discover"):
            views = await self._views(asked, tally)
            pool = await self.pool(views, plan, asked.at, where)
        pinned = await self._pinned(asked, where)
        if not self._relevant(asked, pool):
            tally.notes.append(UNRELATED)
            return asked.model_copy(update={"cards": tuple(pinned)})
        with tally.stage("select"):
            scores, reranked = await self._scores(views, pool, plan, tally)
            chosen, read = self._chosen(scores, pool, plan, where.limit or self._budget.cards)
        rest = [i for i in np.argsort(-scores, kind="stable").tolist() if i not in chosen]
        cards = dict.fromkeys([*(pool.cards[i] for i in read), *pinned])
        found = asked.model_copy(
            update={
                "chosen": tuple(pool.candidate(i, scores, reranked) for i in chosen),
                "cards": tuple(cards),
                "repeats": {c.id: pool.repeats[c.id] for c in cards if c.id in pool.repeats},
                "candidates": tuple(pool.candidate(i, scores, reranked) for i in (*chosen, *rest)),
            }
        )
        if plan.access is not Access.REPLAY:
            return found
        with tally.stage("recover"):
            return await self._recovered(found, views, tally, where)

    async def _pinned(self, asked: Evidence, where: Filter) -> list[Card]:
        """The pinned cards whose subject the question names."""
        question = asked.question
        if asked.speaker:
            question = self._language.name_speaker(question, asked.speaker)
        named = set(words(question))
        latest = {each.original: each for each in await self._store.corrections()}
        return [
            each.after
            for each in latest.values()
            if each.pinned
            and not named.isdisjoint(words(each.after.subject))
            and (where.sessions is None or each.after.session_id in where.sessions)
            and each.after.since <= (where.as_of or asked.at.date())
            and not self._retention.card_expired(each.after, asked.at)
        ]

    # ------------------------------------------------------------ candidates

    async def _views(self, asked: Evidence, tally: Tally) -> list[View]:
        """The question and, where the evidence is spread, its rewrites (Eq. 2). "I" becomes the
        speaker's name, as in the search text of the cards."""
        plan = asked.plan
        broad = plan.access is Access.COMPOSE or (plan.spans_sessions and not self._paper)
        texts = [_meant(asked), *(plan.rewrites if broad else ())]
        if asked.speaker and not self._paper:
            texts = [self._language.name_speaker(text, asked.speaker) for text in texts]
        vectors = await tally.embed(self._embedder, texts, query=plan.operation != "reply")
        return [View(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    async def pool(
        self, views: Sequence[View], plan: Plan, asked: datetime, where: Filter = NO_FILTER
    ) -> Pool:
        """The cards whose vectors or words are near a view, those that rest on turns with its
        words, and the best such turns that no card rests on, as quotes. A remark searches wider,
        because what lies behind it sounds different. Expired cards are left out."""
        budget, retention = self._budget, self._retention
        remark = plan.operation == "reply"
        reach = Reach(
            dense=_REMARK * budget.dense if remark else budget.dense,
            lexical=budget.lexical,
            spoken=0 if self._paper else budget.lexical // 2,
            quotes=0 if self._paper or remark else _QUOTES,
            since=where.since,
            until=min(asked.date(), where.until or date.max),
            sessions=where.sessions,
            during=None if self._paper else _told(plan.period),
        )
        if retention.limited and reach.quotes:  # some may have expired
            reach = replace(reach, quotes=reach.spoken)
        found = await self._store.find(views, reach)
        found = _unexpired(found, retention, asked, where.as_of)
        quotes = _quotes(found, replies=plan.needs_source) if reach.quotes else []
        if self._paper:
            return _pool(views, plan, found, quotes, turns=False)
        found, repeats = _merge_repeated(found)
        return replace(_pool(views, plan, found, quotes, turns=True), repeats=repeats)

    async def relevant(self, asked: Evidence, tally: Tally) -> bool:
        """Whether the question alone finds anything. It is asked before a model is called."""
        if self._embedder.name not in _RELEVANT:
            return True
        alone = asked.model_copy(update={"plan": asked.plan.model_copy(update={"rewrites": ()})})
        with tally.stage("discover"):
            views = await self._views(alone, tally)
            pool = await self.pool(views, alone.plan, asked.at)
        return self._relevant(alone, pool)

    def _relevant(self, asked: Evidence, pool: Pool) -> bool:
        bound = _RELEVANT.get(self._embedder.name)
        if not pool.cards or bound is None or self._paper or asked.plan.operation == "reply":
            return bool(pool.cards)
        question = asked.question
        people = {word for card in pool.cards for word in content_stems(card.subject)}
        told = [set(content_stems(card.text)) for card in pool.cards]
        wanted, names = set(content_stems(question)), stems_of_names(question)
        if wanted & people or self._language.name_speaker(question, "X") != question:
            bound -= _PERSONAL
        if names and not asked.plan.needs_source and not any(_is_in(n, told) for n in names):
            bound += _STRANGER
        bound -= _FEW * max(0.0, log2(_MANY / len(told)))
        shared = max(overlap(wanted - people, each) for each in told)
        return float(pool.cosines.max()) + _WORDS * shared >= bound

    # ------------------------------------------------------------ selection

    async def _scores(
        self, views: Sequence[View], pool: Pool, plan: Plan, tally: Tally
    ) -> tuple[Scores, dict[int, float]]:
        """The score of each candidate, and the reranker's logits of those it read. In the paper
        (Eq. 3) the reranker reads all candidates and decides alone. By default it reads the best
        few, and its word is one more signal."""
        weights = self._profile.weights
        scores = rank.scored(pool.signals, weights)
        if self._reranker is None or len(pool.cards) < 2:
            return scores, {}
        count = len(pool.cards) if self._paper else self._budget.rerank
        head = np.argsort(-scores, kind="stable")[:count].tolist()
        texts = [pool.cards[i].dated for i in head]
        read = rank.logits(await tally.rerank(self._reranker, [views[0].text], texts))[0]
        if self._paper:
            scores[head] = read
        else:
            scores[head] += np.float32(weights.rerank) * rank.probability(read)
        return scores, dict(zip(head, read.tolist(), strict=True))

    def _chosen(
        self, scores: Scores, pool: Pool, plan: Plan, count: int
    ) -> tuple[list[int], list[int]]:
        """The places, best first, and all cards read: each place with the cards around it."""
        weights = self._profile.weights
        if self._paper:
            chosen = read = np.argsort(-scores, kind="stable")[:count].tolist()
        else:
            chosen = rank.places(scores, pool.cards, count, weights.session)
            gap = weights.around_spread if plan.spans_sessions else weights.around
            near = rank.around(chosen, scores, pool.cards, count, gap)
            read = [i for place, cards in near.items() for i in (place, *cards)]
        return chosen, read

    # ------------------------------------------------------------ sources

    async def _recovered(
        self, found: Evidence, views: Sequence[View], tally: Tally, where: Filter
    ) -> Evidence:
        """REPLAY: the original turns. In the paper, the whole session of the best card."""
        if self._profile.replay == "session":
            best = [candidate.card.session_id for candidate in found.chosen[:1]]
            read, kept = await self._sessions(best)
            sources = [_source(session, _remaining(session)) for session in read]
        else:
            hits = await self._turns(views, found, where)
            best = sorted(hits, key=lambda id: -_worth(hits[id]))[:_SESSIONS]
            read, kept = await self._sessions(best)
            read = [each for each in read if not self._retention.session_expired(each.at, found.at)]
            sources = _within(self._budget.source_tokens, read, hits)
            shown, all = sum(len(s.turns) for s in sources), sum(len(s.turns) for s in read)
            if shown < all:
                tally.notes.append(f"sources cut to fit: {shown} of {all} turns")
        if not kept:
            tally.notes.append("the words are not kept: cards stand alone")
        return found.model_copy(update={"sources": tuple(sources), "sources_kept": kept})

    async def _sessions(self, ids: Sequence[str]) -> tuple[list[Session], bool]:
        """The sessions that have words, and whether that is all of them."""
        found = await self._store.texts(ids)
        read = [each for each in found.values() if not all(turn.forgotten for turn in each.turns)]
        return read, len(read) == len(ids)

    async def _turns(
        self, views: Sequence[View], found: Evidence, where: Filter
    ) -> dict[str, dict[int, _Hit]]:
        """Turns by session: the source index and the chosen cards, fused by rank. Words count
        double, because a question about a reply names what the reply said."""
        last = min(found.at.date(), where.until or date.max, where.as_of or date.max)
        reach = Reach(passages=_PASSAGES, since=where.since, until=last, sessions=where.sessions)
        near = await self._store.find(views, reach)
        fused = rank.fuse(r for each in near.said for r in (each.dense, each.lexical, each.lexical))
        turns: dict[str, dict[int, _Hit]] = defaultdict(lambda: defaultdict(_Hit))
        for key, score in fused.items():
            place = near.passages[key]
            hit = turns[place.session_id][place.turn]
            if score > hit.score:
                hit.score, hit.start = score, place.start
        for number, candidate in enumerate(found.chosen, 1):
            for turn in candidate.card.turns:
                turns[candidate.card.session_id][turn].score += 1.0 / (rank.RRF_K + number)
        return turns


# ---------------------------------------------------------------- the pool


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates and their signals, each named after its weight. `cosines`: the similarity of
    each card, or of its nearest turn, to the nearest view, not centred."""

    cards: Sequence[Card]
    signals: Mapping[str, Scores]
    cosines: Scores
    repeats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # as in Evidence

    def candidate(self, index: int, scores: Scores, reranked: Mapping[int, float]) -> Candidate:
        found = {name: float(signal[index]) for name, signal in self.signals.items()}
        found["cosine"] = float(self.cosines[index])
        if index in reranked:
            found["rerank"] = reranked[index]
        return Candidate.trusted(card=self.cards[index], scores=found, score=float(scores[index]))


def _pool(
    views: Sequence[View], plan: Plan, found: Found, quotes: Sequence[Card], *, turns: bool
) -> Pool:
    cards = [*found.cards.values(), *quotes]
    queries = np.stack([view.vector for view in views])
    # The vector of a quote is that of its turn.
    own = [found.turns[said.session_id, said.turns[0]][:1] for said in quotes]
    vectors = found.vectors if found.vectors.size else np.zeros((0, queries.shape[1]), np.float32)
    vectors = np.concatenate([vectors, *own])
    if not cards:
        return Pool((), {}, np.zeros(0, np.float32))
    remark = plan.operation == "reply"
    near = rank.similarity(queries, vectors, share=1.0 if remark else _CENTRE)
    raw = queries @ vectors.T
    spoken = _turn_similarity(queries, cards, found) if turns else raw
    cosines = np.maximum(raw, spoken).max(axis=0)
    if remark:  # it shares no words with the memory behind it: only its rewrites and meaning count
        guesses = near[1:] if len(near) > 1 else near
        return Pool(cards, {"dense": rank.averaged(guesses)}, cosines)
    signals = {
        "dense": rank.averaged(near),
        "lexical": rank.averaged(_lexical(found, cards)),
        "subject": rank.names_subject(cards, [view.text for view in views]),
        "date": rank.in_period(cards, plan.period),
    }
    if turns:
        signals["turn"] = rank.averaged(spoken)
    return Pool(cards, signals, cosines)


def _lexical(found: Found, cards: Sequence[Card]) -> Scores:
    """For each view, the score of the card's own words plus the best of its turns'."""
    signal = np.zeros((len(found.hits), len(cards)), np.float32)
    column = {key: place for place, key in enumerate(found.cards)}
    for row, (hits, spoken) in enumerate(zip(found.hits, found.places, strict=True)):
        for key, score in hits.lexical:
            if key in column:
                signal[row, column[key]] = score
        for index, card in enumerate(cards):
            said = [spoken.get((card.session_id, turn), 0.0) for turn in card.turns]
            signal[row, index] += max(said, default=0.0)
    return signal


def _turn_similarity(queries: Vectors, cards: Sequence[Card], found: Found) -> Scores:
    """For each view, its similarity to the nearest passage of the card's turns."""
    near = {place: (queries @ vectors.T).max(axis=1) for place, vectors in found.turns.items()}
    none = np.zeros(len(queries), np.float32)
    columns = [
        np.max([near.get((card.session_id, turn), none) for turn in card.turns] or [none], axis=0)
        for card in cards
    ]
    return np.stack(columns, axis=1)


def _is_in(name: str, told: Sequence[set[str]]) -> bool:
    """Whether a card has the name, or a longer form of it."""
    return any(word.startswith(name) for words in told for word in words)


def _meant(asked: Evidence) -> str:
    """The question with the entities of its plan that it shares no word with."""
    question = both_ends(asked.question)
    said = set(words(question))
    more = [name for name in asked.plan.entities if said.isdisjoint(words(name))]
    return f"{question} ({', '.join(more)})" if more else question


def _told(period: EventDate) -> tuple[date, date] | None:
    """When events of the period are told: in it, or soon after. None where the period is unknown
    or longer than a year."""
    if period.start is None or period.end is None:
        return None
    lasts = period.end - period.start
    if lasts > _YEAR:
        return None
    return period.start, period.end + min(max(lasts, _SOON), date.max - period.end)


def _unexpired(found: Found, retention: Retention, asked: datetime, as_of: date | None) -> Found:
    """Without what has expired, and without what began after the day that is asked about."""
    now = asked.replace(tzinfo=None)
    stay = [
        not retention.card_expired(card, asked)
        and (card.until is None or card.until > now)
        and (as_of is None or card.since <= as_of)
        for card in found.cards.values()
    ]
    if all(stay) and not retention.limited and as_of is None:
        return found
    cards = zip(found.cards.items(), stay, strict=True)
    return replace(
        found,
        cards={key: card for (key, card), kept in cards if kept},
        vectors=found.vectors[stay],
        sessions={
            id: session
            for id, session in found.sessions.items()
            if not retention.session_expired(session.at, asked)
            and (as_of is None or session.at.date() <= as_of)
        },
    )


def _merge_repeated(found: Found) -> tuple[Found, dict[str, tuple[str, ...]]]:
    """One card for each statement, the one that was said last. Also returns the other turns with
    that statement, by the id of the card."""
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for key, card in sorted(found.cards.items(), key=lambda item: item[1].said_at):
        groups[card.subject, card.fact, card.event_date.text].append(key)
    if len(groups) == len(found.cards):
        return found, {}
    last = {keys[-1] for keys in groups.values()}
    repeats = {
        found.cards[keys[-1]].id: tuple(
            f"{found.cards[key].session_id}#{turn}"
            for key in keys[:-1]
            for turn in found.cards[key].turns
        )
        for keys in groups.values()
        if len(keys) > 1
    }
    stay = [key in last for key in found.cards]
    cards = {key: card for key, card in found.cards.items() if key in last}
    return replace(found, cards=cards, vectors=found.vectors[stay]), repeats


def _quotes(found: Found, *, replies: bool) -> list[Card]:
    """The best turns found that no card rests on, as cards: the user's, or also replies."""
    covered = {(card.session_id, turn) for card in found.cards.values() for turn in card.turns}
    known = [
        {p: s for p, s in scores.items() if p in found.turns and p[0] in found.sessions}
        for scores in found.places
    ]
    return [
        quote(found.sessions[session_id], number)
        for session_id, number in best_bare(known, covered, _QUOTES)
        if replies or found.sessions[session_id].turn(number).role == "user"
    ]


# ---------------------------------------------------------------- sources


@dataclass(slots=True)
class _Hit:
    """The score of a turn, and where its best passage starts."""

    score: float = 0.0
    start: int = 0


def _worth(turns: Mapping[int, _Hit]) -> float:
    """A session is as good as its two best turns: many weak matches must not outweigh a reply."""
    return sum(sorted((turn.score for turn in turns.values()), reverse=True)[:2])


def _within(
    room: int, sessions: Sequence[Session], hits: Mapping[str, Mapping[int, _Hit]]
) -> list[Source]:
    """Of each session all turns if they fit, else the best ones. The first turn that does not fit
    is cut."""
    sources: list[Source] = []
    for session in sessions:
        found, turns = hits[session.id], _remaining(session)
        taken: dict[int, Turn] = {}
        left = room
        for number in _outward(session, found):
            turn = turns.get(number)
            if turn is None:
                continue
            if _size(turn) > left:
                if left >= _LEAST_PART:
                    taken[number] = _part(turn, found[number].start if number in found else 0, left)
                break
            taken[number] = turn
            left -= _size(turn)
        if taken:
            sources.append(_source(session, taken))
            room -= sources[-1].tokens
    return sources


def _part(turn: Turn, start: int, room: int) -> Turn:
    """As much of a turn as fits, from its best passage on, or from its beginning if that reaches
    the passage."""
    room -= 12
    length = len(turn.text) * room // _size(turn)
    start = 0 if start < length // 2 else start
    text = turn.text[start : start + length]
    while text and tokens.count(text) > room:  # tokens are not spread evenly
        text = text[: len(text) * 9 // 10]
    before, after = "… " if start else "", " …" if start + len(text) < len(turn.text) else ""
    return turn.model_copy(update={"text": f"{before}{text.strip()}{after}"})


def _outward(session: Session, found: Mapping[int, _Hit]) -> Iterator[int]:
    """Turn numbers, best first: each turn found with the reply or request it belongs to, then the
    neighbours of all, nearest first."""
    last = len(session.turns)
    ordered = sorted(found, key=lambda n: (-found[n].score, n))
    pairs = [(n, n - 1 if session.turn(n).role == "assistant" else n + 1) for n in ordered]
    wanted = [n for pair in pairs for n in pair]
    wanted += [n + s for d in range(1, last + 1) for n in ordered for s in (-d, d)]
    yield from (n for n in dict.fromkeys(wanted) if 1 <= n <= last)


def _size(turn: Turn) -> int:
    return tokens.count(turn.text) + _TURN_TOKENS


def _remaining(session: Session) -> dict[int, Turn]:
    """Its turns by number, without forgotten ones."""
    return {n: turn for n, turn in enumerate(session.turns, 1) if not turn.forgotten}


def _source(session: Session, turns: Mapping[int, Turn]) -> Source:
    return Source(
        session_id=session.id,
        at=session.at,
        turns=tuple(sorted(turns.items())),
        whole=len(turns) == len(_remaining(session)),
        tokens=sum(map(_size, turns.values())),
    )
