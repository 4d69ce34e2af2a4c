"""serve, mcp, keys, hook, work: programs that other programs talk to."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from justmem.cli import render
from justmem.cli.context import postgres_storage, settings, settings_of
from justmem.cli.options import GROUP, argument, flag, now, option
from justmem.cli.terminal import amount, say, show, show_download, show_list
from justmem.config.opening import build_parts, open_memory
from justmem.errors import InvalidSetting, JustMemError
from justmem.runtime import private_files
from justmem.runtime.addresses import is_loopback
from justmem.runtime.process import need
from justmem.runtime.validation import as_choice
from justmem.server.access_keys import RIGHTS, Keys

if TYPE_CHECKING:
    from justmem.integrations import hooks
    from justmem.integrations.safe import SafeMemory
    from justmem.memory_parts import Parts
    from justmem.store.postgres import Job, PostgresStorage

_AT_A_TIME = 4  # sessions of a worker
_MOST_OF_ONE = 3  # sessions of one space, so that others get their turn


def serve(
    host: str | None = option("The address to listen on. Default: 127.0.0.1."),
    port: int | None = option("Default: 8765.", min=0, max=65535),
    no_keys: bool = flag("Ask for no key. Only on a loopback address.", "--no-keys"),
    upstream: str | None = option(
        "The chat server that /v1/chat/completions and /v1/responses forward to.", metavar="URL"
    ),
    anthropic_upstream: str | None = option(
        "The chat server that /v1/messages forwards to.", metavar="URL"
    ),
) -> None:
    """Serve memory over HTTP and MCP, with a chat proxy and the inspector pages.

    First make a key: justmem keys add NAME --opens SPACE.
    """
    need("server")
    from justmem.server.run import run
    from justmem.server.state import Server

    given = {"host": host, "port": port, "upstream": upstream}
    given |= {"anthropic_upstream": anthropic_upstream}
    found = settings()
    serving = found.server.model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    found = found.model_copy(update={"server": serving})
    if no_keys and not is_loopback(serving.host):
        raise InvalidSetting(
            f"--no-keys works only on a loopback address, not on {serving.host}. Leave --host out, "
            "or make keys with `justmem keys add`."
        )
    keys = None if no_keys else Keys(found.folder)
    if keys is not None and not keys.all():
        say("Every request is refused until there is a key: `justmem keys add`.", "yellow")
    _log(logging.INFO)
    server = Server(found, clock=now, keys=keys, report=show_download)
    try:
        run(server)
    except OSError as error:
        raise InvalidSetting(
            f"The server cannot listen on {serving.host}:{serving.port} ({error.strerror}): "
            "choose another --host or --port."
        ) from None


def mcp() -> None:
    """Serve one space to an agent over stdio (Model Context Protocol)."""
    need("mcp")
    from justmem.server.mcp import serve_stdio
    from justmem.server.state import Server

    found = settings()
    _log(logging.WARNING)

    async def served() -> None:
        server = Server(found, clock=now, keys=None, report=show_download)
        await serve_stdio(server, found.space)

    asyncio.run(served())


def _log(level: int) -> None:
    """To standard error. The log holds no remembered text."""
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "mcp", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


# ---------------------------------------------------------------- keys

keys = typer.Typer(help="Add, list and revoke the server's keys.", **GROUP)


@keys.command("add")
def keys_add(
    name: str = argument("A name for the key, shown in lists."),
    opens: list[str] = option("A space; * stands for any characters. May be repeated.", ...),
    right: str = option("read; write (also reads); admin (also erases spaces).", "write"),
) -> None:
    """Make a key. It is shown once and stored only as a hash."""
    chosen = as_choice(right, "right", RIGHTS)
    token = Keys(settings().folder).add(name, chosen, tuple(opens), now())
    made = {"key": token, "name": name, "right": right, "spaces": opens}
    show(made, lambda _: token)
    say("The key is shown only this once.")


@keys.command("list")
def keys_list() -> None:
    """List the keys, without their secrets."""
    show_list(Keys(settings().folder).all(), render.keys, "key")


@keys.command("revoke")
def keys_revoke(id: str = argument("As `keys list` shows it.")) -> None:
    """Revoke a key. A running server refuses it from the next request on."""
    Keys(settings().folder).revoke(id)
    say(f"The key {id} is revoked.")


# ---------------------------------------------------------------- hooks

hook = typer.Typer(
    help="Give a coding assistant memory: recall before a prompt, remember after a reply.",
    **GROUP,
)
_WAIT = "The assistant waits no longer than this."


@hook.command("recall")
def hook_recall(
    seconds: float = option(_WAIT, 10.0, min=0.1),
    tokens: int = option("The most that memory adds.", 1500, min=100),
) -> None:
    """Read a hook's event from standard input and print what memory holds on its prompt.

    It never stops the assistant: if memory fails, it prints the reason to standard error, nothing
    to standard output, and exits with 0.
    """

    async def work(event: hooks.Event, memory: SafeMemory) -> None:
        answer = event.answer(await memory.prompt(event.prompt))
        if answer:
            typer.echo(answer)

    _run_hook("recall", seconds, tokens, work)


@hook.command("remember")
def hook_remember(seconds: float = option(_WAIT, 60.0, min=0.1)) -> None:
    """Read a hook's event from standard input and remember what is new in its conversation.

    It never stops the assistant: if memory fails, it prints the reason to standard error and exits
    with 0.
    """

    async def work(event: hooks.Event, memory: SafeMemory) -> None:
        await memory.append(event.session, event.turns())

    _run_hook("remember", seconds, 1500, work)


def _run_hook(
    name: str,
    seconds: float,
    tokens: int,
    work: Callable[[hooks.Event, SafeMemory], Awaitable[None]],
) -> None:
    """Reports every error without raising it, so that the assistant goes on."""
    from justmem.integrations import hooks
    from justmem.integrations.safe import SafeMemory, too_slow

    async def run(event: hooks.Event) -> None:
        own = settings_of(f"hook:{event.client}")
        async with asyncio.timeout(seconds), await open_memory(own) as memory:
            safe = SafeMemory(memory, tokens=tokens, seconds=seconds)
            await work(event, safe)
            if safe.error is not None:
                raise safe.error

    client, error = "unknown", ""
    try:
        event = hooks.Event.read(sys.stdin.read())
        client = event.client
        asyncio.run(run(event))
    except TimeoutError:
        error = str(too_slow(seconds))
    except ValueError as raised:
        error = f"the event is not valid: {raised}"
    except Exception as raised:  # noqa: BLE001
        error = f"{type(raised).__name__}: {raised}"
    if error:
        say(f"justmem hook {name}: {error}", "yellow")
    try:
        folder = settings().folder
        private_files.folder(folder)
        hooks.record_run(folder, name, client, f"{now():%Y-%m-%d %H:%M}", error)
    except Exception as raised:  # noqa: BLE001
        say(f"justmem hook {name}: {raised}", "yellow")


# ---------------------------------------------------------------- workers


def work(
    once: bool = flag("Stop when no session waits.", "--once"),
    pause: float = option("Seconds between checks.", 1.0, min=0.05),
) -> None:
    """Make the cards of waiting sessions in all spaces of a PostgreSQL store.

    Several workers may run. Each session is leased by one of them; if that worker dies, another
    takes the session over.
    """
    place = postgres_storage()
    parts = build_parts(settings_of("worker"), report=show_download)
    done = asyncio.run(_work(place, parts, once=once, pause=pause))
    say(f"{amount(done, 'session')} done.")


async def _work(place: PostgresStorage, parts: Parts, *, once: bool, pause: float) -> int:
    at_work: Counter[str] = Counter()  # sessions by space
    taking = asyncio.Lock()  # one worker at a time looks for a session

    async def take() -> Job | None:
        async with taking:
            while True:
                full = [space for space, count in at_work.items() if count >= _MOST_OF_ONE]
                job = await place.take(busy=[*+at_work], full=full)
                if job or once:
                    at_work.update([job.space] if job else [])
                    return job
                await asyncio.sleep(pause)

    async def worker() -> int:
        done = 0
        while job := await take():
            done += await _made(place, parts, job)
            at_work[job.space] -= 1
        return done

    workers = [asyncio.create_task(worker()) for _ in range(_AT_A_TIME)]
    try:
        return sum(await asyncio.gather(*workers))
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await place.close()


async def _made(place: PostgresStorage, parts: Parts, job: Job) -> bool:
    """Whether it was done. An error in one session does not stop the others."""
    from justmem.memory import AsyncMemory

    try:
        store = await place.open(job.space, create=False)
        result = await AsyncMemory(store, parts).finish(job.session)
    except Exception as error:  # noqa: BLE001
        reason = error if isinstance(error, JustMemError) else type(error).__name__
        say(f"{job.session}: {reason}", "red")
        return False
    say(f"{result.session_id}: {result.state}, {amount(len(result.cards), 'card')}")
    return True
