"""gate: check that retrieval still finds what it must find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from justmem_eval import gate as gates
from justmem_eval.cli.keyless import measure
from justmem_eval.cli.shared import Cache, Data, Switch


def gate(
    data: Data,
    slices: Annotated[Path, typer.Option(help="The gate file: slices and what they must find.")],
    switch: Switch = None,
    cache_folder: Cache = None,
) -> None:
    """Fails if retrieval no longer finds what the gate file lists."""
    failed = 0
    for slice in gates.read(slices):
        summary, rows = measure(
            data,
            slice.benchmark,
            slice.cards,
            slice.plans,
            [*slice.set, *(switch or ())],
            histories=slice.histories,
            cache_folder=cache_folder,
        )
        for each in gates.check(slice, summary, rows):
            failed += not each.ok
            typer.echo(("ok    " if each.ok else "FAIL  ") + each.text)
    if failed:
        typer.echo(f"{failed} checks failed.")
        raise typer.Exit(1)
