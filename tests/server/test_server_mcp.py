"""The tools, used by the SDK's own client over both transports."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from justmem.runtime import tokens
from justmem_eval.loopback import serve_openai
from servers import LIGHT, Running, bike_model, environment, serve
from stories import BIKE

TOOLS = ["recall", "ask", "remember", "note", "correct", "forget", "show"]
BOUGHT = "Bought a gravel bike today to spare my knee, 1,450 euros."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_openai(bike_model) as model:
        settings = f'answerer = "openai:m@{model.url}"'
        folder = tmp_path_factory.mktemp("mcp")
        with serve(folder, settings) as running:
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


async def data(client: Client, tool: str, **given: Any) -> Any:
    """The structured result of a call that has to succeed."""
    done = await client.call_tool(tool, given)
    assert not done.is_error, done.content
    return done.structured_content


async def used(client: Client) -> None:
    """Everything an agent does with a memory, one after the other."""
    made = await data(client, "remember", text=BOUGHT, at="2024-05-20T20:00")
    assert made["state"] == "stored"
    session = made["session"]

    (found,) = (await data(client, "recall", question="gravel bike"))["cards"]
    id, _, line = found.partition(" ")
    assert "gravel bike" in line
    assert "2024-05-20" in line

    source = await data(client, "show", what="source", name=id)
    assert source["lines"][0] == line
    assert BOUGHT in source["lines"][-1]
    card = (await client.read_resource(f"justmem://cards/{id}")).contents[0]
    assert BOUGHT in card.text
    talk = (await client.read_resource(f"justmem://sessions/{session}")).contents[0]
    assert BOUGHT in talk.text
    about = (await client.read_resource("justmem://about/bike")).contents[0]
    assert "gravel bike" in about.text

    started = (await client.get_prompt("with_memory", {"task": "gravel bike tyres"})).messages[0]
    assert "gravel bike tyres" in started.content.text
    assert BOUGHT.partition(",")[0] in started.content.text

    (listed,) = await shown(client, "sessions")
    assert listed.startswith(session)
    seen = await data(client, "forget", session=session, preview=True)
    gone = await data(client, "forget", session=session, verify=True)
    assert seen == {"cards": 1, "sessions": 1, "turns": 1, "labels": 0, "verified": False}
    assert gone == {**seen, "verified": True}
    assert await shown(client, "sessions") == []
    nothing = await client.call_tool("forget", {"subject": "Nobody"})
    assert nothing.is_error
    assert "nothing about 'Nobody'" in nothing.content[0].text


async def shown(client: Client, what: str, name: str | None = None) -> list[str]:
    lines: list[str] = (await data(client, "show", what=what, name=name))["lines"]
    return lines


async def lived_with(client: Client) -> None:
    """The operations of a memory that grows: append, note, correct, pin, undo, history, profile."""
    turns = [{"text": "I live in Graz.", "speaker": "Mira"}]
    await data(client, "remember", session="home", turns=turns, at="2023-01-10", append=True)
    turns = [{"text": "I live in Vienna.", "speaker": "Mira"}]
    moved: Any = {"session": "home", "turns": turns, "labels": {"topic": "home"}, "append": True}
    grown = await data(client, "remember", **moved)
    asked: Any = {"question": "Where does Mira live?", "labels": {"topic": "home"}}
    assert (await data(client, "recall", **asked))["cards"]
    assert ["Graz" in grown["cards"][0], "Vienna" in grown["cards"][1]] == [True, True]
    again = await data(client, "remember", session="home", rebuild=True)
    assert again["cards"] == grown["cards"]

    old = grown["cards"][0].partition(" ")[0]
    new = (await data(client, "correct", card=old, fact="lived in Linz"))["card"]
    assert "Linz" in new
    id = new.partition(" ")[0]
    assert len(await shown(client, "history", id)) == 2
    assert (await data(client, "correct", card=id, action="pin"))["card"] == new
    for _ in range(2):
        undone = await data(client, "correct", card=id, action="undo")
    assert undone["card"] == grown["cards"][0]
    assert any("Vienna" in line for line in await shown(client, "history", "Mira"))
    assert any("Vienna" in line for line in await shown(client, "profile"))

    await data(client, "note", text="Mira eats no nuts.", key="food/nuts", value=[1], labels=FOOD)
    assert await shown(client, "notes", "food/") == ["food/nuts: Mira eats no nuts. = [1]"]
    asked = {"question": "What does Mira eat?", "labels": FOOD, "limit": 1}
    (line,) = (await data(client, "recall", **asked))["cards"]
    assert "no nuts" in line
    assert (await data(client, "forget", key="food/nuts"))["cards"] == 1


FOOD = {"topic": "food"}


async def test_an_agent_remembers_recalls_replays_and_forgets_over_stdio(tmp_path: Path) -> None:
    async with over_stdio(tmp_path) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        await used(client)
        await lived_with(client)
    assert actors(tmp_path / "home" / "default.db") == {"mcp:mcp"}  # the name the SDK gives


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_does_the_same_over_http(tmp_path: Path, mode: str) -> None:
    with serve(tmp_path) as plain:
        async with over_http(plain, plain.key("ana"), mode) as client:
            await used(client)
        assert actors(plain.home / "ana.db") == {"key:test"}


async def test_every_tool_says_what_it_does_to_memory_and_what_it_gives(server: Running) -> None:
    async with over_http(server, server.key("ana")) as client:
        tools = (await client.list_tools()).tools
    assert len(tools) <= 8
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
        assert tool.output_schema
        # Our times have no offset: a client that checks formats would refuse the result.
        assert "date-time" not in str(tool.output_schema)
        assert tool.description
    changing = {tool.name for tool in tools if not tool.annotations.read_only_hint}  # type: ignore[union-attr]
    assert changing == {"remember", "note", "correct", "forget"}


async def test_the_definitions_of_the_tools_are_short(server: Running, tmp_path: Path) -> None:
    """A client sends them with every request of a chat. Counted as JSON without spaces."""
    async with over_http(server, server.key("ana")) as client:
        served = (await client.list_tools()).tools
    async with over_stdio(tmp_path) as client:
        assert (await client.list_tools()).tools == served
    shown = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in served]
    assert sum(map(tokens.count, shown)) < 1500


async def test_a_recalled_card_takes_few_tokens(tmp_path: Path) -> None:
    history = json.loads(files("justmem.demo").joinpath("history.json").read_text("utf-8"))
    questions = ("How did the races go?", "Who is Ines?", "Which trips did I plan?")
    async with over_stdio(tmp_path) as client:
        for number, session in enumerate(history["sessions"]):
            turns = [
                {"role": turn.get("role", "user"), "text": turn.get("content") or turn["text"]}
                for turn in session["turns"]
            ]
            await data(client, "remember", turns=turns, at=session["at"], session=f"s{number}")
        for question in questions:
            found = await client.call_tool("recall", {"question": question, "at": "2024-12-31"})
            shown: Any = found.structured_content
            assert len(shown["cards"]) >= 3
            assert json.loads(found.content[0].text) == shown
            text = json.dumps(shown["cards"], ensure_ascii=False)
            assert tokens.count(text) / len(shown["cards"]) < 30, text


async def test_a_short_id_that_means_two_cards_is_refused(server: Running) -> None:
    async with over_http(server, server.key("twins")) as client:
        await data(client, "remember", text=BOUGHT, session="a")
        folder = server.home / "twins.db"
        with closing(sqlite3.connect(folder)) as db:
            (id,) = db.execute("SELECT id FROM cards").fetchone()
        await data(client, "remember", text="I bought a helmet.", session="b")
        with closing(sqlite3.connect(folder)) as db, db:
            twin = id[:7] + "000000"
            db.execute("UPDATE cards SET id = ? WHERE id != ?", (twin, id))
        refused = await client.call_tool("forget", {"card": id[:7]})
    assert refused.is_error
    assert id in str(refused.content)
    assert twin in str(refused.content)


async def test_an_answer_over_http_cites_its_source(server: Running) -> None:
    async with over_http(server, server.key("asks")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        answer = await client.call_tool("ask", {"question": "What did the gravel bike cost?"})
    assert answer.structured_content is not None
    assert answer.structured_content["answer"] == "It cost 1,450 euros."
    (quote,) = answer.structured_content["quotes"]
    assert "1,450 euros" in quote
    assert answer.structured_content["tokens"] >= 120


PLANNED = ["rewrites", "needs_source", "spans_sessions", "period"]


async def test_an_agent_can_plan_inside_its_call(server: Running) -> None:
    async with over_http(server, server.key("planned")) as client:
        for tool in (await client.list_tools()).tools:
            given = tool.input_schema["properties"]
            if tool.name == "recall":
                assert all(given[name]["description"] for name in PLANNED)
            if tool.name == "ask":  # which refers to recall
                assert set(given) >= set(PLANNED)
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        asked = {"question": "What did it cost?", "at": "2024-06-01"}
        for parts, access in (
            ({}, "LOOKUP"),
            ({"rewrites": ["paid for the gravel bike"]}, "COMPOSE"),
            ({"needs_source": True, "period": "2024-05"}, "REPLAY"),
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
        assert made.structured_content["session"] == "kyoto"
        wrong = await client.call_tool("remember", {"turns": turns, "text": "both"})
        assert wrong.is_error


async def test_errors_tell_the_agent_what_to_do(server: Running) -> None:
    async with over_http(server, server.key("errs")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        missing = await client.call_tool("show", {"what": "source", "name": "nosuch"})
        assert missing.is_error
        with pytest.raises(MCPError, match="There is no session 'nosuch' in this space"):
            await client.read_resource("justmem://sessions/nosuch")
        assert "nosuch" not in server.log
        wrong = await client.call_tool("forget", {})
        assert wrong.is_error
        assert "Say what to forget" in str(wrong.content)
    async with over_http(server, server.key("a*")) as client:
        nowhere = await client.call_tool("recall", {"question": "bike"})
        assert nowhere.is_error
        assert "X-JustMem-Space" in str(nowhere.content)


async def test_a_key_reads_no_other_space_and_writes_only_if_it_may(server: Running) -> None:
    async with over_http(server, server.key("bob")) as client:
        await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
    header = {"x-justmem-space": "bob"}
    async with over_http(server, server.key("ana"), **header) as client:
        there = await client.call_tool("recall", {"question": "bike"})
    async with over_http(server, server.key("ana"), **{"x-justmem-space": "xyz"}) as client:
        absent = await client.call_tool("recall", {"question": "bike"})
    assert there.is_error
    assert str(there.content).replace("bob", "xyz") == str(absent.content)
    async with over_http(server, server.key("bob", right="read")) as client:
        assert not (await client.call_tool("recall", {"question": "bike"})).is_error
        refused = await client.call_tool("remember", {"text": "more"})
        assert refused.is_error
        assert "right `write`" in str(refused.content)


async def test_one_key_for_many_spaces_names_one_by_header(server: Running) -> None:
    async with over_http(server, server.key("team-*"), **{"x-justmem-space": "team-x"}) as client:
        made = await client.call_tool("remember", {"text": BOUGHT, "at": "2024-05-20T20:00"})
        assert not made.is_error
    with server.client(server.key("team-x")) as http:
        assert http.get("/v1/spaces/team-x").json()["sessions"] == {"stored": 1}


def test_without_a_key_there_are_no_tools(server: Running) -> None:
    answer = httpx.post(f"{server.url}/mcp", json={}, trust_env=False)
    assert answer.status_code == 401


def test_no_client_can_keep_a_connection_open(server: Running) -> None:
    with server.client(server.key("ana")) as client:
        streaming = {"accept": "application/json, text/event-stream"}
        assert client.get("/mcp", headers=streaming).status_code == 405


async def test_http_and_mcp_share_one_memory(server: Running) -> None:
    with server.client(server.key("both")) as http:
        http.post("/v1/spaces/both/sessions?wait=true", json=BIKE)
    async with over_http(server, server.key("both")) as client:
        found = await data(client, "recall", question="gravel bike")
    assert "1,450" in str(found["cards"])


TOO_LONG = "x" * 1_000_001
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("correct", {"card": "c0", "fact": "x"}, "no card 'c0'"),
    ("correct", {"card": "c0", "action": "pin"}, "no card 'c0'"),
    ("correct", {"card": "c0", "action": "undo"}, "no card 'c0'"),
    ("correct", {"card": "GONE", "fact": "x"}, "may have been forgotten"),
    ("correct", {"card": "CARD"}, "Say what to correct"),
    ("correct", {"card": "CARD", "action": "undo"}, "never corrected"),
    ("note", {"text": "Late.", "key": "k", "until": "2020-01-01"}, "in the past"),
    ("note", {"text": "Long.", "key": "k", "value": TOO_LONG}, "Nothing was stored"),
    ("forget", {"key": "k"}, "no note with the key"),
    ("forget", {"card": "c0"}, "no card 'c0'"),
    ("recall", {"question": "Which bike?", "labels": {"topic": "x"}}, "label"),
    ("recall", {"question": "Which bike?", "sessions": ["x"]}, "no session 'x'"),
    ("recall", {"question": "Which bike?", "as_of": "soon"}, "as_of"),
    ("remember", {"session": "x", "rebuild": True}, "'x'"),
    ("recall", {}, "question: this is required."),
    ("show", {"what": "all"}, "what: it should be 'profile', 'history'"),
    ("forget", {"card": "CARD", "dry_run": True}, "forget has no argument 'dry_run'. It has card"),
    ("show", {"what": "history", "name": "Jonas"}, "Jonas"),
    ("show", {"what": "profile", "name": "Jonas"}, "Jonas"),
]


ASKED = {"question": "Which bike did I buy?"}


async def test_a_wrong_call_says_why_and_changes_nothing(server: Running) -> None:
    async with over_http(server, server.key("wrong")) as client:
        made = await data(client, "remember", turns=[{"text": BOUGHT}, {"text": "I own a hat."}])
        ids = dict(zip(("CARD", "GONE"), (each.split()[0] for each in made["cards"]), strict=True))
        await data(client, "forget", card=ids["GONE"])
        before = (server.home / "wrong.db").stat().st_size, await data(client, "recall", **ASKED)
        for tool, given, says in WRONG:
            named = {name: ids.get(str(value), value) for name, value in given.items()}
            refused = await client.call_tool(tool, named)
            assert refused.is_error, (tool, given)
            assert says in str(refused.content), (says, refused.content)
        after = (server.home / "wrong.db").stat().st_size, await data(client, "recall", **ASKED)
    assert after == before
