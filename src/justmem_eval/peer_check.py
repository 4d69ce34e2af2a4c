"""A quick trial of an adapter: three sessions in, the process killed, a new one asked.

It shows in a minute what would spoil a run of hours: a store that does not survive its process,
an embedder that the server does not know, evidence without a usable source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from justmem.ports import Embedder
from justmem_eval import runs
from justmem_eval.benchmarks import Case, living
from justmem_eval.loopback import serve_openai
from justmem_eval.metrics import turns_of
from justmem_eval.records import Files, Record, Retrieved, Usage
from justmem_eval.scripted import Scripted
from justmem_eval.settings import PeerSettings, Settings

# An odd number of turns in the first and the last session: some systems take turns in pairs.
BENCHMARK = living.read(Path(__file__).parent / "data" / "peer_check.json")
HISTORY = BENCHMARK.history("peer_check")
PLANS: Mapping[str, Any] = {case.question.text: {} for case in BENCHMARK.cases}  # none is recorded
_MOST_TURNS = 4  # that one piece may name before its source says too little
_ENOUGH = 2  # of the questions: a model may lose one fact


def check(
    name: str, model: str, peer: PeerSettings, folder: Path, embedder: Embedder | None = None
) -> Files:
    """One run of the peer, as any other. Without a model, a scripted one replies, and `embedder`
    makes the vectors."""
    given = Settings(benchmark=BENCHMARK, data=folder, system=name, model=model, runs=0, peer=peer)
    if model or embedder is None:
        asyncio.run(runs.run(given, folder, folder))
        return Files(folder)
    with serve_openai(Scripted([HISTORY], embedder, plans=PLANS)) as served:
        peer = replace(peer, embedder=embedder.name, dimensions=embedder.dim)
        return check(name, f"openai:scripted@{served.url}", peer, folder)


def problems(files: Files) -> list[str]:
    """What would spoil a long run."""
    (built,), asked = files.memory.items(), files.evidence.items()
    if built.error:
        return [built.error]
    found = [f"A session could not be built: {each}." for each in built.failed]
    found += [each.error for each in asked if each.error]
    used = _used(built, *asked)
    if used.failed:
        found.append(f"The model server refused {used.failed} requests: see the adapter's log.")
    pairs = files.retrieved(BENCHMARK.cases)
    empty = [f"No evidence for: {c.question.text}" for c, row in pairs if not row.chosen]
    right = sum(is_right(case, row) for case, row in pairs)
    if pairs and not empty and right < _ENOUGH:
        found.append(f"Only {right} of {len(pairs)} questions have evidence from the right turn.")
    longest = max((len(piece.place[1]) for _, row in pairs for piece in row.chosen), default=0)
    if longest > _MOST_TURNS:
        found.append(
            f"One piece of evidence names {longest} turns. Recall would count all of them: name "
            "only the turns that the text comes from, or none, so that it is aligned."
        )
    return [*found, *empty]


def is_right(case: Case, row: Retrieved) -> bool:
    """One of the first ten pieces comes from the turn that answers the question."""
    return bool(turns_of(row, "ten") & case.gold.turns)


def _used(*records: Record) -> Usage:
    used = Usage()
    for each in records:
        used = used.plus(each.usage or Usage())
    return used


def shown(files: Files) -> str:
    pairs = files.retrieved(BENCHMARK.cases)
    lines = [
        f"{len(HISTORY.sessions)} sessions built, the process killed, "
        f"{len(pairs)} questions asked of a new one.",
    ]
    for case, row in pairs:
        lines.append(f"  {case.question.text}")
        lines.append(
            f"    right turn {'found' if is_right(case, row) else 'NOT found'}; "
            f"{len(row.chosen)} pieces, {sum(piece.aligned for piece in row.chosen)} placed by "
            f"their words, {row.evidence_tokens} tokens"
        )
    built, asked = _used(*files.memory.items()), _used(*files.evidence.items())
    for stage, used in (("construction", built), ("inference", asked)):
        estimated = f", {used.estimated} of the calls estimated" if used.estimated else ""
        lines.append(
            f"  {stage}: {used.requests} calls, {used.tokens:,} tokens{estimated}; "
            f"{used.embeddings} requests for vectors, {used.embedding:,} tokens"
        )
    wrong = problems(files)
    lines += [f"  PROBLEM: {problem}" for problem in wrong]
    return "\n".join([*lines, "failed" if wrong else "passed"])
