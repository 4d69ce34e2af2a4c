"""Living: three hand-written histories of about a year, 40 to 51 questions each. It comes with us.

`person` tells an assistant about his life, `friends` are two people, `messy` is a sloppy chat in
three languages with pasted mail, code and logs. Facts change, plans move, and the questions ask
for what holds now, what held before, counts, lists, exact words, and things never mentioned. Some
ask for the memory of an earlier day (`as_of`), and some are asked after cards were corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from importlib.resources import files as packaged
from pathlib import Path
from typing import Any

from justmem.domain import Session, Turn
from justmem_eval.benchmarks import files
from justmem_eval.benchmarks.dialogues import with_caption
from justmem_eval.benchmarks.types import Benchmark, Case, Gold, HandCorrection, History, Question

_CORRECTED = "-corrected"
_DATA = Path(str(packaged("justmem_eval"))) / "data"


def load(_: Path) -> Benchmark:
    return _benchmark(
        "living", *sorted(Path(str(entry)) for entry in _DATA.joinpath("living").iterdir())
    )


def load_harm(_: Path) -> Benchmark:
    """The same histories, asked what needs no memory a day after their last session: greetings,
    arithmetic, general knowledge."""
    living = load(_)
    text = (_DATA / "no_memory.txt").read_text("utf-8")
    cases = []
    for id in (each for each in living.histories if not each.endswith(_CORRECTED)):
        at = max(session.at for session in living.history(id).sessions) + timedelta(days=1)
        for number, said in enumerate(filter(str.strip, text.splitlines())):
            asked = Question(id=f"{id}/harm-{number}", text=said, at=at)
            cases.append(Case(asked, Gold(answer="", category="no memory"), id))
    return replace(living, name="harm", cases=cases)


def read(path: Path) -> Benchmark:
    """One file of the same form."""
    return _benchmark(path.stem, path)


def _benchmark(name: str, *paths: Path) -> Benchmark:
    items = {path.stem: files.read_json(path) for path in paths}
    histories = {id: History(id, _sessions(item)) for id, item in items.items()}
    histories |= {f"{id}{_CORRECTED}": _corrected(id, item) for id, item in items.items()}
    cases = [_case(id, item, q) for id, item in items.items() for q in item["questions"]]
    return Benchmark(name, cases, histories.__getitem__, (), files.digests(*paths))


def _corrected(name: str, item: Mapping[str, Any]) -> History:
    """The same history after its corrections."""
    corrections = []
    for given in item.get("corrections", ()):
        changes = {key: given[key] for key in ("fact", "event_date") if key in given}
        session, turn = given["turn"].split(":")
        corrections.append(HandCorrection(session, int(turn), given["words"], changes))
    return History(f"{name}{_CORRECTED}", _sessions(item), base=name, corrections=corrections)


def _sessions(item: Mapping[str, Any]) -> list[Session]:
    found = [
        Session(id=s["id"], at=datetime.fromisoformat(s["at"]), turns=tuple(map(_turn, s["turns"])))
        for s in item["sessions"]
    ]
    return sorted(found, key=lambda session: session.at)


def _turn(turn: Mapping[str, Any]) -> Turn:
    role = turn["speaker"] if turn["speaker"] in ("user", "assistant") else "user"
    speaker = role.capitalize() if role == turn["speaker"] else turn["speaker"]
    return Turn(speaker=speaker, role=role, text=with_caption(turn["text"], turn.get("caption")))


def _case(name: str, item: Mapping[str, Any], asked: Mapping[str, Any]) -> Case:
    places = [place.split(":") for place in asked["evidence"]]
    turns = frozenset((session, int(turn)) for session, turn in places)
    gold = Gold(
        answer=asked["answer"] or "",
        category=asked["kind"],
        turns=turns,
        abstain=asked["answer"] is None,
    )
    at = datetime.fromisoformat(asked.get("at") or item["now"])
    id = f"{name}/{asked['id']}"
    as_of = date.fromisoformat(asked["as_of"]) if "as_of" in asked else None
    history = f"{name}{_CORRECTED}" if asked.get("corrected") else name
    return Case(Question(id=id, text=asked["question"], at=at, as_of=as_of), gold, history)
