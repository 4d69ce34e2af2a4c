"""Two tenants in one store never see, and never touch, what is the other's."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random

from torture.library_border import METHODS
from torture.patience import patience
from torture.tenants_guesses import guess
from torture.tenants_operations import HTTP, LIBRARY, OPERATIONS, TOOLS, told
from torture.tenants_world import Tenant, World, leaks, worlds

PROMISE = (
    "One tenant never sees a word of another and never changes one, whatever either does, in the "
    "library, over HTTP, MCP and the proxy, in files and in PostgreSQL."
)
COUNT = 300  # stories
SAMPLE = 2
STEPS = 40


def run(count: int, seed: int = 7) -> str:
    operations = 0
    with (
        tempfile.TemporaryDirectory(prefix="jm-tenants-") as name,
        worlds(Path(name), min(count, 2)) as made,
    ):
        for world in made:
            check_nothing_is_left_out(world)
        for number in range(count):
            world = made[number % len(made)]
            r = Random(f"{seed}:{number}")
            with patience(f"story {number} of seed {seed}"), world.pair(r) as tenants:
                operations += _story(world, tenants, r, f"story {number} of seed {seed}")
    return f"{count:,} stories of two tenants, {operations:,} operations, 0 leaks"


def _story(world: World, tenants: tuple[Tenant, Tenant], r: Random, name: str) -> int:
    steps: list[str] = []
    try:
        for each in tenants:
            each.memory.remember(each.session(r))
        for _ in range(STEPS):
            me, other = r.sample(tenants, 2)
            steps.append(f"{me.label}: {_step(world, me, other, r)}")
    except Exception as error:
        told = f"{name}, {tenants[0].space!r} and {tenants[1].space!r}"
        raise AssertionError(f"{told}, after {steps[-5:]}: {error!r:.2000}") from error
    return len(steps)


def _step(world: World, me: Tenant, other: Tenant, r: Random) -> str:
    before = other.held()
    if r.random() < 0.15:
        what, heard = "a guess", guess(me, other, r)
    else:
        what = r.choice([*OPERATIONS])
        heard = OPERATIONS[what](me, other, r)
    found = leaks(heard, me, other)
    assert not found, f"{what} of {me.label} told {found}: {heard[:1500]}"
    assert other.held() == before, f"{what} of {me.label} changed what is the other's"
    world.check_log()
    return what


def check_nothing_is_left_out(world: World) -> None:
    """A new method, route or tool is an operation here too, or this fails."""
    assert set(METHODS) - {"close"} == set(LIBRARY), "the library"
    with world.server.owner() as client:
        paths = client.get("/openapi.json").json()["paths"]
        routes = {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs}
        assert routes == set(HTTP), "the server"
        answer = told(client, "tools/list", {}).partition('{"jsonrpc"')
        tools = json.loads(answer[1] + answer[2])["result"]["tools"]
        assert {tool["name"] for tool in tools} == set(TOOLS), "the tools"
