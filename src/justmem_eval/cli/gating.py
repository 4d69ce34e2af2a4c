"""gate: the committed figures on a small slice, held."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from justmem_eval import gate as gates
from justmem_eval.cli.keyless import measure
from justmem_eval.cli.shared import Cache, Data, Switch


def gate(
    data: Data,
    floors: Annotated[Path, typer.Option(help="The committed figures.")],
    switch: Switch = None,
    write: Annotated[bool, typer.Option("--write", help="Commit the figures of now.")] = False,
    cache_folder: Cache = None,
) -> None:
    """Fails if a figure has fallen below the committed one, and says by how much."""

    def one(floor: gates.Floor) -> Mapping[str, Any]:
        settings = [*floor.set, *(switch or ())]
        summary, _ = measure(
            data,
            floor.benchmark,
            floor.cards,
            floor.plans,
            settings,
            None,
            0,
            None,
            cache_folder,
        )
        return summary.model_dump(mode="json")

    known = gates.read(floors)
    if write:
        floors.write_text(gates.written(known, one), "utf-8")
        typer.echo(f"{floors}: written")
        return
    found = gates.check(known, one)
    for each in found:
        typer.echo(str(each), err=not each.ok)
    if any(each.by > gates.SLACK for each in found):
        typer.echo("Some figures are better than committed: raise them with --write.")
    if not all(each.ok for each in found):
        raise typer.Exit(1)
