"""JustMem and other systems on the same conversations, with one scripted model and one embedder.

Each system runs in a process of its own behind the same meter: it builds, is killed, is opened
again and is asked. Measured are calls, tokens, CPU, memory, disk and recall. The scripted model
says nothing about the quality of answers, so none is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from justmem.domain import Value
from justmem.errors import InvalidSetting
from justmem.ports import Embedder
from justmem.testing import serve_openai
from justmem_eval import metrics
from justmem_eval.benchmarks import Benchmark, Case, History
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.meter import Meter, Metered, metering
from justmem_eval.metrics import Figure, mean
from justmem_eval.records import PeerCannotStart, PeerFailed, Retrieved
from justmem_eval.scripted import Scripted, scripted_settings
from justmem_eval.systems.alignment import realigned
from justmem_eval.systems.peer import NAMES, Peer, PeerMemory
from justmem_eval.systems.process import ADAPTERS

OWN = {"justmem": "JustMem, model", "justmem_rules": "JustMem, rules"}
TITLES = {
    **OWN,
    "mem0": "mem0",
    "mempalace": "MemPalace",
    "amem": "A-Mem",
    "memoryos": "MemoryOS",
    "simplemem": "SimpleMem",
    "lightmem": "LightMem",
    "memos": "MemOS",
}
PACKAGES = {  # what pip installs, where the package index has it
    "mem0": "mem0ai",
    "mempalace": "mempalace",
    "memos": "MemoryOS",
    "lightmem": "lightmem",
}


class Compared(Value):
    system: str
    questions: int  # with evidence
    missing: int  # of them, for which the system failed
    build_calls: int
    build_tokens: int
    calls: float  # of the language model, for a question
    tokens: float  # of these calls, for a question
    evidence_tokens: Figure  # that a reader is shown besides
    cpu_build: float  # seconds
    cpu_ask: float  # milliseconds for a question
    peak_mb: float
    disk_kb: int
    turn: Figure  # recall of the first ten pieces, by the sources that the system names
    session: Figure
    turn_by_words: Figure  # the same, all pieces placed by their words
    session_by_words: Figure
    turns: Figure  # claimed by the first ten pieces
    turn_shown: Figure  # recall of everything that the reader is shown
    error: str = ""


def slice_of(benchmark: Benchmark, histories: int, sessions: int | None) -> Benchmark:
    """The first histories, cut to their first sessions, with the questions that these answer."""
    names = list(dict.fromkeys(case.history for case in benchmark.cases))[:histories]
    kept = {name: benchmark.history(name).sessions[:sessions] for name in names}
    ids = {name: {session.id for session in kept[name]} for name in names}

    def inside(case: Case) -> bool:
        return (
            case.history in ids
            and case.gold.has_evidence
            and bool(case.gold.turns)
            and case.gold.sessions <= ids[case.history]
        )

    found = {name: History(name, kept[name]) for name in names}
    return replace(benchmark.only(inside), history=found.__getitem__)


async def compare(
    systems: Mapping[str, str],
    benchmark: Benchmark,
    embedder: Embedder,
    recorded: Recorded,
    folder: Path,
    told: Callable[[str], None],
    patience: float = 900.0,
) -> list[Compared]:
    """`systems`: name -> the Python that it runs in. One system at a time."""
    names = list(dict.fromkeys(case.history for case in benchmark.cases))
    histories = [benchmark.history(name) for name in names]
    plans = {c.question.text: recorded.plans.get(c.question.id, {}) for c in benchmark.cases}
    scripted = Scripted(histories, embedder, recorded.cards, plans)
    made = []
    with serve_openai(scripted) as served:
        for name, python in systems.items():
            told(f"{TITLES.get(name, name)} ...")
            with metering(served.url) as meter:
                peer = Peer(
                    name,
                    python,
                    folder=folder / name,
                    meter=meter,
                    settings={**scripted_settings(embedder), "rules": name == "justmem_rules"},
                    adapter=ADAPTERS / "justmem_adapter.py" if name in OWN else None,
                    patience=patience,
                )
                made.append(await _measured(name, peer, benchmark, meter, folder / name / "peer"))
    return made


async def _measured(
    name: str, peer: Peer, benchmark: Benchmark, meter: Meter, folder: Path
) -> Compared:
    rows: list[tuple[Case, Retrieved]] = []
    error, disk = "", 0
    try:
        meter.enter(name, "construction")
        for history_id in dict.fromkeys(case.history for case in benchmark.cases):
            if failed := (await peer.build(benchmark.history(history_id))).failed:
                error = f"sessions failed: {', '.join(failed)}"
        disk = _size(folder)
        meter.enter(name, "inference")
        for case in benchmark.cases:
            try:
                opened = PeerMemory(peer, benchmark.history(case.history))
                rows.append((case, await opened.retrieve(case.question)))
            except PeerFailed as failure:
                error = str(failure)
    except (PeerFailed, PeerCannotStart) as failure:
        error = str(failure)
    finally:
        await peer.close()
    sums, used = meter.sums(), peer.process.used
    built = sums.get((name, "construction"), Metered())
    asked = sums.get((name, "inference"), Metered())
    count = max(1, len(rows))
    placed = [(case, realigned(row, benchmark.history(case.history))) for case, row in rows]
    return Compared(
        system=name,
        questions=len(benchmark.cases),
        missing=len(benchmark.cases) - len(rows),
        build_calls=built.requests,
        build_tokens=built.tokens,
        calls=asked.requests / count,
        tokens=asked.tokens / count,
        evidence_tokens=mean(row.evidence_tokens for _, row in rows),
        cpu_build=used.build,
        cpu_ask=1000 * used.ask / count,
        peak_mb=used.peak_mb,
        disk_kb=disk // 1024,
        turn=metrics.turn_recall(rows, "ten").fraction,
        session=metrics.session_recall(rows, "ten").fraction,
        turn_by_words=metrics.turn_recall(placed, "ten").fraction,
        session_by_words=metrics.session_recall(placed, "ten").fraction,
        turns=mean(len(metrics.turns_of(row, "ten")) for _, row in rows),
        turn_shown=metrics.turn_recall(rows, "read").fraction,
        error=error,
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def pythons(given: Mapping[str, str], environments: Path) -> dict[str, str]:
    """name -> Python: those that are given, then those that `install` has made."""
    found = dict(given)
    for name in NAMES:
        own = environments / name / "bin" / "python"
        if name not in found and own.exists():
            found[name] = str(own)
    return {**dict.fromkeys(OWN, sys.executable), **found}


def install(name: str, environments: Path, run: Callable[[Sequence[str]], None]) -> None:
    """An environment of its own, with the package from the package index."""
    if name not in PACKAGES:
        known = ", ".join(PACKAGES)
        raise InvalidSetting(
            f"The package index has no {name}. Install it as its authors say and name its Python "
            f"with --python {name}=PATH. pip installs {known}."
        )
    folder = environments / name
    if not folder.exists():
        run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", PACKAGES[name]]
    run(pip)


# ---------------------------------------------------------------- as text and as a picture

HEADINGS = ["", "calls", "tokens", "CPU s", "disk KB", "peak MB"]  # to build
HEADINGS += ["calls/q", "tokens/q", "read/q", "ms/q"]  # to ask; `read` is what a reader is shown
# Recall of ten pieces, and of everything that a reader is shown.
HEADINGS += ["turns", "sessions", "claimed", "turns*", "sessions*", "all shown"]
NOTE = "* all systems by one rule: each piece is placed by its words, whatever source it names."


def cells(found: Sequence[Compared]) -> list[list[str]]:
    return [
        [
            _titled(each),
            f"{each.build_calls:,}",
            f"{each.build_tokens:,}",
            f"{each.cpu_build:.1f}",
            f"{each.disk_kb:,}",
            f"{each.peak_mb:,.0f}",
            f"{each.calls:.1f}",
            f"{each.tokens:,.0f}",
            each.evidence_tokens.short(0),
            f"{each.cpu_ask:.0f}",
            each.turn.short(),
            each.session.short(),
            each.turns.short(),
            each.turn_by_words.short(),
            each.session_by_words.short(),
            each.turn_shown.short(),
        ]
        for each in found
    ]


def _titled(each: Compared) -> str:
    lost = f" (INCOMPLETE: {each.missing} of {each.questions} questions missing)"
    return TITLES.get(each.system, each.system) + (lost if each.missing else "")
