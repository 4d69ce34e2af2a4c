"""Where the checks keep their spaces: a folder of their own, a PostgreSQL of their own."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from postgres import Server, binaries, create_database, short_folder


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="jm-torture-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def has_postgres() -> bool:
    return binaries() is not None


@functools.cache
def server() -> Server:
    """One for all checks of this process. A child that is forked from here must not stop it."""
    started, owner = Server(short_folder()), os.getpid()
    started.start()

    def stop() -> None:
        if os.getpid() == owner:
            started.stop()
            shutil.rmtree(started.folder, ignore_errors=True)

    atexit.register(stop)
    return started


def database(name: str) -> str:
    """The address of an empty one."""
    return create_database(server().url(), name)
