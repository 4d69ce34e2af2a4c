"""LoCoMo-Plus, cognitive split: a cue told long ago should colour the reply to a remark.

The cue dialogue is a session of its own in a LoCoMo conversation. The remark (trigger) comes
seven days after the last session; the cue lies the item's time gap before the remark.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem.errors import InvalidFile
from justmem_eval.benchmarks import files, locomo
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, History, Question

FILES = ("locomo_plus.json", "locomo_plus.dev.json")
CUE = "cue"
AFTER = timedelta(days=7)

_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {"a": 1, "an": 1, **{word: n for n, word in enumerate(_WORDS.split(), 1)}}
_GAP = re.compile(r"\b(\d+|[a-z]+)\s+(day|week|month|year)s?\b", re.IGNORECASE)
_SPOKEN = re.compile(r"([AB]):\s*(.+)", re.DOTALL)


def load(data: Path) -> Benchmark:
    path = files.find(data, FILES, "LoCoMo-Plus")
    keys = ("cue_dialogue", "trigger_query", "time_gap", "relation_type")
    items = files.read_list(path, keys, "LoCoMo-Plus items")
    base_path = files.find(data, locomo.FILES, "LoCoMo (LoCoMo-Plus builds on it)")
    conversations = files.read_list(base_path, ("sample_id", "conversation"), "LoCoMo")
    by_name = {str(c["sample_id"]): c["conversation"] for c in conversations}
    histories = {
        name: History(name, locomo.sessions_of(talk, f"{base_path}: {name}")[0])
        for name, talk in by_name.items()
    }
    cases: list[Case] = []
    notes: list[str] = []
    for place, item in enumerate(items):
        index = int(item.get("index", place))
        name = str(item.get("conversation") or _conversation(index, by_name, path))
        if name not in histories:
            notes.append(f"plus/{index}: conversation {name} is not in {base_path.name}: left out")
            continue
        people = {"A": by_name[name]["speaker_a"], "B": by_name[name]["speaker_b"]}
        case, history = _case(index, item, histories[name], people, notes)
        cases.append(case)
        histories[history.id] = history
    digests = files.digests(path, base_path)
    return Benchmark("locomo_plus", cases, histories.__getitem__, notes, digests)


def _conversation(index: int, by_name: dict[str, Any], path: Path) -> str:
    if len(by_name) != 10:
        raise InvalidFile(
            f"{path} does not say which conversation its items belong to: item i belongs to the "
            f"(i mod 10)th of all ten in locomo10.json, and here are {len(by_name)}."
        )
    return list(by_name)[index % 10]


def _case(
    index: int,
    item: dict[str, Any],
    base: History,
    people: dict[str, str],
    notes: list[str],
) -> tuple[Case, History]:
    id = f"plus/{index}"
    gap = gap_days(str(item["time_gap"]))
    if gap is None:
        notes.append(f"{id}: the gap {item['time_gap']!r} is vague: 0 days, as officially read")
    at = max(session.at for session in base.sessions) + AFTER
    cue = Session(
        id=CUE,
        at=at - timedelta(days=gap or 0),
        turns=tuple(_turns(str(item["cue_dialogue"]), people)),
    )
    (said,) = _turns(str(item["trigger_query"]), people)
    gold = Gold(
        answer="",
        category=str(item["relation_type"]),
        turns=frozenset((CUE, n) for n in range(1, len(cue.turns) + 1)),
        cue="\n".join(f"{turn.speaker}: {turn.text}" for turn in cue.turns),
    )
    ordered = sorted([*base.sessions, cue], key=lambda session: session.at)
    history = History(id, ordered, base=base.id, added=(cue,))
    question = Question(id=id, text=said.text, at=at, remark=True, speaker=said.speaker)
    return Case(question, gold, id), history


def _turns(text: str, people: dict[str, str]) -> list[Turn]:
    """ "A: ...\\nB: ..." with the people's names. A line without a letter belongs to the one
    before it."""
    turns: list[Turn] = []
    for line in filter(str.strip, text.split("\n")):
        spoken = _SPOKEN.match(line.strip())
        if spoken:
            turns.append(Turn(speaker=people[spoken[1]], text=spoken[2].strip()))
        elif turns:
            last = turns.pop()
            turns.append(Turn(speaker=last.speaker, text=f"{last.text}\n{line.strip()}"))
        else:
            turns.append(Turn(speaker=people["A"], text=line.strip()))
    return turns


def gap_days(text: str) -> int | None:
    """None for a vague gap ("several months later")."""
    match = _GAP.search(text)
    if match is None:
        return None
    word = match[1].lower()
    number = int(word) if word.isdigit() else _NUMBERS.get(word)
    return None if number is None else number * _DAYS[match[2].lower()]
