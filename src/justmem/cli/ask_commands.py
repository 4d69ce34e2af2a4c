"""ask, recall, demo."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

from justmem.cli import render
from justmem.cli.context import Exit, settings, with_memory
from justmem.cli.options import LABELS, a_time, argument, flag, labels_of, now, option
from justmem.cli.terminal import JSON, amount, line, plain, say, show, show_download, show_parts
from justmem.config import KEY_SOURCES, Settings
from justmem.config.opening import open_memory
from justmem.domain import Answer, Evidence, SpacesEvidence


def _parsed_plan(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"This is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise typer.BadParameter('Write an object such as {"period": "2025-03"}.')
    return found


_QUESTION = argument("A question, or a message to reply to.")
_AT = a_time("When it is asked: 2024-05-20T14:30. Default: now.")
_SPEAKER = option('Who asks: "my" refers to them. Default: the person most cards are about.')
_PLAN = option(
    'Parts of a plan, as JSON: {"rewrites": ["..."], "period": "2025-03"}. No model plans then.',
    parser=_parsed_plan,
)


def ask(
    question: str = _QUESTION,
    at: datetime | None = _AT,
    speaker: str | None = _SPEAKER,
    plan: dict[str, Any] | None = _PLAN,
) -> None:
    """Answer a question from memory, with citations and a receipt.

    Exits with 1 if memory does not hold the answer.
    """
    asked: dict[str, Any] = {"at": at or now(), "speaker": speaker, "plan": plan}
    answer = with_memory(lambda memory: memory.ask(question, **asked))
    show(_short(answer), render.answer)
    if not answer.sufficient:
        raise typer.Exit(Exit.NOT_IN_MEMORY)


def recall(
    question: str = _QUESTION,
    at: datetime | None = _AT,
    speaker: str | None = _SPEAKER,
    plan: dict[str, Any] | None = _PLAN,
    limit: int | None = option("At most this many cards.", min=1),
    label: list[str] | None = LABELS,
    session: list[str] | None = option("Only this session. May be repeated."),
    since: str | None = option("Only what was said from this day on."),
    until: str | None = option("Only what was said up to this day."),
    as_of: str | None = option("Memory as it was on this day."),
    also: list[str] | None = option("Another space to recall from. May be repeated."),
    prompt: int | None = option(
        "Print a block for a model's prompt, of at most this many tokens.", min=1
    ),
) -> None:
    """Show the evidence for a question, without an answer.

    Exits with 1 if there is none.
    """
    asked: dict[str, Any] = {"at": at or now(), "speaker": speaker, "plan": plan}
    filters: dict[str, Any] = {"limit": limit, "labels": labels_of(label), "as_of": as_of}
    filters |= {"sessions": session or None, "since": since, "until": until}
    if also and any(filters.values()):
        raise typer.BadParameter("--also cannot be combined with filters.", param_hint="--also")
    evidence: Evidence | SpacesEvidence
    if also:
        evidence = asyncio.run(_recall_spaces(settings(), question, also, asked))
    else:
        found = with_memory(lambda memory: memory.recall(question, **asked, **filters))
        evidence = _without_candidates(found)
    if prompt is not None:
        typer.echo(plain(evidence.prompt(prompt)))
    else:
        show(evidence, render.spaces_evidence if also else render.evidence)
    if not evidence.cards and not (isinstance(evidence, Evidence) and evidence.sources):
        raise typer.Exit(Exit.NOT_IN_MEMORY)


async def _recall_spaces(
    settings: Settings, question: str, also: list[str], asked: dict[str, Any]
) -> SpacesEvidence:
    from justmem.spaces import Spaces

    async with Spaces(settings) as spaces:
        return await spaces.recall(question, [settings.space, *also], **asked)


def _short(answer: Answer) -> Answer:
    return answer.model_copy(update={"evidence": _without_candidates(answer.evidence)})


def _without_candidates(evidence: Evidence) -> Evidence:
    """Discovery finds hundreds; the output has the chosen ones."""
    return evidence.model_copy(update={"candidates": ()})


# ---------------------------------------------------------------- demo


def demo(
    keep: bool = flag("Keep the history as the space 'demo'.", "--keep"),
) -> None:
    """Remember a small history and ask it three questions.

    Rules and local models do the work, so no key is needed. The first run downloads the weights of
    two small models.
    """
    # Other settings are ignored, so that the demo looks the same everywhere and needs no key.
    own = {name: Settings.model_fields[name].default for name in ("model", "embedder", "reranker")}
    own |= dict.fromkeys(("extractor", "planner", "answerer"), "rules")
    found = settings(space="demo", profile="default", **own)
    with tempfile.TemporaryDirectory(prefix="justmem-demo-") as folder:
        if not keep:  # the temporary space needs no encryption
            unkept = {"folder": Path(folder), "store": None, **dict.fromkeys(KEY_SOURCES)}
            found = found.model_copy(update=unkept)
        answers = asyncio.run(_demo(found))
    if JSON.get():
        show([_short(answer) for answer in answers])
    else:
        command = "justmem" if shutil.which("justmem") else sys.argv[0]  # as in .venv/bin
        asking = f'{command} --space demo ask "Who is Senhor Rocha?"'
        say(f"Kept. Go on: {asking}" if keep else f"To go on asking, run: {command} demo --keep")


async def _demo(settings: Settings) -> list[Answer]:
    history = json.loads(files("justmem.demo").joinpath("history.json").read_text("utf-8"))
    answers = []
    async with await open_memory(settings, report=show_download) as memory:
        done = await memory.remember_many(history["sessions"])
        turns = sum(len(session["turns"]) for session in history["sessions"])
        cards = sum(len(each.cards) for each in done)
        said = (f"{amount(len(done), 'session')}, {amount(turns, 'turn')}", "bold")
        made = (amount(cards, "card"), "bold")
        end = ", by rules and local models, no key."
        _show_now(line("Remembered ", said, " of a year with Lena: ", made, end), "")
        for asked in history["questions"]:
            answers.append(await memory.ask(asked["question"], at=asked["at"]))
            title = render.heading(f"“{asked['question']}”")
            _show_now(title, *render.answer(answers[-1]), "")
    return answers


def _show_now(*parts: Any) -> None:
    """Each answer is shown when it is there. JSON is one value and comes at the end."""
    if not JSON.get():
        show_parts(list(parts))
