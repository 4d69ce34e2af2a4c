"""Child processes that may be killed. They are forked from a warm process, so that a thousand of
them take minutes."""

from __future__ import annotations

import asyncio
import functools
import logging
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torture._warm"])
LONGEST = 60.0  # seconds that one step of a child may take

Report = Callable[[Any], None]
Work = Callable[..., Coroutine[Any, Any, None]]


class Child:
    """Runs the coroutine `work(report, *args)`. `reports` holds what it reported, in order."""

    def __init__(self, work: Work, *args: Any) -> None:
        _start_forkserver()
        self._pipe, sender = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_run, args=(work, sender, *args), daemon=True)
        self._process.start()
        sender.close()
        self.reports: list[Any] = []

    def receive(self) -> bool:
        """Waits for one more report; False if the child has ended."""
        assert self._pipe.poll(LONGEST), "the child process hangs"
        try:
            self.reports.append(self._pipe.recv())
        except EOFError:
            return False
        return True

    def finish(self) -> list[Any]:
        while self.receive():
            pass
        self._process.join(LONGEST)
        assert self._process.exitcode == 0, f"the child ended with {self._process.exitcode}"
        return self.reports

    def kill(self) -> list[Any]:
        """Signal 9, then all reports that were sent before."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):  # it has ended already
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(LONGEST)
        assert self._process.exitcode in (0, -signal.SIGKILL), "the child failed by itself"
        while self.receive():
            pass
        return self.reports

    def kill_after(
        self, reports: int, pace: Pace, chance: random.Random, before: Callable[[], None] | None
    ) -> list[Any]:
        """Kills it in the step after so many reports. `before` runs just before the kill."""
        start = time.perf_counter()
        while len(self.reports) < reports and self.receive():
            pass
        time.sleep(pace.draw(chance))
        if before is not None:
            before()
        found = self.kill()
        pace.learn((time.perf_counter() - start) / (len(found) + 1))
        return found


class Pace:
    """How long a step takes on this machine, so that kills fall into every part of a step."""

    def __init__(self, first: float = 0.02) -> None:
        self._step = first

    def learn(self, seconds: float) -> None:
        self._step += 0.2 * (seconds - self._step)

    def draw(self, chance: random.Random) -> float:
        return chance.uniform(0, 1.2 * self._step)


@functools.cache
def _start_forkserver() -> None:
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))):
        forkserver.ensure_running()


def _run(work: Work, sender: Connection, *args: Any) -> None:
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # some checks kill the server too
    asyncio.run(work(sender.send, *args))
    sender.close()
