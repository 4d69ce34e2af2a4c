"""Processes to be killed: forked from a warm one, so that a thousand of them take minutes."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torture._warm"])
LONGEST = 60.0  # seconds that a step may take before the check itself gives up

Say = Callable[[Any], None]


class Child:
    """Runs `work(say, *args)`. What it says has happened: it is read here in order, up to the
    moment of its death."""

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        _warm()
        self._heard, told = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_run, args=(work, told, *args), daemon=True)
        self._process.start()
        told.close()
        self.said: list[Any] = []

    def hear(self, timeout: float = LONGEST) -> bool:
        """Waits for one more word; False if it has ended."""
        assert self._heard.poll(timeout), "the child process hangs"
        try:
            self.said.append(self._heard.recv())
        except EOFError:
            return False
        return True

    def finish(self) -> list[Any]:
        while self.hear():
            pass
        self._process.join(LONGEST)
        assert self._process.exitcode == 0, f"the child ended with {self._process.exitcode}"
        return self.said

    def kill(self) -> list[Any]:
        """-9, and whatever it had said before."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):  # it was faster
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(LONGEST)
        assert self._process.exitcode in (0, -signal.SIGKILL), "the child failed by itself"
        while self.hear():
            pass
        return self.said

    def kill_after(
        self, words: int, delay: float, *, first: Callable[[], None] | None = None
    ) -> list[Any]:
        """So many words, and so many seconds into the next step. `first` is killed before it."""
        alive = True
        while alive and len(self.said) < words:
            alive = self.hear()
        time.sleep(delay)
        if first is not None:
            first()
        return self.kill()


@functools.cache
def _warm() -> None:
    """Starts the process that the others are forked from. It knows of no path but this one."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))):
        forkserver.ensure_running()


def _run(work: Callable[..., None], told: Connection, *args: Any) -> None:
    # A server that dies is part of the play.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    work(told.send, *args)
    told.close()


class Pace:
    """How long a step takes here, learnt as it goes, so that kills fall into all of it."""

    def __init__(self, first: float) -> None:
        self._step = first

    def learn(self, seconds: float) -> None:
        self._step += 0.2 * (seconds - self._step)

    def draw(self, chance: random.Random) -> float:
        return chance.uniform(0, 1.2 * self._step)
