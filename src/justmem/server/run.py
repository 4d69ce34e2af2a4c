"""Runs the application with uvicorn: one process, one event loop, and limits on connections.

A connection has `header_seconds` to send the headers of a request. Beyond `connections`, a new one
replaces the oldest idle one, so that idle connections block nobody.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from justmem.config import ServerSettings
from justmem.server.application import application
from justmem.server.state import Server

log = logging.getLogger("justmem.server")
_FILES = 400  # open files for spaces and models


def run(server: Server) -> None:
    """Serves until SIGINT or SIGTERM. Then answers the requests in progress and stops."""
    serving = server.serving
    config = uvicorn.Config(
        application(server),
        host=serving.host,
        port=serving.port,
        log_config=None,
        access_log=False,  # ours holds no paths
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=round(serving.grace_seconds),
        limit_concurrency=serving.connections + 100,
        http=Connections(serving).protocol,  # type: ignore[arg-type]
        lifespan="on",
        ws="none",
    )
    bound = listening(serving.host, serving.port)
    host, port = bound.getsockname()[:2]
    log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
    uvicorn.Server(config).run(sockets=[bound])


def listening(host: str, port: int) -> socket.socket:
    """Bound here, so that an address in use is an OSError for the caller and no exit."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns off Nagle's algorithm and sends small answers at once.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    except TypeError:  # raised for a name that cannot be encoded
        bound.close()
        raise OSError(errno.EADDRNOTAVAIL, "not the name of a host") from None
    return bound


class Connections:
    """The connections of one server."""

    def __init__(self, serving: ServerSettings) -> None:
        self.header_seconds = serving.header_seconds
        self._most = serving.connections
        with suppress(ImportError):  # Windows
            import resource

            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if files != resource.RLIM_INFINITY:
                self._most = min(self._most, max(100, files - _FILES))
        self._open: set[Connection] = set()
        self.idle: dict[Connection, None] = {}  # oldest first

    def protocol(self, *args: Any, **named: Any) -> Connection:
        """Called by uvicorn for each connection."""
        return Connection(self, *args, **named)

    def join(self, new: Connection) -> None:
        self._open.add(new)
        self.idle[new] = None
        if len(self._open) > self._most:
            oldest = next(iter(self.idle))
            oldest.transport.abort()
            self.leave(oldest)

    def leave(self, connection: Connection) -> None:
        self.idle.pop(connection, None)
        self._open.discard(connection)


class Connection(H11Protocol):
    def __init__(self, connections: Connections, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()
        self._all.join(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._busy:
            self._stop()
            self._all.idle.pop(self, None)
        elif self._deadline is None:  # for the next request, or for a body that is not read
            self._start()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._busy and not self.transport.is_closing():
            self._all.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._all.leave(self)
        super().connection_lost(exc)

    def _start(self) -> None:
        self._deadline = self.loop.call_later(self._all.header_seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
