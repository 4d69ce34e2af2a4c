"""Published figures: the evaluation writes them to a file, the documents take them from it.

    docs/figures.json   name -> value, n, command, date, version
    in a document       <!-- figure: NAME -->86.2

A number after such a mark is the file's, rounded to as many places as are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import TypeAdapter

import justmem
from justmem.domain import Value
from justmem.errors import InvalidFile
from justmem_eval.metrics import Figures
from justmem_eval.records import write_json
from justmem_eval.results import Measured
from justmem_eval.settings import Settings

# Figures that a document may need.
_PUBLISHED = re.compile(
    r"(by_words\.)?(turn|session)\.(ten|read)\.fraction|sessions_at_5\.(any|all)|source_hit"
    r"|(answers|costs|process)\..+|(calls|tokens)\.(construction|planning|evidence)"
)
_MARKED = re.compile(r"(<!-- figure: (?P<name>\S+) -->\**)(?P<number>\d[\d,]*(?:\.\d+)?)")


class Published(Value):
    value: float
    n: int
    command: str
    date: date
    version: str


def read(path: Path) -> dict[str, Published]:
    if not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, Published]).validate_json(path.read_bytes())
    except ValueError as error:
        raise InvalidFile(f"{path} is not a file of figures ({error}).") from error


def write(path: Path, name: str, found: Figures, command: str) -> None:
    """Adds the figures of one run, or replaces those it had under the same name."""
    kept = {key: each for key, each in read(path).items() if not key.startswith(f"{name}.")}
    today = datetime.now(UTC).date()
    for key, each in found.items():
        if each.value is not None:
            kept[f"{name}.{key}"] = Published(
                value=round(each.value, 4),
                n=each.n,
                command=command,
                date=today,
                version=justmem.__version__,
            )
    write_json(path, {key: json.loads(kept[key].model_dump_json()) for key in sorted(kept)})


def publish(path: Path, given: Settings, found: Measured) -> None:
    """The figures of a run without a model. Runs with other settings have figures of their own."""
    name = f"{found.benchmark}-{given.cards_by}-{given.plans_by}"
    command = f"justmem-eval run --benchmark {found.benchmark}"
    command += f" --cards {given.cards_by} --plans {given.plans_by}"
    if given.limit:
        name, command = f"{name}-limit_{given.limit}", f"{command} --limit {given.limit}"
    for switch in given.switches:
        name += f"-{switch}".replace("=", "_").replace(".", "_")
        command += f" --set {switch}"
    write(path, name, of_run(found), command)


def of_run(found: Measured) -> Figures:
    return {name: each for name, each in found.figures.items() if _PUBLISHED.fullmatch(name)}


def filled(text: str, figures: Mapping[str, Published]) -> str:
    """The text with each marked number as the file has it."""

    def one(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in figures:
            raise InvalidFile(f"A document shows the figure {name}, which no run has written.")
        places = len(match["number"].partition(".")[2])
        return f"{match[1]}{figures[name].value:,.{places}f}"

    return _MARKED.sub(one, text)


def changed(before: str, after: str) -> list[str]:
    """Each figure whose number is another one, for docs/HISTORY.md."""
    marks = zip(_MARKED.finditer(before), _MARKED.finditer(after), strict=True)
    return [
        f"{old['name']}: {old['number']} -> {new['number']}"
        for old, new in marks
        if old["number"] != new["number"]
    ]
