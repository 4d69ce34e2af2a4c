"""The `justmem` command.

Exit codes: 0 done; 1 not in memory; 2 wrong usage, file or setting; 3 a model failed;
4 the store failed; 5 some sessions could not be remembered; 6 what was forgotten is still found;
7 the key does not fit the space;
130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from justmem.cli import serving, weights
from justmem.cli.asking import ask, recall
from justmem.cli.demo import demo
from justmem.cli.doctor import doctor
from justmem.cli.editing import append
from justmem.cli.expiring import expire
from justmem.cli.forgetting import forget
from justmem.cli.keeping import reembed, remember, retry
from justmem.cli.looking import cards, sessions, show, stats
from justmem.cli.run import Exit, Run, exit_code
from justmem.cli.storing import backup, copy, rekey, sweep, work
from justmem.cli.taking import about, export, load, log
from justmem.cli.terminal import plain, say
from justmem.errors import JustMemError

_VALUED = ("--space", "--home", "--model", "--config")
_FLAGS = ("--debug",)


class Commands(TyperGroup):
    """Global options may stand anywhere; an error is one line and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.parent is None:
            args = _hoisted(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except JustMemError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            say(f"Error: {plain(error, one_line=True)}", "red")
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            say("Interrupted. What was remembered is kept; `justmem retry` takes up the rest.")
            raise typer.Exit(Exit.INTERRUPTED) from None


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


app = typer.Typer(
    name="justmem",
    cls=Commands,
    help="Just enough long-term memory: cited answers, and a receipt for each.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"justmem {version('justmem')}")
        raise typer.Exit


@app.callback(epilog=(__doc__ or "").partition("\n\n")[2])
def options(
    context: typer.Context,
    space: Annotated[str | None, typer.Option(help="Whose memory. Default: default.")] = None,
    home: Annotated[Path | None, typer.Option(help="The folder that holds the spaces.")] = None,
    model: Annotated[
        str | None, typer.Option(help="rules, openai:NAME, openai:NAME@URL, ...")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A justmem.toml.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    context.obj = Run(config, {"space": space, "folder": home, "model": model}, debug)


for command in (
    demo,
    remember,
    append,
    ask,
    recall,
    cards,
    show,
    sessions,
    stats,
    about,
    log,
    export,
    forget,
    expire,
    retry,
    reembed,
    doctor,
    rekey,
    copy,
    backup,
    sweep,
    work,
    serving.serve,
    serving.mcp,
):
    app.command()(command)
app.command("import")(load)  # a word that no function can have
app.add_typer(weights.app, name="models")
app.add_typer(serving.keys, name="keys")


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
