"""LongMemEval: 500 questions, each with a history of its own: S has about 48 sessions, M 500.

`answer_` in session ids and `has_answer` in turns would give gold away: sessions are named by
their place in time, and only role and content of a turn are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question

FILES = (
    "longmemeval_s_cleaned.json",
    "longmemeval_s.json",
    "longmemeval_s_cleaned.json.xz",
    "longmemeval_s.json.xz",
    "longmemeval_s.dev.json",
    "longmemeval_s.dev.json.xz",
)
FILES_M = ("longmemeval_m_cleaned.json", "longmemeval_m.json")
Item = Mapping[str, Any]
ASSISTANT = "single-session-assistant"
_KEYS = (
    "question_id",
    "question_type",
    "question",
    "question_date",
    "answer",
    "answer_session_ids",
    "haystack_dates",
    "haystack_session_ids",
    "haystack_sessions",
)


def load(data: Path) -> Benchmark:
    path = files.find(data, FILES, "LongMemEval-S")
    items = files.read_list(path, _KEYS, "LongMemEval questions")
    by_id = {str(item["question_id"]): item for item in items}
    return _benchmark("longmemeval", path, items, by_id.__getitem__)


def load_m(data: Path) -> Benchmark:
    """M is gigabytes: one question is in memory at a time."""
    path = files.find(data, FILES_M, "LongMemEval-M")
    places: dict[str, tuple[int, int]] = {}

    def items() -> Iterator[Item]:
        for item, start, end in files.stream_list(path, _KEYS, "LongMemEval questions"):
            places[str(item["question_id"])] = start, end
            yield item

    def item_of(id: str) -> Item:
        return files.read_part(path, *places[id])

    return _benchmark("longmemeval_m", path, items(), item_of)


def _benchmark(
    name: str, path: Path, items: Iterable[Item], item_of: Callable[[str], Item]
) -> Benchmark:
    notes: list[str] = []
    cases = [_case(item, path, notes) for item in items]
    if len({case.history for case in cases}) < len(cases):
        raise InvalidFile(f"{path}: question ids repeat; is it two files joined?")

    @lru_cache(maxsize=4)  # one history is megabytes of text; they are asked for in order
    def history(id: str) -> History:
        return History(id, _sessions(item_of(id), path))

    return Benchmark(name, cases, history, notes, files.digests(path))


def _places(item: Item, path: Path) -> list[tuple[str, int]]:
    """(our session id, index in the file) in order of time; ids repeat, so places are the key."""
    dates, sessions = item["haystack_dates"], item["haystack_sessions"]
    if not len(dates) == len(sessions) == len(item["haystack_session_ids"]):
        raise InvalidFile(f"{path}: {item['question_id']} has dates and sessions out of step.")
    times = [_time(told, item, path) for told in dates]
    order = sorted(range(len(dates)), key=lambda i: (times[i], i))
    return [(f"s{place:03d}", i) for place, i in enumerate(order, 1) if sessions[i]]


def _time(text: str, item: Item, path: Path) -> datetime:
    return files.as_time(text, "%Y/%m/%d (%a) %H:%M", f"{path}: {item['question_id']}")


def _sessions(item: Item, path: Path) -> list[Session]:
    found = []
    for id, i in _places(item, path):
        turns = tuple(
            Turn(speaker=t["role"].capitalize(), role=t["role"], text=t["content"])
            for t in item["haystack_sessions"][i]
        )
        if any(turn.text.strip() for turn in turns):
            at = _time(item["haystack_dates"][i], item, path)
            found.append(Session(id=id, at=at, turns=turns))
    return found


def _case(item: Item, path: Path, notes: list[str]) -> Case:
    id = str(item["question_id"])
    abstain = id.endswith("_abs")
    gold_ids = set(item["answer_session_ids"])
    sessions, turns, days = set(), set(), set()
    for ours, i in _places(item, path):
        if item["haystack_session_ids"][i] in gold_ids:
            sessions.add(ours)
            days.add(_time(item["haystack_dates"][i], item, path).date())
            said = enumerate(item["haystack_sessions"][i], 1)
            turns |= {(ours, n) for n, turn in said if turn.get("has_answer")}
    at = _time(item["question_date"], item, path)
    if days and max(days) > at.date():
        notes.append(f"{id}: gold is dated after the day of the question")
    if not abstain and not turns:
        notes.append(f"{id}: no turn is marked, left out of turn recall")
    if len(sessions) != len(gold_ids):
        notes.append(f"{id}: {len(gold_ids)} gold session ids name {len(sessions)} sessions")
    gold = Gold(
        answer=str(item["answer"]),
        category=str(item["question_type"]),
        turns=frozenset(turns),
        marked=frozenset(sessions),
        abstain=abstain,
    )
    return Case(Question(id=id, text=str(item["question"]), at=at), gold, id)
