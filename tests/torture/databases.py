"""One PostgreSQL for all that is tried in this process."""

from __future__ import annotations

import atexit
import functools
import os
import shutil

from postgres import Server, create_database, short_folder


@functools.cache
def _administrator() -> str:
    if given := os.environ.get("JUSTMEM_TEST_POSTGRES_URL"):
        return given
    server = Server(short_folder())
    server.start()
    atexit.register(shutil.rmtree, server.folder, ignore_errors=True)
    atexit.register(server.stop)
    return str(server.url())


def database(name: str) -> str:
    """The address of an empty database."""
    return create_database(_administrator(), f"justmem_torture_{name}_{os.getpid()}")
