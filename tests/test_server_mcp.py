"""The tools, used by the SDK's own client over both transports."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from justmem.testing import serve_openai
from servers import LIGHT, Running, bike_model, environment, serve
from stories import BIKE

TOOLS = ["remember", "recall", "ask", "replay", "forget", "list_sessions"]
BOUGHT = "Bought a gravel bike today to spare my knee, 1,450 euros."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_openai(bike_model) as model:
        settings = f'answerer = "openai:m@{model.url}"'
        folder = tmp_path_factory.mktemp("mcp")
        with serve(folder, settings, server="search_and_fetch = true") as running:
            yield running


@asynccontextmanager
async def over_http(
    server: Running, key: str, mode: str = "auto", **headers: str
) -> AsyncIterator[Client]:
    sent = {"authorization": f"Bearer {key}", **headers}
    async with httpx2.AsyncClient(headers=sent, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_stdio(folder: Path, settings: str = "") -> AsyncIterator[Client]:
    config = folder / "justmem.toml"
    config.write_text(f'folder = "home"\n{LIGHT}{settings}', "utf-8")
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from justmem.cli import main; main()", "--config", str(config), "mcp"],
        env=environment(),
        cwd=folder,
    )
    async with Client(parameters) as client:
        yield client


def actors(file: Path) -> set[str]:
    """Of the change log."""
    with closing(sqlite3.connect(file)) as db:
        return {json.loads(text)["actor"] for (text,) in db.execute("SELECT entry FROM log")}


async def used(client: Client) -> None:
    """Everything an agent does with a memory, one after the other."""
    made = await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
    assert not made.is_error, made.content
    assert made.structured_content is not None
    assert made.structured_content["state"] == "stored"
    session = made.structured_content["session_id"]

    found = await client.call_tool("recall", {"question": "gravel bike", "at": "2024-06-01"})
    assert found.structured_content is not None
    card = found.structured_content["cards"][0]
    assert "gravel bike" in card["text"]

    source = await client.call_tool("replay", {"card": card["id"]})
    assert source.structured_content is not None
    assert source.structured_content["quotes"][0]["quote"] in BOUGHT
    assert source.structured_content["source"]["turns"][0]["text"] == BOUGHT

    listed = await client.call_tool("list_sessions", {})
    assert listed.structured_content is not None
    assert [each["id"] for each in listed.structured_content["sessions"]] == [session]

    gone = await client.call_tool("forget", {"session": session})
    counts = {"cards": 1, "sessions": 1, "turns": 1, "quarantined": 0, "replies": 0}
    assert gone.structured_content == {**counts, "certificate": None}
    listed = await client.call_tool("list_sessions", {})
    assert listed.structured_content == {"sessions": [], "total": 0}


async def test_an_agent_remembers_recalls_replays_and_forgets_over_stdio(tmp_path: Path) -> None:
    async with over_stdio(tmp_path) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        await used(client)
    assert actors(tmp_path / "home" / "default.db") == {"mcp:mcp"}  # the name the SDK gives


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_does_the_same_over_http(server: Running, mode: str) -> None:
    async with over_http(server, server.key(f"agent-{mode}"), mode) as client:
        await used(client)
    assert actors(server.home / f"agent-{mode}.db") == {"key:test"}


async def test_every_tool_says_what_it_does_to_memory_and_what_it_gives(server: Running) -> None:
    async with over_http(server, server.key("ana")) as client:
        tools = (await client.list_tools()).tools
    assert len(tools) <= 8
    for tool in tools:
        hints = tool.annotations
        assert hints is not None
        assert None not in (
            hints.read_only_hint,
            hints.destructive_hint,
            hints.idempotent_hint,
            hints.open_world_hint,
        )
        assert tool.output_schema
        # Our times have no offset: a client that checks formats would refuse the result.
        assert "date-time" not in str(tool.output_schema)
        assert tool.description
        for name, field in tool.input_schema["properties"].items():
            assert field.get("description") or name in ("limit", "offset"), (tool.name, name)
    changing = {tool.name for tool in tools if not tool.annotations.read_only_hint}  # type: ignore[union-attr]
    assert changing == {"remember", "forget"}


async def test_an_answer_over_http_cites_its_source(server: Running) -> None:
    async with over_http(server, server.key("asks")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        answer = await client.call_tool("ask", {"question": "What did the gravel bike cost?"})
    assert answer.structured_content is not None
    assert answer.structured_content["answer"] == "It cost 1,450 euros."
    assert answer.structured_content["citations"][0]["quote"] in BOUGHT
    assert answer.structured_content["cost"]["tokens"] >= 120


PLANNED = ["rewrites", "exact_words", "spans_sessions", "period", "entities"]


async def test_an_agent_can_plan_inside_its_call(server: Running) -> None:
    async with over_http(server, server.key("planned")) as client:
        for tool in (await client.list_tools()).tools:
            if tool.name in ("recall", "ask"):
                described = {
                    k: v.get("description") for k, v in tool.input_schema["properties"].items()
                }
                assert all(described[name] for name in PLANNED)
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        asked = {"question": "What did it cost?", "at": "2024-06-01"}
        for parts, access in (
            ({}, "LOOKUP"),
            ({"rewrites": ["paid for the gravel bike"]}, "COMPOSE"),
            ({"exact_words": True, "period": "2024-05", "entities": ["bike"]}, "REPLAY"),
            ({"spans_sessions": True}, "COMPOSE"),
        ):
            found = await client.call_tool("recall", {**asked, **parts})
            assert found.structured_content is not None, found.content
            assert found.structured_content["access"] == access
        wrong = await client.call_tool("ask", {**asked, "rewrites": ["a", "b", "c"]})
        assert wrong.is_error
        assert "up to two texts" in wrong.content[0].text


async def test_a_conversation_can_be_remembered_turn_by_turn(server: Running) -> None:
    turns = [
        {"text": "Plan three days in Kyoto for me."},
        {"role": "assistant", "text": "Day 1: Saiho-ji moss garden."},
    ]
    async with over_http(server, server.key("turns")) as client:
        made = await client.call_tool("remember", {"turns": turns, "session": "kyoto"})
        assert made.structured_content is not None
        assert made.structured_content["session_id"] == "kyoto"
        wrong = await client.call_tool("remember", {"turns": turns, "text": "both"})
        assert wrong.is_error


async def test_errors_tell_the_agent_what_to_do(server: Running) -> None:
    async with over_http(server, server.key("errs")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        missing = await client.call_tool("replay", {"card": "nosuch"})
        assert missing.is_error
        wrong = await client.call_tool("forget", {})
        assert wrong.is_error
        assert "Say what to forget" in str(wrong.content)
    async with over_http(server, server.key("a*")) as client:
        nowhere = await client.call_tool("list_sessions", {})
        assert nowhere.is_error
        assert "X-JustMem-Space" in str(nowhere.content)


async def test_a_key_reads_no_other_space_and_writes_only_if_it_may(server: Running) -> None:
    async with over_http(server, server.key("bob")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
    header = {"x-justmem-space": "bob"}
    async with over_http(server, server.key("ana"), **header) as client:
        there = await client.call_tool("list_sessions", {})
    async with over_http(server, server.key("ana"), **{"x-justmem-space": "xyz"}) as client:
        absent = await client.call_tool("list_sessions", {})
    assert there.is_error
    assert str(there.content).replace("bob", "xyz") == str(absent.content)
    async with over_http(server, server.key("bob", right="read")) as client:
        assert not (await client.call_tool("list_sessions", {})).is_error
        refused = await client.call_tool("remember", {"text": "more"})
        assert refused.is_error
        assert "may not write" in str(refused.content)


async def test_one_key_for_many_spaces_names_one_by_header(server: Running) -> None:
    async with over_http(server, server.key("team-*"), **{"x-justmem-space": "team-x"}) as client:
        made = await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        assert not made.is_error
    with server.client(server.key("team-x")) as http:
        assert http.get("/v1/spaces/team-x").json()["sessions"] == {"stored": 1}


def test_without_a_key_there_are_no_tools(server: Running) -> None:
    answer = httpx.post(f"{server.url}/mcp", json={}, trust_env=False)
    assert answer.status_code == 401


async def test_the_search_and_fetch_pair_gives_what_chatgpt_expects(server: Running) -> None:
    async with over_http(server, server.key("pair")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        found: Any = (await client.call_tool("search", {"query": "gravel bike"})).structured_content
        (result,) = found["results"]
        assert result.keys() == {"id", "title", "url"}
        one: Any = (await client.call_tool("fetch", {"id": result["id"]})).structured_content
    assert one.keys() == {"id", "title", "text", "url", "metadata"}
    assert BOUGHT in one["text"]


async def test_what_was_said_over_http_is_the_same_memory(server: Running) -> None:
    with server.client(server.key("both")) as http:
        http.post("/v1/spaces/both/sessions?wait=true", json=BIKE)
    async with over_http(server, server.key("both")) as client:
        listed: Any = (await client.call_tool("list_sessions", {})).structured_content
    assert [each["id"] for each in listed["sessions"]] == ["bike"]
