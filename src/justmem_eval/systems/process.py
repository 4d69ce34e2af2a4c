"""The process of a peer: JSON lines to an adapter script in the peer's own environment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from justmem_eval.meter import Meter
from justmem_eval.records import PeerCannotStart, PeerFailed, Usage

ADAPTERS = Path(__file__).parent.parent / "peers"
_LONGEST_LINE = 64 * 1024 * 1024


@dataclass(slots=True)
class Process:
    """The adapter process of one history, started when first needed. One message at a time.

    `patience`: seconds without a reply and without a request at the meter, after which the
    process counts as hung. A build may take hours as long as it works."""

    command: Sequence[str]
    settings: Mapping[str, Any]
    history: str
    patience: float
    log: Path
    meter: Meter
    lane: str  # of this history alone
    _process: asyncio.subprocess.Process | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _cpu: float = 0.0  # of this process, when it last replied
    _peak_mb: float = 0.0

    async def ask(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], Usage]:
        """The reply and what it took. For every message but `ingest` the memory is open."""
        async with self._lock:
            before = self.meter.used(self.lane)
            try:
                cpu = await self._ready(build=message["do"] == "ingest")
                reply = await self._say(message)
            except PeerFailed as error:
                error.usage = self.meter.used(self.lane).since(before)
                raise
            process = {"cpu": self._cpu - cpu, "peak_mb": self._peak_mb}
            used = self.meter.used(self.lane).since(before)
            return reply, used.model_copy(update=process)

    async def _ready(self, *, build: bool) -> float:
        """The CPU seconds so far that do not count for the message. Starting the process counts
        for a build. Starting it and opening the memory do not count for a question."""
        if self._process is not None and self._process.returncode is None:
            return self._cpu
        await self._spawn()
        try:
            await self._say({"do": "start", "settings": dict(self.settings)})
        except PeerFailed as error:
            await self.end()
            raise PeerCannotStart(f"The run ends: the peer cannot start. {error}") from error
        if build:
            return 0.0
        await self._say({"do": "open", "history": self.history})
        return self._cpu

    async def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    limit=_LONGEST_LINE,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": _path()},
                )
            except OSError as error:
                raise PeerCannotStart(
                    f"{self.command[0]} cannot be run ({error.strerror}): name the Python of the "
                    "environment that the peer is installed in."
                ) from error

    async def _say(self, message: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        what = message["do"]
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
            line = await self._patiently(process.stdout)
            reply = json.loads(line) if line else None
        except TimeoutError:
            await self.end()
            silent = f"gave no sign of life for {self.patience:g} s"
            raise PeerFailed(f"The peer did not finish `{what}`: it {silent}.") from None
        except (OSError, ValueError) as error:
            await self.end()
            raise PeerFailed(
                f"The peer broke off in `{what}` ({error}). See {self.log}."
            ) from error
        if not isinstance(reply, dict):
            await self.end()
            raise PeerFailed(f"The peer ended in `{what}`. See {self.log}.")
        told = reply.pop("usage", None) or {}
        self._cpu, self._peak_mb = told.get("cpu", 0.0), told.get("peak_mb", 0.0)
        if reply.get("error"):
            raise PeerFailed(f"The peer failed in `{what}`: {reply['error']}")
        return reply

    async def _patiently(self, replies: asyncio.StreamReader) -> bytes:
        asked = time.monotonic()
        reading = asyncio.ensure_future(replies.readline())
        try:
            while not reading.done():
                quiet = time.monotonic() - max(asked, self.meter.last(self.lane))
                if quiet >= self.patience:
                    raise TimeoutError
                await asyncio.wait([reading], timeout=self.patience - quiet)
            return reading.result()
        finally:
            reading.cancel()

    async def end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):  # it may end by itself at this very moment
                os.killpg(process.pid, signal.SIGKILL)  # its own children with it
            await process.wait()


def _path() -> str:
    """`lines` is found from any adapter, wherever it lies."""
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ADAPTERS), *([before] if before else [])])
