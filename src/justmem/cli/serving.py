"""serve, mcp, keys: memory for programs."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from justmem.cli.asking import Json
from justmem.cli.run import now, run_of
from justmem.cli.terminal import fetching, out, plain, print_json, say
from justmem.config import Settings
from justmem.errors import InvalidSetting
from justmem.runtime.extras import need


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="Listen here. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Default: 8765.", min=0, max=65535)] = None,
    no_keys: Annotated[
        bool,
        typer.Option("--no-keys", help="Let everyone on this machine in. Loopback only."),
    ] = False,
    upstream: Annotated[
        str | None, typer.Option(help="The chat server behind /v1/chat/completions.")
    ] = None,
    root_path: Annotated[
        str, typer.Option(help="The path under which a reverse proxy shows this server.")
    ] = "",
) -> None:
    """Serve memory over HTTP and MCP, with a chat proxy and pages to look inside.

    Make a key first: justmem keys add NAME --opens SPACE.
    """
    need("server")
    from justmem.models.connection import checked_url, is_loopback
    from justmem.server.access_keys import Keys
    from justmem.server.state import Server
    from justmem.server.uvicorn_run import run

    settings = _settings(context, host=host, port=port, upstream=upstream)
    serving = settings.server
    if no_keys and not is_loopback(serving.host):
        raise InvalidSetting(
            f"--no-keys lets everyone in, so it listens on a loopback address only, not on "
            f"{serving.host}: leave --host out, or make keys with `justmem keys add`."
        )
    if serving.upstream is not None:
        checked_url(serving.upstream)
    keys = None if no_keys else Keys(settings.folder)
    if keys is not None and not keys.all():
        say("There is no key yet, so nobody is let in: `justmem keys add` makes one.", "yellow")
    _log(logging.INFO)
    server = Server(settings, clock=now, keys=keys, report=fetching())
    try:
        run(server, root_path=root_path)
    except OSError as error:
        raise InvalidSetting(
            f"The server cannot listen on {serving.host}:{serving.port} ({error.strerror}): "
            "choose another --host or --port."
        ) from None


def mcp(context: typer.Context) -> None:
    """Serve this space to an agent over standard input and output (Model Context Protocol)."""
    need("mcp")
    from justmem.server.mcp import serve_stdio
    from justmem.server.state import Server

    settings = run_of(context).settings()
    _log(logging.WARNING)

    async def served() -> None:
        server = Server(settings, clock=now, keys=None, report=fetching())
        await serve_stdio(server, settings.space)

    asyncio.run(served())


def _settings(context: typer.Context, **overrides: Any) -> Settings:
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = run_of(context).settings()
    return settings.model_copy(update={"server": settings.server.model_copy(update=given)})


def _log(level: int) -> None:
    """To standard error, which is the one place a log belongs; nothing in it is remembered text."""
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "mcp", "openai"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


# ---------------------------------------------------------------- keys

keys = typer.Typer(help="Keys for the server: make, list, revoke.", no_args_is_help=True)


@keys.command("add")
def keys_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Whose key it is: shown in lists.")],
    opens: Annotated[
        list[str],
        typer.Option(help="A space; * stands for any characters. May be given several times."),
    ],
    right: Annotated[
        str, typer.Option(help="read, write (and read), or admin (and erase spaces).")
    ] = "write",
    json: Json = False,
) -> None:
    """Make a key. It is shown once and stored only as a hash."""
    from justmem.server.access_keys import RIGHTS, Keys

    chosen = next((each for each in RIGHTS if each == right), None)
    if chosen is None:
        raise typer.BadParameter(f"{right!r} is not one of {', '.join(RIGHTS)}.")
    token = Keys(_folder(context)).add(name, chosen, tuple(opens), now())
    if json:
        print_json({"key": token, "name": name, "right": right, "spaces": opens})
        return
    out().print(token, soft_wrap=True)
    say("This is the only time it is shown.", "dim")


@keys.command("list")
def keys_list(context: typer.Context, json: Json = False) -> None:
    """List the keys, without their secrets."""
    from justmem.server.access_keys import Keys

    found = Keys(_folder(context)).all()
    if json:
        print_json(
            [
                {
                    "id": key.id,
                    "name": key.name,
                    "right": key.right,
                    "spaces": list(key.spaces),
                    "made": key.made,
                }
                for key in found
            ]
        )
        return
    table = Table(box=box.SIMPLE)
    for title in ("id", "name", "right", "spaces", "made"):
        table.add_column(title)
    for key in found:
        spaces = ", ".join(plain(space, one_line=True) for space in key.spaces)
        table.add_row(key.id, plain(key.name, one_line=True), key.right, spaces, key.made)
    if found:
        out().print(table)
    say(f"{len(found)} keys", "dim")


@keys.command("revoke")
def keys_revoke(
    context: typer.Context, id: Annotated[str, typer.Argument(help="As `keys list` shows it.")]
) -> None:
    """Revoke a key. A running server refuses it from the next request on."""
    from justmem.server.access_keys import Keys

    Keys(_folder(context)).revoke(id)
    say(f"The key {id} is revoked.")


def _folder(context: typer.Context) -> Any:
    return run_of(context).settings().folder
