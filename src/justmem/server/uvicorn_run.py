"""One process, one event loop, until it is told to stop."""

from __future__ import annotations

import errno
import logging
import socket

import uvicorn

from justmem.server.application import application
from justmem.server.connections import Connections
from justmem.server.state import Server

log = logging.getLogger("justmem.server")


def run(server: Server, *, root_path: str = "") -> None:
    """Serves until SIGINT or SIGTERM; then answers what is under way, and finishes or parks what
    is being remembered."""
    serving = server.serving
    config = uvicorn.Config(
        application(server),
        host=serving.host,
        port=serving.port,
        root_path=root_path,
        log_config=None,
        access_log=False,  # ours holds no paths
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=round(serving.grace_seconds),
        limit_concurrency=2000,
        http=Connections(serving).protocol,  # type: ignore[arg-type]
        lifespan="on",
        ws="none",
    )
    bound = listening(serving.host, serving.port)
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    log.info("listening on http://%s:%d", shown, port)
    uvicorn.Server(config).run(sockets=[bound])


def listening(host: str, port: int) -> socket.socket:
    """Bound here, so that an address in use is an OSError for the caller and no exit."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by name: asyncio sends small answers at once only where it stands.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    except TypeError:  # what Python says of a name that cannot be encoded
        bound.close()
        raise OSError(errno.EADDRNOTAVAIL, "not the name of a host") from None
    return bound
