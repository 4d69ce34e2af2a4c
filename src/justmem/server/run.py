"""Runs the application with uvicorn: one process, one event loop, and limits on connections.

A connection has `header_seconds` to send the headers of a request. Beyond `connections`, a new one
replaces the oldest one that is idle or has shown no key, so that such connections block nobody.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from socket import AF_INET, AF_INET6

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from justmem.config import ServerSettings
from justmem.server.application import application
from justmem.server.middleware import KEY
from justmem.server.state import Server

log = logging.getLogger("justmem.server")


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
        limit_concurrency=server.connections + 100,
        http=limited_protocol(serving, server.connections),
        lifespan="on",
        ws="none",
    )
    bound = listening(serving.host, serving.port)
    host, port = bound.getsockname()[:2]
    log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
    uvicorn.Server(config).run(sockets=[bound])


def listening(host: str, port: int) -> socket.socket:
    """Bound here, so that an address in use is an OSError for the caller and no exit."""
    try:
        bound = socket.create_server((host, port), family=AF_INET6 if ":" in host else AF_INET)
    except (TypeError, ValueError):  # a name that cannot be encoded
        raise OSError(errno.EADDRNOTAVAIL, "not the name of a host") from None
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # sends small answers at once
    return bound


def limited_protocol(serving: ServerSettings, most: int) -> type[H11Protocol]:
    """The protocol of the connections of one server, at most `most` at a time."""
    order: dict[Connection, None] = {}  # the longest unused first

    class Connection(H11Protocol):
        deadline: asyncio.TimerHandle | None = None

        @property
        def busy(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        @property
        def replaceable(self) -> bool:
            return not self.busy or KEY not in self.cycle.scope

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.start()
            order[self] = None
            if len(order) > most:
                oldest = next(each for each in order if each.replaceable)
                oldest.transport.abort()
                del order[oldest]

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.busy:
                self.stop()
            elif self.deadline is None:  # for the next request, or for a body that is not read
                self.start()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self in order:  # it becomes the last one
                del order[self]
                order[self] = None

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop()
            order.pop(self, None)
            super().connection_lost(exc)

        def start(self) -> None:
            self.deadline = self.loop.call_later(serving.header_seconds, self.transport.abort)

        def stop(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Connection
