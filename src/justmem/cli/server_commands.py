"""serve, mcp, keys."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Annotated, Any

import typer

from justmem.cli import render
from justmem.cli.context import Json, now, run_of
from justmem.cli.terminal import say, show, show_download, show_list
from justmem.config import Settings
from justmem.errors import InvalidSetting
from justmem.runtime.process import need


def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Default: 8765.", min=0, max=65535)] = None,
    no_keys: Annotated[
        bool,
        typer.Option("--no-keys", help="Ask for no key. Only on a loopback address."),
    ] = False,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The chat server that /v1/chat/completions and /v1/responses forward to.",
        ),
    ] = None,
    anthropic_upstream: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The chat server that /v1/messages forwards to."),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(metavar="PATH", help="The path of this server behind a reverse proxy."),
    ] = "",
) -> None:
    """Serve memory over HTTP and MCP, with a chat proxy and the inspector pages.

    First make a key: justmem keys add NAME --opens SPACE.
    """
    need("server")
    from justmem.runtime.addresses import checked_url, is_loopback
    from justmem.server.access_keys import Keys
    from justmem.server.run import run
    from justmem.server.state import Server

    settings = _settings(
        context, host=host, port=port, upstream=upstream, anthropic_upstream=anthropic_upstream
    )
    serving = settings.server
    if no_keys and not is_loopback(serving.host):
        raise InvalidSetting(
            f"--no-keys works only on a loopback address, not on {serving.host}. Leave --host out, "
            "or make keys with `justmem keys add`."
        )
    for url in (serving.upstream, serving.anthropic_upstream):
        if url is not None:
            checked_url(url)
    keys = None if no_keys else Keys(settings.folder)
    if keys is not None and not keys.all():
        say("Every request is refused until there is a key: `justmem keys add`.", "yellow")
    _log(logging.INFO)
    server = Server(settings, clock=now, keys=keys, report=show_download())
    try:
        run(server, root_path=root_path)
    except OSError as error:
        raise InvalidSetting(
            f"The server cannot listen on {serving.host}:{serving.port} ({error.strerror}): "
            "choose another --host or --port."
        ) from None


def mcp(context: typer.Context) -> None:
    """Serve one space to an agent over stdio (Model Context Protocol)."""
    need("mcp")
    from justmem.server.mcp import serve_stdio
    from justmem.server.state import Server

    settings = run_of(context).settings()
    _log(logging.WARNING)

    async def served() -> None:
        server = Server(settings, clock=now, keys=None, report=show_download())
        await serve_stdio(server, settings.space)

    asyncio.run(served())


def _settings(context: typer.Context, **overrides: Any) -> Settings:
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = run_of(context).settings()
    return settings.model_copy(update={"server": settings.server.model_copy(update=given)})


def _log(level: int) -> None:
    """To standard error. The log holds no remembered text."""
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "mcp", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


# ---------------------------------------------------------------- keys

keys = typer.Typer(
    help="Add, list and revoke the server's keys.", no_args_is_help=True, rich_markup_mode=None
)


@keys.command("add")
def keys_add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A name for the key, shown in lists.")],
    opens: Annotated[
        list[str],
        typer.Option(help="A space; * stands for any characters. May be repeated."),
    ],
    right: Annotated[
        str, typer.Option(help="read; write (also reads); admin (also erases spaces).")
    ] = "write",
    json: Json = False,
) -> None:
    """Make a key. It is shown once and stored only as a hash."""
    from justmem.server.access_keys import RIGHTS, Keys

    chosen = next((each for each in RIGHTS if each == right), None)
    if chosen is None:
        raise typer.BadParameter(f"{right!r} is not one of {', '.join(RIGHTS)}.")
    token = Keys(_folder(context)).add(name, chosen, tuple(opens), now())
    made = {"key": token, "name": name, "right": right, "spaces": opens}
    show(made, json, lambda _: token)
    if not json:
        say("The key is shown only this once.", "dim")


@keys.command("list")
def keys_list(context: typer.Context, json: Json = False) -> None:
    """List the keys, without their secrets."""
    from justmem.server.access_keys import Keys

    show_list(Keys(_folder(context)).all(), json, render.keys, "key")


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
