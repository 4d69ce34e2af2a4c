"""demo: remember a year of one person and ask about it, without a key."""

from __future__ import annotations

import asyncio
import json as _json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from justmem.cli import render
from justmem.cli.ask_commands import short
from justmem.cli.context import Json, Run, run_of
from justmem.cli.terminal import amount, out, print_json, say, show_download
from justmem.config import KEY_SOURCES, Settings
from justmem.config.opening import open_memory
from justmem.domain import Answer, Remembered

SPACE = "demo"


def demo(
    context: typer.Context,
    keep: Annotated[
        bool, typer.Option("--keep", help=f"Keep the history as the space {SPACE!r}.")
    ] = False,
    json: Json = False,
) -> None:
    """Remember a small history and ask it three questions.

    Rules and local models do the work, so no key is needed. The first run downloads the weights of
    two small models.
    """
    run = run_of(context)
    if keep:
        _demo(run, run.settings().folder, keep, json)
        return
    with tempfile.TemporaryDirectory(prefix="justmem-demo-") as folder:
        _demo(run, Path(folder), keep, json)


def _demo(run: Run, folder: Path, keep: bool, json: bool) -> None:
    model = run.overrides.get("model") or "rules"
    # Other settings are ignored, so that the demo looks the same everywhere and needs no key.
    own = dict.fromkeys(("model", "extractor", "planner", "answerer"), model)
    own |= {name: Settings.model_fields[name].default for name in ("embedder", "reranker")}
    settings = run.settings(folder=folder, space=SPACE, profile="default", **own)
    if not keep:  # the temporary space needs no encryption
        settings = settings.model_copy(update=dict.fromkeys(KEY_SOURCES))
    history = _json.loads(files("justmem.demo").joinpath("history.json").read_text("utf-8"))
    answers = asyncio.run(_asked(settings, history, None if json else out()))
    if json:
        print_json([short(answer) for answer in answers])
        return
    if keep:
        say(f'Kept. Go on asking: justmem --space {SPACE} ask "Who is Senhor Rocha?"')
    else:
        say("To go on asking, run: justmem demo --keep")


async def _asked(
    settings: Settings, history: dict[str, Any], console: Console | None
) -> list[Answer]:
    answers = []
    async with await open_memory(settings, report=show_download()) as memory:
        done = await memory.remember_many(history["sessions"])
        if console:
            console.print(_opening(done, history, settings.model))
        for asked in history["questions"]:
            answers.append(await memory.ask(asked["question"], at=asked["at"]))
            if console:
                title = f"“{asked['question']}”"
                console.print(render.heading(title), render.answer(answers[-1]))
                console.print()
    return answers


def _opening(done: list[Remembered], history: dict[str, Any], model: str) -> Text:
    turns = sum(len(session["turns"]) for session in history["sessions"])
    cards = sum(len(each.cards) for each in done)
    return Text.assemble(
        "Remembered ",
        (f"{amount(len(done), 'session')}, {amount(turns, 'turn')}", "bold"),
        " of a year with Lena: ",
        (amount(cards, "card"), "bold"),
        ", by rules and local models, no key.\n" if model == "rules" else f", by {model}.\n",
    )
