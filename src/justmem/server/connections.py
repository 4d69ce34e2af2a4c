"""Limits on connections, so that idle ones do not block others.

A connection has `header_seconds` to send the headers of a request. One address may have
`address_connections`, and all addresses together `most`. At the limit, a new connection replaces
an idle one: the oldest of the address with the most idle connections.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from justmem.config import ServerSettings

MOST = 1900  # below the number at which uvicorn refuses every request
_FILES = 400  # open files for spaces and models


def most() -> int:
    """The largest number of connections that the limit on open files allows."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows
        return MOST
    files, _ = getrlimit(RLIMIT_NOFILE)
    return MOST if files == RLIM_INFINITY else max(100, min(MOST, files - _FILES))


class Connections:
    """The connections of one server by address."""

    def __init__(self, serving: ServerSettings) -> None:
        self.header_seconds = serving.header_seconds
        self._most_of_one = serving.address_connections
        self._most = most()
        self._open: defaultdict[str, set[Connection]] = defaultdict(set)
        self._waiting: defaultdict[str, dict[Connection, None]] = defaultdict(dict)  # oldest first

    def protocol(self, *args: Any, **named: Any) -> Connection:
        """Called by uvicorn for each connection."""
        return Connection(self, *args, **named)

    def admit(self, new: Connection) -> bool:
        """False if the limit is reached and no connection is idle."""
        place = True
        if len(self._open[new.address]) >= self._most_of_one:
            place = self._dismiss(new.address)
        elif sum(map(len, self._open.values())) >= self._most:
            waiting = self._waiting
            place = self._dismiss(max(waiting, key=lambda each: len(waiting[each]), default=""))
        self._open[new.address].add(new)
        return place

    def waits(self, connection: Connection) -> None:
        """Marks a connection as idle."""
        self._waiting[connection.address][connection] = None

    def works(self, connection: Connection) -> None:
        self._waiting[connection.address].pop(connection, None)

    def left(self, connection: Connection) -> None:
        address = connection.address
        self._waiting[address].pop(connection, None)
        self._open[address].discard(connection)
        if not self._open[address]:
            del self._open[address], self._waiting[address]

    def _dismiss(self, address: str) -> bool:
        oldest = next(iter(self._waiting.get(address, ())), None)
        if oldest is None:
            return False
        self.left(oldest)
        oldest.transport.abort()
        return True


class Connection(H11Protocol):
    def __init__(self, connections: Connections, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None
        self.address = ""

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self._all.admit(self):
            self._all.waits(self)
            self._start()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._busy:
            self._stop()
            self._all.works(self)
        elif self._deadline is None:  # for the next request, or for a body that is not read
            self._start()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._busy and not self.transport.is_closing():
            self._all.waits(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._all.left(self)
        super().connection_lost(exc)

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self._all.header_seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
