"""BEAM: long chats of a user with an assistant, twenty questions each on ten memory abilities.

Published as `chats/SIZE/NUMBER/chat.json` and `probing_questions/probing_questions.json` below it.
Sizes 100K, 500K and 1M are read; the 10M chats have another layout and are not.

Known problems of the data, and what is done about them:

- User messages end in marks of the generator (`->-> 1,3`), which tell the plan: they are removed.
- Some messages speak of their own "Time Anchor": left as they are.
- A session is a batch of messages with one date; there are no times of day.
- Questions carry rubrics, ideal answers and reasons. A system gets the question alone.
- The published scoring code cuts half points to zero for some abilities. Here a half is a half.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question, TurnKey

SIZES = {"beam": "100K", "beam_500k": "500K", "beam_1m": "1M"}
ABSTENTION = "abstention"
ORDERING = "event_ordering"

_QUESTIONS = "probing_questions/probing_questions.json"
_DATE = "%B-%d-%Y"
_MARK = re.compile(r"\s*->->\s*[\d,\s]+$")
# What an ability calls its right answer.
_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")


def load(name: str, data: Path) -> Benchmark:
    size = SIZES[name]
    folders = _folders(data, size)
    by_name = {f"{size}-{folder.name}": folder for folder in folders}
    cases: list[Case] = []
    notes: list[str] = []
    for id, folder in by_name.items():
        cases += _cases(id, folder, notes)

    @lru_cache(maxsize=4)  # a chat is up to a million tokens
    def history(id: str) -> History:
        return History(id, _chat(by_name[id])[0])

    digests = {
        f"{folder.name}/{file}": digest
        for folder in folders
        for file, digest in files.digests(folder / "chat.json", folder / _QUESTIONS).items()
    }
    return Benchmark(name, cases, history, notes, digests)


def _folders(data: Path, size: str) -> list[Path]:
    for pattern in (f"chats/{size}/*", f"*/chats/{size}/*"):
        found = [path.parent for path in data.glob(f"{pattern}/chat.json")]
        if found:
            return sorted(found, key=lambda path: (len(path.name), path.name))
    raise InvalidFile(
        f"No BEAM chats in {data}: expected chats/{size}/NUMBER/chat.json. "
        "`justmem-eval data` says where to get them."
    )


def _chat(folder: Path) -> tuple[list[Session], dict[int, TurnKey]]:
    """The sessions, and each message's id -> its turn."""
    path = folder / "chat.json"
    dated: list[tuple[str, Mapping[str, Any]]] = []
    date = ""
    for message in _messages(files.read_json(path), path):
        date = str(message.get("time_anchor") or date)
        dated.append((date, message))
    sessions: list[Session] = []
    places: dict[int, TurnKey] = {}
    for number, (date, messages) in enumerate(groupby(dated, key=itemgetter(0)), 1):
        id = f"s{number:03d}"
        turns: list[Turn] = []
        for _, message in messages:
            role, text = str(message["role"]), _MARK.sub("", str(message["content"]))
            turns.append(Turn(speaker=role.capitalize(), role=role, text=text))
            places[int(message["id"])] = id, len(turns)
        at = files.as_time(date, _DATE, str(path))
        sessions.append(Session(id=id, at=at, turns=tuple(turns)))
    return sessions, places


def _messages(batches: Any, path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        for batch in batches:
            for turn in batch["turns"]:
                yield from turn
    except (KeyError, TypeError) as error:
        raise InvalidFile(f"{path} is not a chat of BEAM ({error}): another size?") from error


def _cases(id: str, folder: Path, notes: list[str]) -> Iterator[Case]:
    sessions, places = _chat(folder)
    at = sessions[-1].at
    for ability, asked in files.read_json(folder / _QUESTIONS).items():
        for number, item in enumerate(asked):
            name = f"{id}/{ability}/{number}"
            wanted = _ids(item.get("source_chat_ids"))
            if missing := sorted(wanted - places.keys()):
                notes.append(f"{name}: no message has the ids {missing}")
            turns = frozenset(places[each] for each in wanted & places.keys())
            gold = Gold(
                answer=next((str(item[key]) for key in _ANSWERS if item.get(key)), ""),
                category=ability,
                turns=turns,
                abstain=ability == ABSTENTION,
                rubric=tuple(map(str, item["rubric"])),
            )
            yield Case(Question(id=name, text=str(item["question"]), at=at), gold, id)


def _ids(value: Any) -> set[int]:
    """Of an id, a list of ids, or a mapping to such lists."""
    if isinstance(value, int):
        return {value}
    if isinstance(value, Mapping):
        value = list(value.values())
    return set().union(*map(_ids, value)) if isinstance(value, list) else set()
