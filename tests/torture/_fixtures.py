"""Shared parts of the checks: places to store spaces, made-up conversations, and a scripted model
whose cards are known in advance."""

from __future__ import annotations

import atexit
import functools
import os
import random
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import justmem
from justmem.domain import Session, Turn
from justmem.ports import Prompt
from justmem.testing import HashEmbedder, ScriptedModel
from postgres import Server, binaries, create_database, short_folder

# ---------------------------------------------------------------- places


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jm-torture-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def has_postgres() -> bool:
    return binaries() is not None


@functools.cache
def server() -> Server:
    """One PostgreSQL for all checks of this process. Forked children must not stop it."""
    started, owner = Server(short_folder()), os.getpid()
    started.start()

    def stop() -> None:
        if os.getpid() == owner:
            started.stop()
            shutil.rmtree(started.folder, ignore_errors=True)

    atexit.register(stop)
    return started


def database(name: str) -> str:
    """The address of a new, empty database."""
    return create_database(server().url(), f"torture_{name}_{os.getpid()}")


def memory(where: str | Path, space: str = "shared", **settings: Any) -> Any:
    """A memory in a folder or database, by the scripted model unless `settings` name another."""
    place = {"store" if str(where).startswith("postgresql") else "folder": str(where)}
    light = {"embedder": HashEmbedder(DIM), "reranker": "none", "model": ScriptedModel(reply)}
    return justmem.open_async(space, **{**place, **light, **settings})


@contextmanager
def time_limit(what: str, seconds: int = 120) -> Iterator[None]:
    """AssertionError if the block hangs. Works in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hangs(*_: Any) -> None:
        raise AssertionError(f"it hangs: {what}")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---------------------------------------------------------------- conversations

DIM = 16
START = datetime(2024, 1, 1, 9, 0)
_ANIMALS = ["cat", "dog", "horse", "parrot", "goat", "turtle", "hen", "rabbit", "mule", "ferret"]
_PLACES = ["Porto", "Ghent", "Lima", "Oslo", "Quito", "Turin", "Bergen", "Cork", "Graz", "Malmö"]
# A turn that was added later has its day before the speaker.
_STATED = re.compile(r"^(\d+) (?:\([^)]*\) )?User: I keep (.*)\.$", re.MULTILINE)


def statement(name: str) -> str:
    """A sentence of which the scripted model makes one card. Equal names, equal words."""
    chance = random.Random(name)
    return f"I keep a {chance.choice(_ANIMALS)} called {name} in {chance.choice(_PLACES)}."


def fact_of(text: str) -> str:
    return f"keeps {text.removeprefix('I keep ').removesuffix('.')}"


def session(id: str, version: int = 0, turns: int = 2) -> Session:
    """The same words for the same arguments."""
    spoken: list[Turn] = []
    for name in (f"{id}-{version}-{number}" for number in range(turns)):
        spoken.append(Turn(speaker="User", text=statement(name)))
        spoken.append(Turn(speaker="Assistant", role="assistant", text=f"How is {name}?"))
    days = random.Random(f"{id} {version}").randrange(900)
    return Session(id=id, at=START + timedelta(days=days, minutes=version), turns=tuple(spoken))


def reply(prompt: Prompt) -> Mapping[str, Any]:
    """One card for each statement; a plain plan; a plain answer."""
    if prompt.stage == "extract":
        return {"cards": card_rows(prompt.user)}
    if prompt.stage == "plan":
        return PLAN
    return {"answer": "A cat.", "used": [], "sufficient": True}


PLAN = {"op": "lookup", "period": "", "spans": False, "source": False, "rewrites": []}


def card_rows(shown: str) -> list[str]:
    """The scripted model's cards for the turns in a prompt."""
    stated = _STATED.findall(shown)
    return [f"User | keeps {what} | unknown | ongoing | state | {turn}" for turn, what in stated]
