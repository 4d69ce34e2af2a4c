"""Questions on one's own chats, which are not sent and not kept.

A questions file has one JSON object a line: {"question": ..., "evidence": ["SESSION#TURN", ...]},
and "at" if the question has a time. Without a file, questions are made from statements of the
chats: two of the statement's rarer words, and the turn itself as the evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import justmem
from justmem.domain import Session, Turn
from justmem.errors import InvalidFile, JustMemError
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case, Gold, History, Question, TurnKey, files
from justmem_eval.text import content, keywords

_NAME = "mine"
_LEAST_WORDS = 5  # content words of a statement that a question is made from
_ASKED = 2  # of them that the question holds

MADE = """\
What this shows: whether memory finds the turn that a question is about, when the question has two
of its words. Compare two settings, or your chats with another person's.
What it does not show: how good answers are, or how well questions in other words are answered.
Real questions are harder. Write some with --questions FILE to measure those."""
GIVEN = """\
What this shows: whether memory finds the turns that you named for each of your questions.
What it does not show: how good the answers are. That depends on the model that reads them."""


async def read_sessions(path: Path, folder: Path) -> list[Session]:
    """The sessions of a JSON or JSON Lines file, in any form that `remember` takes."""
    given = list(files.read_lines(path)) if path.suffix == ".jsonl" else files.read_json(path)
    if isinstance(given, dict):
        given = given.get("sessions", [given])
    if not isinstance(given, list) or not given:
        raise InvalidFile(f"{path} holds no sessions: expected a list of them.")
    models: dict[str, Any] = {"model": "rules", "reranker": "none"}
    models["embedder"] = "justmem.testing:HashEmbedder"
    async with justmem.open_async(_NAME, folder=folder, **models) as memory:
        ids = []
        for number, session in enumerate(given, 1):
            try:
                ids.append((await memory.keep(session)).session_id)
            except JustMemError as error:
                raise InvalidFile(f"{path}: session {number}: {error}") from error
        return [await memory.session(id) for id in dict.fromkeys(ids)]


def benchmark(sessions: Sequence[Session], file: Path | None, count: int) -> Benchmark:
    """The questions of a file, or `count` that are made from the sessions."""
    history = History(_NAME, sorted(sessions, key=lambda session: session.at))
    cases = list(_own(file, history) if file else _made(history, count))
    if not cases:
        raise InvalidFile("There is no question, and no statement to make one from.")
    return Benchmark(_NAME, cases, lambda _: history)


def _own(path: Path, history: History) -> Iterator[Case]:
    known = {(s.id, n) for s in history.sessions for n in range(1, len(s.turns) + 1)}
    for number, item in enumerate(files.read_lines(path), 1):
        where = f"{path}: line {number}"
        if not isinstance(item.get("question"), str) or not item.get("evidence"):
            raise InvalidFile(f'{where}: write {{"question": ..., "evidence": ["SESSION#TURN"]}}.')
        turns = set()
        for text in map(str, item["evidence"]):
            session, _, turn = text.rpartition("#")
            if not turn.isdigit() or (session, int(turn)) not in known:
                raise InvalidFile(
                    f"{where}: there is no turn {text!r}. Write SESSION#TURN, as in s12#3."
                )
            turns.add((session, int(turn)))
        at = datetime.fromisoformat(item["at"]) if item.get("at") else history.sessions[-1].at
        yield _case(number, item["question"], at, turns)


def _made(history: History, count: int) -> Iterator[Case]:
    """Questions from statements, at even distances. Words that are in many turns are no help, and
    neither are words that are in this one alone: the two asked for are rare, but not the rarest."""
    said = [
        (session.id, number, turn)
        for session in history.sessions
        for number, turn in enumerate(session.turns, 1)
        if turn.role == "user" and not turn.text.rstrip().endswith("?")
    ]
    often = Counter(word for _, _, turn in said for word in set(content(turn.text)))
    long = [each for each in said if len(set(content(each[2].text))) >= _LEAST_WORDS]
    step = max(1.0, len(long) / max(1, count))
    for number in range(min(count, len(long))):
        session, n, turn = long[int(number * step)]
        at = history.sessions[-1].at
        yield _case(number + 1, _question(turn, often), at, {(session, n)})


def _question(turn: Turn, often: Counter[str]) -> str:
    known = {content(word)[0]: word for word in keywords(turn.text)}
    rare = sorted(known, key=lambda stem: (often[stem], stem))
    chosen = [stem for stem in rare if often[stem] > 1][:_ASKED] or rare[:_ASKED]
    who = "I" if turn.speaker.lower() == "user" else turn.speaker
    return f"What did {who} say about {' and '.join(known[stem] for stem in chosen)}?"


def _case(number: int, text: str, at: datetime, turns: set[TurnKey]) -> Case:
    gold = Gold(answer="", category=_NAME, turns=frozenset(turns))
    return Case(Question(id=str(number), text=text, at=at), gold, _NAME)


def missed(pairs: metrics.Pairs) -> Iterator[str]:
    """The questions for which none of the wanted turns was read."""
    for case, row in pairs:
        if not case.gold.turns & metrics.turns_of(row, "read"):
            wanted = ", ".join(f"{session}#{turn}" for session, turn in sorted(case.gold.turns))
            yield f"{case.question.text}  ({wanted})"
