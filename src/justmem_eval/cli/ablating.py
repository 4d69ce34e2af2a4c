"""ablate: what each part of the ranking is worth, by leaving it out."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from justmem_eval.cli.keyless import measure
from justmem_eval.cli.shared import Cache, Data, Json, Limit, out

# Each row is the default with one thing changed.
LEFT_OUT: dict[str, list[str]] = {
    "the default": [],
    "no reranker": ["reranker=none"],
    "no lexical signal": ["weight.lexical=0"],
    "no turn signal": ["weight.turn=0"],
    "turns not searched": ["turns=false", "quotes=false"],
    "no subject signal": ["weight.subject=0"],
    "no period signal": ["weight.period=0"],
    "no kind signal": ["weight.kind=0"],
    "no quotes": ["quotes=false"],
    "no merging": ["merge=false"],
    "the speaker unnamed": ["speaker=false"],
    "the paper's selection": ["profile=paper"],
}


def ablate(
    data: Data,
    only: Annotated[list[str] | None, typer.Option(help="Only these rows, by name.")] = None,
    limit: Limit = None,
    json_file: Json = None,
    cache_folder: Cache = None,
) -> None:
    """Recorded cards and plans on LoCoMo and LoCoMo-Plus, one part left out at a time."""
    table = Table("", "LoCoMo turn", "session", "spanning", "LoCoMo-Plus cue", "pairs")
    rows: dict[str, dict[str, float | None]] = {}
    for name, settings in LEFT_OUT.items():
        if only and name not in only:
            continue
        locomo, plus = (
            measure(data, bench, "recorded", "recorded", settings, limit, 0, None, cache_folder)[0]
            for bench in ("locomo", "locomo_plus")
        )
        rows[name] = {
            "turn": locomo.turn.slot.fraction.value,
            "session": locomo.session.slot.fraction.value,
            "spanning": locomo.spanning_turn.fraction.value,
            "cue": plus.session.slot.any.value,
            "pairs": locomo.costs.pairs.value,
        }
        table.add_row(name, *("-" if v is None else f"{v:.1f}" for v in rows[name].values()))
    out().print(table)
    if json_file:
        import json

        json_file.write_text(json.dumps(rows, indent=1) + "\n")
