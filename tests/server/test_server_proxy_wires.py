"""Responses and messages through the proxy, with the real openai and anthropic clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from justmem.server.proxy.formats import MESSAGES, RESPONSES, Format
from justmem_eval.loopback import Request, Respond, Served, serve_openai
from servers import Running, serve, until
from stories import BIKE

KEY, OTHER_KEY = "openai-upstream-secret", "anthropic-upstream-secret"
ASKED = "What did the gravel bike cost?"
REPLY = "It cost 1,450 euros."


def answer(request: Request) -> Respond:
    """A scripted server for both formats."""
    path = request.path.partition("?")[0]
    if path.endswith("/count_tokens"):
        return Respond({"input_tokens": 7})
    events = _message(request.body) if "/messages" in path else _response(request.body)
    if not request.body.get("stream"):
        return Respond(events[-1])
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events[:-1]]
    return Respond(tuple(line.encode() for line in lines))


def _calls_tool(body: Any) -> bool:
    said = json.dumps(body.get("messages", body.get("input")))
    return bool(body.get("tools")) and "call_1" not in said


def _response(body: Any) -> list[Any]:
    """Events of a stream, and last the whole response."""
    if _calls_tool(body):
        call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
        output: list[Any] = [{**call, "id": "fc_1", "status": "completed"}]
    else:
        text = {"type": "output_text", "text": REPLY, "annotations": []}
        output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed"}]
        output[0]["content"] = [text]
    id = "resp_tool" if _calls_tool(body) else "resp_1"
    whole = {"id": id, "object": "response", "created_at": 1, "model": "m", "output": output}
    whole |= {
        "status": "completed",
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
    }
    counts = {"input_tokens": 500, "output_tokens": 9, "total_tokens": 509}
    counts |= {"input_tokens_details": {"cached_tokens": 0}}
    whole["usage"] = counts | {"output_tokens_details": {"reasoning_tokens": 0}}
    at = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
    pieces = [
        {"type": "response.output_text.delta", "delta": piece, "sequence_number": number, **at}
        for number, piece in enumerate((REPLY[:8], REPLY[8:]), 1)
    ]
    started = {"type": "response.created", "response": whole | {"output": []}}
    ended = {"type": "response.completed", "response": whole, "sequence_number": 3}
    item = {"type": "response.output_item.added", "output_index": 0, "sequence_number": 0}
    item["item"] = {**output[0], "content": []}
    part = {"type": "response.content_part.added", **at, "sequence_number": 0}
    part["part"] = {"type": "output_text", "text": "", "annotations": []}
    return [started | {"sequence_number": 0}, item, part, *pieces, ended, whole]


def _message(body: Any) -> list[Any]:
    if _calls_tool(body):
        blocks: list[Any] = [{"type": "tool_use", "id": "call_1", "name": "look", "input": {}}]
    else:
        blocks = [
            {"type": "thinking", "thinking": "The bike.", "signature": "c2lnbmF0dXJl"},
            {"type": "text", "text": REPLY},
        ]
    usage = {"input_tokens": 20, "cache_read_input_tokens": 480, "output_tokens": 9}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    whole |= {"content": blocks, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    events: list[Any] = [{"type": "message_start", "message": whole | {"content": []}}]
    for index, block in enumerate(blocks):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "thinking": ""}
        delta = {"type": "text_delta", "text": REPLY}
        if block["type"] == "thinking":
            delta = {"type": "thinking_delta", "thinking": block["thinking"]}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}})
    return [*events, {"type": "message_stop"}, whole]


@pytest.fixture(scope="module")
def behind() -> Iterator[Served]:
    with serve_openai(answer) as served:
        yield served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, behind: Any) -> Iterator[Running]:
    settings = f'upstream = "{behind.url}"\nanthropic_upstream = "{behind.url}"\n'
    keys = {"JUSTMEM_UPSTREAM_KEY": KEY, "JUSTMEM_ANTHROPIC_UPSTREAM_KEY": OTHER_KEY}
    folder = tmp_path_factory.mktemp("wires")
    with serve(folder, "", server=settings + "pause_seconds = 0.1", **keys) as running:
        yield running


def filled(server: Running, space: str) -> str:
    key = server.key(space)
    with server.client(key) as client:
        client.post(f"/v1/spaces/{space}/sessions?wait=true", json=BIKE).raise_for_status()
    return key


def openai_client(server: Running, key: str) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, http_client=http)


def anthropic_client(server: Running, key: str) -> anthropic.Anthropic:
    http = anthropic.DefaultHttpxClient(trust_env=False)
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0, http_client=http)


def remembered(server: Running, space: str) -> list[str]:
    """The turns of the chats of a space."""
    with server.owner() as owner:
        sessions = owner.get(f"/v1/spaces/{space}/sessions").json()
        chats = [each["id"] for each in sessions if each["id"].startswith("chat-")]
        found = [owner.get(f"/v1/spaces/{space}/sessions/{id}").json() for id in chats]
    return [f"{turn['speaker']}: {turn['text']}" for each in found for turn in each["turns"]]


SAID = [f"User: {ASKED}", f"Assistant: {REPLY}"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_gets_its_note_and_is_remembered(
    server: Running, behind: Served, stream: bool
) -> None:
    space = f"responds-{stream}"
    client = openai_client(server, filled(server, space))
    given: dict[str, Any] = {"model": "m", "input": ASKED, "instructions": "Be brief."}
    if stream:
        with client.responses.stream(**given) as events:
            text = events.get_final_response().output_text
    else:
        raw = client.responses.with_raw_response.create(**given)
        text = raw.parse().output_text
        receipt = json.loads(raw.headers["x-justmem-receipt"])
        assert receipt["cards"] > 0
    assert text == REPLY
    sent = behind.requests[-1]
    assert sent.path == "/v1/responses"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert behind.requests[-1].body["instructions"].startswith("Be brief.\n\n")
    assert "1,450 euros" in behind.requests[-1].body["instructions"]
    assert behind.requests[-1].body["input"] == ASKED
    until(lambda: remembered(server, space) == SAID)


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_gets_its_note_last_in_system_and_is_remembered(
    server: Running, behind: Served, stream: bool
) -> None:
    space = f"messages-{stream}"
    client = anthropic_client(server, filled(server, space))
    cached: Any = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    given: dict[str, Any] = {
        "model": "m",
        "max_tokens": 100,
        "system": [cached],
        "messages": [{"role": "user", "content": ASKED}],
    }
    if stream:
        with client.messages.stream(**given) as events:
            final = events.get_final_message()
    else:
        final = client.messages.create(**given)
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert final.content[1].text == REPLY  # type: ignore[union-attr]
    headers = behind.requests[-1].headers
    assert headers["x-api-key"] == OTHER_KEY
    assert headers["anthropic-version"]
    assert "authorization" not in headers
    first, note = behind.requests[-1].body["system"]
    assert first == cached
    assert "1,450 euros" in note["text"]
    assert "cache_control" not in note
    assert behind.requests[-1].body["messages"] == given["messages"]
    until(lambda: remembered(server, space) == SAID)


def test_a_tool_loop_keeps_its_memory_and_repeats_no_turn(server: Running, behind: Served) -> None:
    client = anthropic_client(server, filled(server, "loops"))
    tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    step = client.messages.create(model="m", max_tokens=9, messages=messages, tools=tools)
    first = behind.requests[-1].body["system"]
    messages.append({"role": "assistant", "content": step.content})
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "seen"}
    reminder = {"type": "text", "text": "<system-reminder>Use the tools.</system-reminder>"}
    messages.append({"role": "user", "content": [result, reminder]})
    client.messages.create(model="m", max_tokens=9, messages=messages, tools=tools)
    assert behind.requests[-1].body["system"] == first  # the same text, for the provider's cache
    assert "1,450 euros" in first
    until(lambda: remembered(server, "loops") == SAID)


def test_a_response_that_continues_another_keeps_its_memory(
    server: Running, behind: Served
) -> None:
    client = openai_client(server, filled(server, "continues"))
    tools: Any = [{"type": "function", "name": "look", "parameters": {}, "strict": False}]
    step = client.responses.create(model="m", input=ASKED, tools=tools)
    first = behind.requests[-1].body["instructions"]
    output: Any = [{"type": "function_call_output", "call_id": "call_1", "output": "seen"}]
    client.responses.create(model="m", input=output, tools=tools, previous_response_id=step.id)
    assert behind.requests[-1].body["previous_response_id"] == "resp_tool"
    assert behind.requests[-1].body["instructions"] == first
    until(lambda: remembered(server, "continues") == SAID)


def test_everything_but_the_note_is_forwarded_unchanged(server: Running, behind: Served) -> None:
    key = filled(server, "bytes")
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln+/="}
    parts = [{"role": "user", "content": "Hi 👋"}, {"role": "assistant", "content": [thought]}]
    parts.append({"role": "user", "content": ASKED})
    head = b'{ "model":"m",\n "max_tokens": 100, "temperature":1.00, "x": "\\ud83d", "messages" : '
    raw = head + json.dumps(parts, ensure_ascii=False).encode() + b', "system" : [ ] }'
    headers = {"x-api-key": key, "content-type": "application/json"}
    url = f"{server.url}/v1/messages?beta=true"
    answer = httpx.post(url, content=raw, headers=headers, trust_env=False)
    assert answer.status_code == 200
    assert behind.requests[-1].path == "/v1/messages?beta=true"
    assert len(behind.requests[-1].body["system"]) == 1
    assert behind.requests[-1].body | {"system": []} == json.loads(raw)
    # A message that nothing bears on passes byte for byte.
    plain = raw.replace(ASKED.encode(), b"hi")
    httpx.post(url, content=plain, headers=headers, trust_env=False)
    assert behind.requests[-1].raw == plain


def test_counting_tokens_passes_through(server: Running, behind: Served) -> None:
    client = anthropic_client(server, server.key("counts"))
    messages: Any = [{"role": "user", "content": ASKED}]
    assert client.messages.count_tokens(model="m", messages=messages).input_tokens == 7
    assert behind.requests[-1].body == {"model": "m", "messages": messages}


def test_every_format_is_counted_and_limited(
    tmp_path_factory: pytest.TempPathFactory, behind: Any
) -> None:
    settings = f'upstream = "{behind.url}"\nanthropic_upstream = "{behind.url}"'
    budget = "[budget]\nday_tokens = 6000"
    with serve(tmp_path_factory.mktemp("costs"), "", server=f"{settings}\n{budget}") as running:
        key = running.key("ana")
        message: Any = {"role": "user", "content": "hello"}
        claude, gpt = anthropic_client(running, key), openai_client(running, key)
        claude.messages.create(model="m", max_tokens=100, messages=[message])
        gpt.responses.create(model="m", input="hello", max_output_tokens=100)

        def spent() -> int:
            with running.owner() as owner:
                return int(owner.get("/v1/spaces/ana").json()["spent_tokens"])

        until(lambda: spent() == 2 * 509)
        with pytest.raises(anthropic.APIStatusError, match="daily limit") as refused:
            claude.messages.create(model="m", max_tokens=6000, messages=[message])
        assert refused.value.status_code == 402
        with pytest.raises(openai.APIStatusError, match="daily limit"):
            gpt.responses.create(model="m", input="hello", max_output_tokens=6000)


@pytest.mark.parametrize(
    ("format", "name", "earlier", "expected"),
    [
        (RESPONSES, "instructions", None, "note"),
        (RESPONSES, "instructions", "say x", "say x\n\nnote"),
        (MESSAGES, "system", None, "note"),
        (MESSAGES, "system", "say x", "say x\n\nnote"),
        (MESSAGES, "system", [{"a": 1}], [{"a": 1}, {"type": "text", "text": "note"}]),
    ],
)
def test_a_note_comes_after_the_instructions(
    format: Format, name: str, earlier: Any, expected: Any
) -> None:
    body = {name: earlier, "model": "m"}
    format.add_note(body, "note")
    assert body == {name: expected, "model": "m"}
