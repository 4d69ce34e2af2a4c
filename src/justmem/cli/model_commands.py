"""models list, models pull: local models and their weights."""

from __future__ import annotations

from typing import Annotated

import typer

from justmem.cli import render
from justmem.cli.context import Json, run_of
from justmem.cli.terminal import show, show_download
from justmem.config import Settings
from justmem.errors import WeightsUnavailable
from justmem.models import weights

models = typer.Typer(
    help="List local models, download their weights.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@models.command("list")
def listed(context: typer.Context, json: Json = False) -> None:
    """List the local models and whether their weights are downloaded."""
    settings = run_of(context).settings()
    rows = [
        {
            "name": model.name,
            "use": model.use,
            "licence": model.licence,
            "copy_of": model.copy_of,
            "megabytes": round(model.source[0].bytes / 1e6, 1),
            "downloaded": present(model.name, settings),
        }
        for model in weights.manifest().values()
    ]
    show(rows, json, render.models)


@models.command()
def pull(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Default: the models in the settings.")
    ] = None,
    json: Json = False,
) -> None:
    """Download weights and check their hashes."""
    settings = run_of(context).settings()
    home, mirror = settings.models_folder, settings.models_mirror
    folders = {
        name: str(weights.ensure(name, folder=home, mirror=mirror, report=show_download()))
        for name in names or configured(settings)
    }
    lines = [f"{name} is in {folder}" for name, folder in folders.items()]
    show(folders, json, lambda _: "\n".join(lines))


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
