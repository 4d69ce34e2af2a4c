"""The `justmem` command: global options, the list of commands, and errors as exit codes.

A command's module is imported when the command runs, so `justmem --help` starts fast.
"""

from __future__ import annotations

import sys
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from justmem.cli.context import EXIT_CODES, OPTIONS, Exit, exit_code
from justmem.cli.terminal import JSON, plain, say
from justmem.errors import JustMemError

_VALUED = ("--space", "--folder", "--model", "--config")
_FLAGS = ("--json", "--debug")
# click.ClickException: typer has click inside or beside it, depending on its version.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

# name: (the module of the function with this name, a line for the help)
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Everyday": {
        "demo": ("ask_commands", "Remember a small history and ask it questions."),
        "add": ("remember_commands", "Remember a text."),
        "remember": ("remember_commands", "Remember the conversations in files."),
        "append": ("remember_commands", "Add turns to a session."),
        "note": ("remember_commands", "Store a text as it is, under a key."),
        "notes": ("browse_commands", "List the notes."),
        "ask": ("ask_commands", "Answer a question from memory, with citations."),
        "recall": ("ask_commands", "Show the evidence for a question."),
        "cards": ("browse_commands", "List cards, the atomic memories."),
        "about": ("browse_commands", "Show all that memory holds on a subject."),
        "history": ("browse_commands", "Show what was true when."),
        "profile": ("browse_commands", "Show short lines about a person."),
        "show": ("browse_commands", "Show a card in its source, a session or a note."),
        "sessions": ("browse_commands", "List the remembered sessions."),
        "spaces": ("browse_commands", "List the spaces."),
        "stats": ("browse_commands", "Show what a space holds and has cost."),
        "correct": ("change_commands", "Replace a wrong card."),
        "pin": ("change_commands", "Keep a card in every recall of its subject."),
        "unpin": ("change_commands", "Take the pin off a card."),
        "undo": ("change_commands", "Take back a correction, pin or unpin."),
        "forget": ("change_commands", "Forget something for good."),
    },
    "Maintenance": {
        "doctor": ("doctor_command", "Check the settings and show how to fix what is wrong."),
        "check": ("browse_commands", "Check a space for damage."),
        "log": ("browse_commands", "Show who changed what."),
        "retry": ("remember_commands", "Try the pending and failed sessions again."),
        "rebuild": ("remember_commands", "Make the cards again from the stored words."),
        "reembed": ("store_commands", "Make all vectors again."),
        "expire": ("change_commands", "Forget what is older than [retention] allows."),
        "backup": ("store_commands", "Back up a space while it is in use."),
        "export": ("store_commands", "Write a space to a file."),
        "import": ("store_commands", "Read an export into a space."),
        "copy": ("store_commands", "Copy spaces between stores."),
        "rekey": ("store_commands", "Give an encrypted space another key."),
        "models": ("doctor_command", "List local models, download weights."),
    },
    "Server": {
        "serve": ("server_commands", "Serve memory over HTTP and MCP."),
        "mcp": ("server_commands", "Serve one space to an agent over stdio (MCP)."),
        "hook": ("server_commands", "Give a coding assistant memory through its hooks."),
        "keys": ("server_commands", "Add, list and revoke the server's keys."),
        "work": ("server_commands", "Make the cards of waiting sessions."),
        "sweep": ("store_commands", "Remove forgotten bytes from PostgreSQL."),
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
        return _command(cmd_name) if cmd_name in _LISTED else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in group.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _hoisted(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, _USAGE_ERROR, BrokenPipeError):  # typer handles these
            raise
        except typer.Abort:  # the question of `forget` or `expire` was not answered with yes
            say("Nothing was forgotten.")
            raise typer.Exit(Exit.INTERRUPTED) from None
        except KeyboardInterrupt:
            say("Interrupted. What is stored is kept. `justmem retry` makes missing cards.")
            raise typer.Exit(Exit.INTERRUPTED) from None
        except Exception as error:  # noqa: BLE001  any error is one line
            if ctx.params.get("debug"):
                import traceback

                traceback.print_exc()
            say(f"Error: {plain(_sentence(error), one_line=True)}", "red")
            raise typer.Exit(exit_code(error)) from None


def _command(name: str) -> Any:
    """Imports the module of a command."""
    module = import_module(f"justmem.cli.{_LISTED[name][0]}")
    found = getattr(module, f"{name}_" if iskeyword(name) else name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, context_settings=_HELP, epilog=_EPILOG)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    _name_values(command)
    return command


def _name_values(command: Any) -> None:
    """The help shows `--at AT` instead of the type, `--at <str>`, and TEXT for an argument."""
    for each in getattr(command, "commands", {}).values():
        _name_values(each)
    for param in command.params:
        if param.metavar is None and not getattr(param, "is_flag", False):
            param.metavar = param.name.upper()


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
_EPILOG = "All commands: --space, --folder, --model, --config, --json, --debug. See justmem --help."
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
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    OPTIONS.set({"path": config, "space": space, "folder": folder, "model": model})
    JSON.set(json)


@app.command("help", hidden=True)
def _placeholder() -> None:
    """Typer makes a group only if it has a command. `Commands` hides it."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
