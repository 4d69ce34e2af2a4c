"""Clocks that jump, disks that fill, folders that turn read-only or vanish."""

from __future__ import annotations

import asyncio
import os
import pwd
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from justmem.domain import Budget
from justmem.errors import BudgetExceeded, StoreError
from stores import spent as spent_on
from torture._children import Child, Report
from torture._fixtures import folder, memory, session

PROMISE = (
    "If the clock jumps, the disk is full, or the folder is read-only or gone, the user gets an "
    "error. No acknowledged write is lost, and work continues when the cause is gone."
)
COUNT = 200
SAMPLE = 4

MOST = 200  # sessions that no place here has room for
LIMIT = 4_000  # tokens a day
NOBODY = pwd.getpwnam("nobody")


def run(count: int, *, seed: int = 7) -> str:
    kinds: list[Callable[[random.Random, Path], str]] = [_clock, _full, _read_only, _vanished]
    done: dict[str, int] = {}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        with folder() as place:
            try:
                what = kind(random.Random(f"{seed} {number}"), place)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, case {number}: {error}") from error
        done[what] = done.get(what, 0) + 1
    return ", ".join(f"{times:,} × {what}" for what, times in done.items())


# ---------------------------------------------------------------- time


def _clock(chance: random.Random, place: Path) -> str:
    """Each look at the clock may show another day; no day is charged more than its limit."""
    days = [datetime(2024, 5, 1, 12) + timedelta(days=n) for n in range(4)]
    asyncio.run(_spend(chance, place, days))
    return "clocks that jump between days"


async def _spend(chance: random.Random, place: Path, days: list[datetime]) -> None:
    budget = Budget(day_tokens=LIMIT, session_tokens=1500, ask_tokens=1500)
    spent = 0
    async with memory(place, budget=budget, clock=lambda: chance.choice(days)) as mine:
        for number in range(20):
            spent += (await mine.remember(session(f"s{number}"))).receipt.tokens
            with suppress(BudgetExceeded):
                spent += (await mine.ask("Which cat do I keep?")).receipt.tokens
        by_day = [await spent_on(mine._store, day.date()) for day in days]
    assert max(by_day) <= LIMIT, f"a day was charged {max(by_day)} of {LIMIT} tokens"
    assert sum(by_day) == spent, f"{spent} tokens were spent, {sum(by_day)} are in the ledger"


# ---------------------------------------------------------------- room


def _full(chance: random.Random, place: Path) -> str:
    """A real small disk where one can be mounted; else files that may not grow further."""
    room = chance.randrange(300, 900) * 1024
    disk = place / "disk"
    disk.mkdir()
    options = f"size={room}"
    mounted = _mount(disk, options)
    try:
        reports = Child(_fill, str(disk), 0 if mounted else room, chance.randrange(2, 40)).finish()
        # SQLite reports a file at its size limit as an I/O error, and a full disk as full.
        expected = {"StoreFull"} if mounted else {"StoreFull", "StoreError"}
        assert reports[-1] in expected, f"a full disk was called {reports[-1]}"
        if mounted:
            assert _mount(disk, "remount,size=64m")
        asyncio.run(_go_on(disk, reports[:-1]))
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)
    return "disks that fill"


def _mount(disk: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    if shutil.which("mount") is None or os.geteuid() != 0:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


async def _fill(report: Report, where: str, room: int, turns: int) -> None:
    if room:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        async with memory(where) as mine:
            for number in range(MOST):
                await mine.remember(session(f"s{number}", turns=turns))
                report((number, turns))
    except StoreError as error:
        report(type(error).__name__)


async def _go_on(place: Path, acknowledged: list[tuple[int, int]]) -> None:
    async with memory(place) as mine:
        for number, turns in acknowledged:
            words = session(f"s{number}", turns=turns)
            assert await mine.session(words.id) == words, f"session {words.id} is lost"
        checked = await mine.check()
        assert checked.sound, f"after the disk was full: {checked.damage}"
        await mine.retry()
        assert (await mine.remember(session("late"))).cards


# ---------------------------------------------------------------- folders


def _read_only(chance: random.Random, place: Path) -> str:
    """Root may write anywhere, so the child runs as the user nobody."""
    home = place / "home"
    home.mkdir()
    if os.geteuid() == 0:
        place.chmod(0o755)
        os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    reports = Child(_shut_out, str(home), chance.randrange(1, 4)).finish()
    assert reports[-1] == "continued", f"a folder that was read-only: {reports}"
    return "folders that turn read-only"


async def _shut_out(report: Report, home: str, sessions: int) -> None:
    if os.geteuid() == 0:
        # Imports what it needs, while it may still read the folder of the code.
        with folder() as place:
            await _shut(lambda _: None, place, 1)
            await _go_on(place, [(0, 2)])
        os.environ["XDG_CONFIG_HOME"] = home  # root's settings are not readable for nobody
        os.setgid(NOBODY.pw_gid)
        os.setuid(NOBODY.pw_uid)
    await _shut(report, Path(home), sessions)


async def _shut(report: Report, home: Path, sessions: int) -> None:
    async with memory(home) as mine:
        for number in range(sessions):
            await mine.remember(session(f"s{number}"))
    _chmod(home, folder=0o500, files=0o400)
    try:
        async with memory(home) as mine:
            await mine.remember(session("late"))
        report("written all the same")
        return
    except StoreError as error:
        report(f"{type(error).__name__}: {error}")
    _chmod(home, folder=0o700, files=0o600)
    await _go_on(home, [(number, 2) for number in range(sessions)])
    report("continued")


def _chmod(home: Path, *, folder: int, files: int) -> None:
    home.chmod(0o700)
    for file in home.iterdir():
        file.chmod(files)
    home.chmod(folder)


def _vanished(chance: random.Random, place: Path) -> str:
    asyncio.run(_vanish(chance, place / "home"))
    return "folders that vanish"


async def _vanish(chance: random.Random, home: Path) -> None:
    async with memory(home) as mine:
        await mine.remember(session("s0"))
        shutil.rmtree(home)
        if chance.random() < 0.5:
            os.mkdir(home)
        work = [mine.remember(session("s1")), mine.session("s0"), mine.cards(), mine.check()]
        chance.shuffle(work)
        for each in work:
            try:
                await each
            except StoreError:
                continue
            raise AssertionError("a space that is gone was read or written")
    with suppress(FileNotFoundError):
        assert not os.listdir(home), "it left files behind"
    async with memory(home) as mine:
        assert (await mine.remember(session("late"))).cards
