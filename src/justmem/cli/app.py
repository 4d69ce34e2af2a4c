"""The `justmem` command: global options, the list of commands, and errors as exit codes.

A command's module is imported when the command runs, so `justmem --help` starts fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from justmem.cli.context import EXIT_CODES, OPTIONS, Exit, exit_code
from justmem.cli.terminal import plain, say
from justmem.errors import JustMemError

_VALUED = ("--space", "--folder", "--model", "--config")
_FLAGS = ("--debug",)
# click.ClickException: typer has click inside or beside it, depending on its version.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


class Listed(NamedTuple):
    """A command: where its function (or its group of commands) is, and one line for the help."""

    module: str
    attribute: str
    summary: str


COMMANDS: dict[str, dict[str, Listed]] = {
    "Everyday": {
        "demo": Listed("ask_commands", "demo", "Remember a small history and ask it questions."),
        "add": Listed("remember_commands", "add", "Remember a text."),
        "remember": Listed("remember_commands", "remember", "Remember the conversations in files."),
        "append": Listed("remember_commands", "append", "Add turns to a session."),
        "note": Listed("remember_commands", "note", "Store a text as it is, under a key."),
        "notes": Listed("remember_commands", "notes", "List the notes."),
        "note-at": Listed("remember_commands", "note_at", "Show the note with a key."),
        "ask": Listed("ask_commands", "ask", "Answer a question from memory, with citations."),
        "recall": Listed("ask_commands", "recall", "Show the evidence for a question."),
        "cards": Listed("browse_commands", "cards", "List cards, the atomic memories."),
        "about": Listed("browse_commands", "about", "Show all that memory holds on a subject."),
        "history": Listed("browse_commands", "history", "Show what was true when."),
        "profile": Listed("browse_commands", "profile", "Show short lines about a person."),
        "show": Listed("browse_commands", "show", "Show a card in its source, or a session."),
        "sessions": Listed("browse_commands", "sessions", "List the remembered sessions."),
        "spaces": Listed("browse_commands", "spaces", "List the spaces."),
        "stats": Listed("browse_commands", "stats", "Count what a space holds and has cost."),
        "correct": Listed("change_commands", "correct", "Replace a wrong card."),
        "pin": Listed("change_commands", "pin", "Keep a card in every recall of its subject."),
        "unpin": Listed("change_commands", "unpin", "Take the pin off a card."),
        "undo": Listed("change_commands", "undo", "Take back a correction, pin or unpin."),
        "forget": Listed("change_commands", "forget", "Forget something for good."),
    },
    "Maintenance": {
        "doctor": Listed("doctor_command", "doctor", "Check the settings and the space."),
        "retry": Listed("remember_commands", "retry", "Try the pending and failed sessions again."),
        "rebuild": Listed("remember_commands", "rebuild", "Make cards again from the words."),
        "expire": Listed("change_commands", "expire", "Forget what [retention] does not allow."),
        "export": Listed("store_commands", "export", "Write a space to a file."),
        "import": Listed("store_commands", "import_", "Read an export into a space."),
        "copy": Listed("store_commands", "copy", "Copy spaces between stores."),
        "backup": Listed("store_commands", "backup", "Back up a space while it is in use."),
        "reembed": Listed("store_commands", "reembed", "Make all vectors again."),
        "rekey": Listed("store_commands", "rekey", "Give an encrypted space another key."),
        "log": Listed("browse_commands", "log", "Show who changed what, or check the log."),
        "models": Listed("doctor_command", "models", "List local models, download weights."),
    },
    "Server": {
        "serve": Listed("server_commands", "serve", "Serve memory over HTTP and MCP."),
        "mcp": Listed("server_commands", "mcp", "Serve one space to an agent over stdio (MCP)."),
        "hook": Listed("server_commands", "hook", "Give a coding assistant memory by its hooks."),
        "keys": Listed("server_commands", "keys", "Add, list and revoke the server's keys."),
        "work": Listed("server_commands", "work", "Make the cards of waiting sessions."),
        "sweep": Listed("store_commands", "sweep", "Remove forgotten bytes from PostgreSQL."),
    },
}
_LISTED = {name: listed for group in COMMANDS.values() for name, listed in group.items()}


class Commands(TyperGroup):
    """Global options may stand anywhere. An error is one line and an exit code."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        names: Any = dict.fromkeys(_LISTED)  # `get_command` imports the command
        self.commands = names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name, _LISTED[cmd_name]) if cmd_name in _LISTED else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, each.summary) for name, each in group.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _hoisted(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, _USAGE_ERROR):  # typer handles its own
            raise
        except KeyboardInterrupt:
            say("Interrupted. Finished sessions are kept. `justmem retry` continues with the rest.")
            raise typer.Exit(Exit.INTERRUPTED) from None
        except Exception as error:  # noqa: BLE001  any error is one line
            if ctx.params.get("debug"):
                import traceback

                traceback.print_exc()
            say(f"Error: {plain(_sentence(error), one_line=True)}", "red")
            raise typer.Exit(exit_code(error)) from None


def _command(name: str, listed: Listed) -> Any:
    """Imports the module of a command."""
    found = getattr(import_module(f"justmem.cli.{listed.module}"), listed.attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, context_settings=_HELP)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    _name_values(command)
    return command


def _name_values(command: Any) -> None:
    """The help shows `--at AT` instead of the type, `--at <str>`."""
    for each in getattr(command, "commands", {}).values():
        _name_values(each)
    for option in command.params:
        if option.metavar is None and option.opts[0].startswith("-") and not option.is_flag:
            option.metavar = option.name.upper()


def _sentence(error: Exception) -> str:
    if isinstance(error, JustMemError):
        return str(error)
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror or error}."
    return (
        f"{type(error).__name__}: {error}. This should not happen: run the command again with "
        "--debug and report the traceback."
    )


def _hoisted(args: list[str]) -> list[str]:
    """`justmem ask "..." --space ana` means `justmem --space ana ask "..."`."""
    front: list[str] = []
    rest: list[str] = []
    left = iter(args)
    for arg in left:
        if arg == "--":
            rest += [arg, *left]
        elif arg in _VALUED:
            front += [arg, *([value] if (value := next(left, None)) is not None else [])]
        elif arg in _FLAGS or arg.startswith(tuple(f"{name}=" for name in _VALUED)):
            front.append(arg)
        else:
            rest.append(arg)
    return front + rest


_HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="justmem",
    cls=Commands,
    help="Just enough long-term memory: cited answers, and a receipt for each.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"justmem {version('justmem')}")
        raise typer.Exit


@app.callback(epilog=f"Exit codes: {EXIT_CODES}.")
def options(
    space: Annotated[
        str | None, typer.Option(metavar="NAME", help="The space. Default: default.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder that holds the spaces.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="rules, openai:NAME, openai:NAME@URL, ..."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A justmem.toml.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    OPTIONS.set({"path": config, "space": space, "folder": folder, "model": model})


@app.command("help", hidden=True)
def _placeholder() -> None:
    """Typer makes a group only if it has a command. `Commands` hides it."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
