"""A memory in a process that was forked, and in a program that ends without closing it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["postgres_fixtures"]

# Ended by its alarm, a child that hangs says nothing.
_FORK = """
    import asyncio, os, signal, sys
    import justmem
    from justmem.testing import HashEmbedder

    place = sys.argv[1]
    named = {"store": place} if place.startswith("postgresql:") else {"folder": place}
    settings = dict(model="rules", embedder=HashEmbedder(64), reranker="none", **named)
    said = [{"role": "user", "content": "I bought a kayak."}]

    def child(use):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            try:
                use()
                print("no error")
            except justmem.JustMemError as error:
                print(type(error).__name__, error)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
"""
_SYNC = """
    memory = justmem.open("mira", **settings)
    memory.remember(said, at="2025-01-01", id="one")
    child(lambda: memory.remember(said, at="2025-01-02", id="two"))
    child(lambda: memory.recall("What did I buy?"))
    child(lambda: list(memory.export()))
    child(memory.close)

    def again():
        with justmem.open("mira", **settings) as opened:
            assert [each.id for each in opened.sessions()] == ["one"]

    child(again)
    memory.remember(said, at="2025-01-02", id="two")
    print(len(memory.sessions()))
    memory.forget(everything=True)
    memory.close()
"""
_ASYNC = """
    async def opened():
        memory = await justmem.open_async("mira", **settings)
        await memory.remember(said, at="2025-01-01", id="one")
        return memory

    loop = asyncio.new_event_loop()
    memory = loop.run_until_complete(opened())
    child(lambda: asyncio.run(memory.remember(said, at="2025-01-02", id="two")))
    child(lambda: asyncio.run(memory.recall("What did I buy?")))
    child(lambda: asyncio.run(memory.sessions()))
    child(lambda: asyncio.run(memory.close()))
    print(len(loop.run_until_complete(memory.sessions())))
    loop.run_until_complete(memory.forget(everything=True))
    loop.run_until_complete(memory.close())
"""


def _run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In an interpreter of its own: nothing of the tests is forked."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "SQLite":
        return str(tmp_path)
    return str(request.getfixturevalue("database_url"))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("use", [_SYNC, _ASYNC], ids=["Memory", "AsyncMemory"])
def test_a_forked_process_is_told_to_open_the_memory_itself(place: str, use: str) -> None:
    ran = _run(textwrap.dedent(_FORK) + textwrap.dedent(use), place)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    for line in lines[:3]:
        assert line.startswith("StoreError This memory was opened in another process")
        assert "justmem.open" in line
    assert lines[3] == "no error"  # closing is left to the process that opened it
    assert lines[4:] == (["no error", "2"] if use == _SYNC else ["1"])


_UNCLOSED = """
    import atexit, sys, time
    import justmem
    from justmem.testing import HashEmbedder

    memory = justmem.open(
        "mira", folder=sys.argv[1], model="rules", embedder=HashEmbedder(64), reranker="none"
    )
    memory.remember([{"role": "user", "content": "I bought a kayak."}], at="2025-01-01")

    def end():
        global memory
        time.sleep(1)  # what was read is entered meanwhile, as threads are no longer taken on
        del memory

    atexit.register(end)
    memory.cards()
"""


def test_a_program_that_ends_without_closing_ends_quietly(tmp_path: Path) -> None:
    ran = _run(textwrap.dedent(_UNCLOSED), str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")
