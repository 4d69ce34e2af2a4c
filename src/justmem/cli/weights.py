"""models list, models pull: the weights of local models."""

from __future__ import annotations

from typing import Annotated

import typer

from justmem.cli import drawing
from justmem.cli.asking import Json
from justmem.cli.run import run_of
from justmem.cli.terminal import fetching, out, print_json
from justmem.config import Settings
from justmem.errors import WeightsUnavailable
from justmem.models import weights

app = typer.Typer(help="Local models: list them, fetch their weights.", no_args_is_help=True)


@app.command("list")
def listed(context: typer.Context, json: Json = False) -> None:
    """List the local models and whether their weights are here."""
    settings = run_of(context).settings()
    rows = [
        {
            "name": model.name,
            "use": model.use,
            "licence": model.licence,
            "copy_of": model.copy_of,
            "megabytes": round(model.source[0].bytes / 1e6, 1),
            "here": present(model.name, settings),
        }
        for model in weights.manifest().values()
    ]
    if json:
        print_json(rows)
        return
    shown = [
        {
            "name": str(row["name"]),
            "use": str(row["use"]),
            "licence": str(row["licence"]),
            "weights": "here" if row["here"] else f"{row['megabytes']:.0f} MB to fetch",
        }
        for row in rows
    ]
    out().print(drawing.table(shown, name="cyan"))


@app.command()
def pull(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Default: the two that are set.")
    ] = None,
    json: Json = False,
) -> None:
    """Fetch weights, check their hashes and keep them."""
    settings = run_of(context).settings()
    home, mirror = settings.models_folder, settings.models_mirror
    folders = {
        name: str(weights.ensure(name, folder=home, mirror=mirror, report=fetching()))
        for name in names or configured(settings)
    }
    if json:
        print_json(folders)
        return
    for name, folder in folders.items():
        out().print(f"{name} is in {folder}", soft_wrap=True)


def configured(settings: Settings) -> list[str]:
    """The local models that the settings name."""
    named = (settings.embedder, settings.reranker)
    return [spec[5:] for spec in named if isinstance(spec, str) and spec.startswith("onnx:")]


def present(name: str, settings: Settings) -> bool:
    try:
        weights.ensure(name, folder=settings.models_folder, offline=True)
    except WeightsUnavailable:
        return False
    return True
