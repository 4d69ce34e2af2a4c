"""Two tenants in one store never see, and never touch, what is the other's."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

from torture.patience import patience
from torture.tenants_guesses import guess
from torture.tenants_operations import Operation, operations
from torture.tenants_world import Tenant, World, leaks, worlds

PROMISE = (
    "A tenant never reads or changes the words of another tenant, in the library, over HTTP, "
    "MCP and the proxy, in files and in PostgreSQL."
)
COUNT = 100  # stories
SAMPLE = 1
STEPS = 40


def run(count: int, seed: int = 7) -> str:
    done = 0
    with (
        tempfile.TemporaryDirectory(prefix="jm-tenants-") as name,
        worlds(Path(name), min(count, 2)) as made,
    ):
        known = [operations(world) for world in made]
        for number in range(count):
            world, every = made[number % len(made)], known[number % len(made)]
            r = Random(f"{seed}:{number}")
            with patience(f"story {number} of seed {seed}"), world.pair(r) as tenants:
                done += _story(world, tenants, every, r, f"story {number} of seed {seed}")
    ways = max(len(every) for every in known)
    return f"{count:,} stories of two tenants, {done:,} operations of {ways} kinds, 0 leaks"


def _story(
    world: World,
    tenants: tuple[Tenant, Tenant],
    every: Mapping[str, Operation],
    r: Random,
    name: str,
) -> int:
    steps: list[str] = []
    try:
        for each in tenants:
            each.memory.remember(each.session(r))
        for _ in range(STEPS):
            me, other = r.sample(tenants, 2)
            world.check_log()
            steps.append(f"{me.label}: {_step(every, me, other, r)}")
    except Exception as error:
        told = f"{name}, {tenants[0].space!r} and {tenants[1].space!r}"
        raise AssertionError(f"{told}, after {steps[-5:]}: {error!r:.2000}") from error
    return len(steps)


def _step(every: Mapping[str, Operation], me: Tenant, other: Tenant, r: Random) -> str:
    before = other.held()
    if r.random() < 0.15:
        what, heard = "a guess", guess(me, other, r)
    else:
        what = r.choice([*every])
        heard = every[what](me, other, r)
    found = leaks(heard, me, other)
    assert not found, f"{what} of {me.label} told {found}: {heard[:1500]}"
    assert other.held() == before, f"{what} of {me.label} changed what is the other's"
    return what
