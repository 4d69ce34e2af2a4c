"""The `justmem-eval` command.

running          one run, all runs without a key, tables, comparisons
measuring        other systems, your own chats, data and figures
shared           options of several commands
"""

from __future__ import annotations

import typer
from rich.console import Console

from justmem.errors import JustMemError
from justmem_eval.cli import measuring, running

app = typer.Typer(
    help="Measure memory systems so that anyone can check it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(running.run)
app.command("all")(running.everything)
app.command()(running.table)
app.command()(running.compare)
app.command()(measuring.peer_check)
app.command()(measuring.peers)
app.command()(measuring.placed)
app.command()(measuring.mine)
app.command()(measuring.data)
app.command()(measuring.fill)


def main() -> None:
    try:
        app()
    except JustMemError as error:
        said = Console(stderr=True, markup=False, highlight=False)
        said.print(f"Error: {error}", style="red", soft_wrap=True)
        raise SystemExit(2) from None
