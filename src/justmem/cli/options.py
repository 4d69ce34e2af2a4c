"""Options and arguments of the commands: `limit: int = option("The most to show.", 100)`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import typer

from justmem.errors import InvalidSession

# Of a command with commands of its own
GROUP: dict[str, Any] = {
    "add_completion": False,
    "no_args_is_help": True,
    "rich_markup_mode": None,
}


def option(help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """`...` as the default: it must be given."""
    return typer.Option(default, *names, help=help, **more)


def flag(help: str, *names: str) -> Any:
    return typer.Option(False, *names, help=help)


def argument(help: str, default: Any = ..., **more: Any) -> Any:
    return typer.Argument(default, help=help, **more)


def a_time(help: str) -> Any:
    return option(help, parser=_moment)


def now() -> datetime:
    return datetime.now().replace(microsecond=0)


def _moment(text: str) -> datetime:
    """A time as given on the command line; `now` is this machine's local time."""
    if text.strip().lower() == "now":
        return now()
    from justmem.intake.sessions import as_time

    try:
        return as_time(text)
    except InvalidSession as error:
        raise typer.BadParameter(f"{error} Or write: now.") from None


LABELS = option("NAME=VALUE. May be repeated.", None, "--label", metavar="NAME=VALUE")


def labels_of(given: list[str] | None) -> dict[str, str] | None:
    """["project=kitchen"] -> {"project": "kitchen"}."""
    pairs = [text.partition("=") for text in given or ()]
    for name, equals, _ in pairs:
        if not equals:
            raise typer.BadParameter(f"{name!r} is not NAME=VALUE.", param_hint="--label")
    return {name: value for name, _, value in pairs} or None
