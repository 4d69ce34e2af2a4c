"""hook: memory for coding assistants that run commands at set moments."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from json import JSONDecodeError
from typing import TYPE_CHECKING, Annotated

import typer

from justmem.cli.context import now, run_of
from justmem.cli.terminal import say
from justmem.runtime import private_files

if TYPE_CHECKING:
    from justmem.integrations.hooks import Event
    from justmem.integrations.safe import SafeMemory

hook = typer.Typer(
    help="Give a coding assistant memory: recall before a prompt, remember after a reply.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Seconds = Annotated[float, typer.Option(min=0.1, help="The assistant waits no longer than this.")]


@hook.command()
def recall(
    context: typer.Context,
    seconds: Seconds = 10.0,
    tokens: Annotated[int, typer.Option(min=100, help="The most that memory adds.")] = 1500,
) -> None:
    """Read a hook's event from standard input and print what memory holds on its prompt.

    It never stops the assistant: if memory fails, it prints the reason to standard error, nothing
    to standard output, and exits with 0.
    """

    async def work(event: Event, memory: SafeMemory) -> None:
        answer = event.answer(await memory.prompt(event.prompt))
        if answer:
            typer.echo(answer)

    _run(context, "recall", seconds, tokens, work)


@hook.command()
def remember(context: typer.Context, seconds: Seconds = 60.0) -> None:
    """Read a hook's event from standard input and remember what is new in its conversation.

    It never stops the assistant: if memory fails, it prints the reason to standard error and exits
    with 0.
    """

    async def work(event: Event, memory: SafeMemory) -> None:
        await memory.append(event.session, event.turns())

    _run(context, "remember", seconds, 1500, work)


def _run(
    context: typer.Context,
    name: str,
    seconds: float,
    tokens: int,
    work: Callable[[Event, SafeMemory], Awaitable[None]],
) -> None:
    """Reports every error without raising it, so that the assistant goes on."""
    from justmem.integrations import hooks
    from justmem.integrations.safe import too_slow

    client, error = "unknown", ""
    try:
        event = hooks.Event.read(sys.stdin.read())
        client = event.client
        error = asyncio.run(_error(context, event, seconds, tokens, work))
    except JSONDecodeError as raised:
        error = f"it read JSON that is not valid: {raised}"
    except TimeoutError:
        error = str(too_slow(seconds))
    except Exception as raised:  # noqa: BLE001
        error = f"{type(raised).__name__}: {raised}"
    if error:
        say(f"justmem hook {name}: {error}", "yellow")
    try:
        folder = run_of(context).settings().folder
        private_files.folder(folder)
        hooks.note_run(folder, name, client, f"{now():%Y-%m-%d %H:%M}", error)
    except Exception as raised:  # noqa: BLE001
        say(f"justmem hook {name}: {raised}", "yellow")


async def _error(
    context: typer.Context,
    event: Event,
    seconds: float,
    tokens: int,
    work: Callable[[Event, SafeMemory], Awaitable[None]],
) -> str:
    """The error of the work, or an empty text."""
    from justmem.config.opening import open_memory
    from justmem.integrations.safe import SafeMemory

    settings = run_of(context).settings()
    actor = settings.actor or f"hook:{event.client}"
    async with asyncio.timeout(seconds):
        async with await open_memory(settings.model_copy(update={"actor": actor})) as memory:
            safe = SafeMemory(memory, tokens=tokens, seconds=seconds)
            await work(event, safe)
            return "" if safe.error is None else f"{type(safe.error).__name__}: {safe.error}"
