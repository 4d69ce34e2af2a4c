"""JustMem and other systems on the same conversations, with one scripted model and one embedder.

Each system is a run of the protocol in a process of its own: it builds, is killed, is opened again
and is asked. Measured are calls, tokens, CPU, memory, disk and recall. The scripted model says
nothing about the quality of answers, so there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from justmem.ports import Embedder
from justmem_eval import runs
from justmem_eval.benchmarks import Benchmark, Case, History
from justmem_eval.benchmarks.recorded import Recorded
from justmem_eval.loopback import serve_openai
from justmem_eval.records import PeerCannotStart
from justmem_eval.results import Measured, measured, with_words
from justmem_eval.scripted import Scripted
from justmem_eval.settings import PeerSettings, Settings
from justmem_eval.systems.peer import ADAPTERS

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
COLUMNS = (  # heading, figure, decimal places
    ("calls", "calls.construction", 0),
    ("tokens", "tokens.construction", 0),
    ("CPU s", "process.build_cpu_s", 1),
    ("disk KB", "process.disk_kb", 0),
    ("peak MB", "process.peak_mb", 0),
    ("calls/q", "calls.planning", 1),
    ("tokens/q", "tokens.planning", 0),
    ("read/q", "tokens.evidence", 0),  # what a reader is shown
    ("ms/q", "process.ask_cpu_ms", 0),
    ("turns", "turn.ten.fraction", 1),
    ("sessions", "session.ten.fraction", 1),
    ("claimed", "costs.turns_at_10", 1),
    ("turns*", "by_words.turn.ten.fraction", 1),
    ("sessions*", "by_words.session.ten.fraction", 1),
    ("all shown", "turn.read.fraction", 1),
)
_NOTES = 5  # of what went wrong with a system
NOTE = "* all systems by one rule: each piece is placed by its words, whatever source it names."


def slice_of(benchmark: Benchmark, histories: int, sessions: int | None) -> Benchmark:
    """The first histories, cut to their first sessions, with the questions that these answer."""
    names = benchmark.histories[:histories]
    kept = {name: benchmark.history(name).sessions[:sessions] for name in names}
    ids = {name: {session.id for session in kept[name]} for name in names}

    def inside(case: Case) -> bool:
        known = ids.get(case.history, set())
        return case.gold.has_evidence and case.gold.sessions <= known

    found = {name: History(name, kept[name]) for name in names}
    return replace(benchmark.only(inside), history=found.__getitem__)


async def compare(
    systems: Mapping[str, str],
    benchmark: Benchmark,
    embedder: Embedder,
    recorded: Recorded,
    folder: Path,
    told: Callable[[str], None],
) -> list[Measured]:
    """`systems`: name -> the Python that it runs in. One system at a time. What went wrong is in
    the notes."""
    histories = [benchmark.history(name) for name in benchmark.histories]
    plans = {c.question.text: recorded.plans.get(c.question.id, {}) for c in benchmark.cases}
    scripted = Scripted(histories, embedder, recorded.cards, plans)
    made = []
    with serve_openai(scripted) as served:
        for name, python in systems.items():
            told(f"{TITLES.get(name, name)} ...")
            adapter = ADAPTERS / "justmem_adapter.py" if name in OWN else None
            given = Settings(
                benchmark=benchmark,
                data=folder,
                system=name,
                label=TITLES.get(name, name),
                model=f"openai:scripted@{served.url}",
                runs=0,
                peer=PeerSettings(python, adapter, embedder.name, embedder.dim),
            )
            made.append(await _measured(given, folder / name))
    return made


async def _measured(given: Settings, folder: Path) -> Measured:
    wrong = []
    try:
        await runs.run(given, folder, folder)
    except PeerCannotStart as error:
        wrong.append(str(error))
    found = measured(folder, given.benchmark)
    wrong += [f"{stage}, {id}: {reason}" for stage, id, reason in found.failures]
    found = found.model_copy(update={"notes": tuple(wrong[:_NOTES])})
    return with_words(found, folder, given.benchmark)


def cells(found: Sequence[Measured]) -> list[list[str]]:
    return [
        [each.titled(), *(each[name].short(places) for _, name, places in COLUMNS)]
        for each in found
    ]
