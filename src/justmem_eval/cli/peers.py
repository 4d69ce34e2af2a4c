"""peer-check: try an adapter before a long run."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from justmem_eval import peer_check
from justmem_eval.meter import metering
from justmem_eval.peer_check import Checked
from justmem_eval.runs import peer_settings, upstream
from justmem_eval.systems.peer import NAMES

_NO_SERVER = "http://127.0.0.1:9/v1"  # nothing listens there: a peer without a model needs none


def check(
    adapter: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}, or the path of an adapter.")],
    python: Annotated[str, typer.Option(help="Python of the peer's environment.")] = sys.executable,
    model: Annotated[str, typer.Option(help="openai:NAME or openai:NAME@URL.")] = "",
    peer_embedder: Annotated[
        str, typer.Option(help="Its embedder, as its server knows it.")
    ] = "text-embedding-3-small",
    peer_dimensions: Annotated[int, typer.Option(help="The length of its vectors.")] = 1536,
    patience: Annotated[float, typer.Option(help="Seconds of silence of the peer.")] = 300.0,
) -> None:
    """Three sessions in, the process killed, a new one asked: evidence, sources, calls, tokens."""
    path = Path(adapter)
    own = path if path.suffix == ".py" else None
    name = path.stem if own else adapter
    settings = peer_settings(model or "openai:none", peer_embedder, peer_dimensions)
    folder = Path(mkdtemp(prefix="justmem-peer-check-"))

    async def work() -> Checked:
        with metering(upstream(model) or _NO_SERVER) as meter:
            return await peer_check.check(
                name, python, meter, settings, folder, adapter=own, patience=patience
            )

    found = asyncio.run(work())
    typer.echo(peer_check.shown(found))
    if not found.problems:
        shutil.rmtree(folder)
    else:
        typer.echo(f"The adapter's log: {folder / 'peer.log'}")
        raise typer.Exit(1)
