"""append: changing a memory piece by piece."""

from __future__ import annotations

from typing import Annotated

import typer

from justmem.cli.context import Json, moment, now, run_of
from justmem.cli.remember_commands import read_file, report
from justmem.domain import Remembered
from justmem.errors import InvalidFile
from justmem.memory import AsyncMemory


def append(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="The id of the session.")],
    file: Annotated[
        str, typer.Argument(help="A JSON list of turns; - reads standard input.")
    ] = "-",
    at: Annotated[
        str | None,
        typer.Option(help="When the session takes place, if it is new. Default: now."),
    ] = None,
    json: Json = False,
) -> None:
    """Add turns to a session, and make cards of them.

    A turn with a `key` that the session has already is left out. A session that is not there yet
    is made.
    """
    when = moment(at) or now()
    sessions = read_file(file, when).sessions
    if len(sessions) != 1:
        raise InvalidFile(f"{file} holds {len(sessions)} conversations: append takes one.")
    turns = [turn.model_dump(exclude_none=True) for turn in sessions[0].turns]

    async def work(memory: AsyncMemory) -> Remembered:
        return await memory.append(turns, id=session, at=when)

    done = run_of(context).memory(work, create=True)
    report([done], (), (), json)
