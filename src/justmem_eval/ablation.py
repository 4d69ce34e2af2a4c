"""Each weight set to zero by itself, on every data set: what stays has to earn its place.

The curve: sizes and models that decide between quality and time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from justmem.domain import Value
from justmem_eval.metrics import figure
from justmem_eval.switches import WEIGHTS

# Heading, configuration (benchmark, cards, plans) and figure.
COLUMNS: Sequence[tuple[str, tuple[str, str, str], str]] = (
    ("LoCoMo rec. turn", ("locomo", "recorded", "recorded"), "turn.read.fraction"),
    ("ten cards", ("locomo", "recorded", "recorded"), "turn.ten.fraction"),
    ("session", ("locomo", "recorded", "recorded"), "session.read.fraction"),
    ("spanning", ("locomo", "recorded", "recorded"), "spanning_turn.fraction"),
    ("LoCoMo rules turn", ("locomo", "rules", "rules"), "turn.read.fraction"),
    ("ten cards", ("locomo", "rules", "rules"), "turn.ten.fraction"),
    ("session", ("locomo", "rules", "rules"), "session.read.fraction"),
    ("tokens", ("locomo", "rules", "rules"), "costs.evidence_tokens"),
    ("turns claimed", ("locomo", "rules", "rules"), "costs.turns_claimed"),
    ("Plus rec. cue", ("locomo_plus", "recorded", "recorded"), "session.read.any"),
    ("Plus rules cue", ("locomo_plus", "rules", "rules"), "session.read.any"),
    ("LME rules any@5", ("longmemeval", "rules", "rules"), "session_at_5.any"),
    ("session", ("longmemeval", "rules", "rules"), "session.read.fraction"),
    ("source hit@1", ("longmemeval", "rules", "rules"), "sources.session_at_1"),
)


class Ablation(Value):
    name: str
    set: tuple[str, ...] = ()


def ablations() -> list[Ablation]:
    return [
        Ablation(name="default"),
        *(Ablation(name=f"{name} 0", set=(f"weight.{name}=0",)) for name in WEIGHTS.model_fields),
        Ablation(name="by the question alone", set=("select_by=question",)),
        Ablation(name="as the paper", set=("profile=paper",)),
        Ablation(name="no reranker", set=("reranker=none",)),
    ]


def curve() -> list[Ablation]:
    """From the cheapest to the dearest."""
    smaller = "embedder=onnx:all-MiniLM-L6-v2"
    none = "reranker=none"
    return [
        Ablation(name="default"),
        Ablation(name="MiniLM-L6, no reranker", set=(smaller, none)),
        Ablation(name="no reranker, half the pool", set=(none, "dense=20", "lexical=10")),
        Ablation(name="no reranker", set=(none,)),
        Ablation(name="no reranker, double pool", set=(none, "dense=80", "lexical=40")),
        Ablation(name="MiniLM-L6, 14 pairs", set=(smaller,)),
        *(Ablation(name=f"{n} pairs", set=(f"rerank={n}",)) for n in (6, 20, 30, 60)),
        Ablation(name="as the paper: the whole pool", set=("profile=paper",)),
    ]


Measure = Callable[[tuple[str, str, str], Ablation], Mapping[str, Any]]


def rows(
    wanted: Sequence[Ablation], benchmarks: Sequence[str], measure: Measure
) -> tuple[list[str], list[list[str]]]:
    """Headings, and for each ablation its figures; from the second on with the difference."""
    columns = [column for column in COLUMNS if column[1][0] in benchmarks]
    made: list[list[str]] = []
    first: list[float | None] = []
    for ablation in wanted:
        found = {place: measure(place, ablation) for place in dict.fromkeys(c[1] for c in columns)}
        values = [figure(found[place], path)[0] for _, place, path in columns]
        first = first or values
        cells = [_cell(v, f, ablation.set) for v, f in zip(values, first, strict=True)]
        costs = [figure(each, "costs.pairs")[0] for each in found.values()]
        cpu = next((c for e in found.values() if (c := _cpu(e)) is not None), None)
        pairs = sum(c or 0.0 for c in costs) / max(1, len(costs))
        last = [f"{pairs:.0f}", "–" if cpu is None else f"{cpu:.0f}"]
        made.append([ablation.name, *cells, *last])
    return ["", *(name for name, _, _ in columns), "pairs", "CPU ms"], made


def _cell(value: float | None, first: float | None, switched: Sequence[str]) -> str:
    if value is None:
        return "–"
    if first is None or not switched:
        return f"{value:.2f}"
    return f"{value:.2f} ({value - first:+.2f})"


def _cpu(values: Mapping[str, Any]) -> float | None:
    parts = values["costs"]["cpu_ms"]
    return sum(v for name, v in parts.items() if name != "yardstick") if parts else None
