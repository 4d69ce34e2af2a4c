"""A chat URL that remembers, used by the real openai client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest

from justmem.runtime import tokens
from justmem.server.proxy.formats import Exchange, exchange_of
from justmem_eval.loopback import Request, Respond, Served, chat_body, serve_openai
from replies import chat_stream, error_body
from servers import Running, serve, until
from stories import BIKE

KEY = "upstream-secret"
WHO = ("User: ", "Assistant: You said: ")


@dataclass
class Proxy:
    server: Running
    upstream: Served

    def client(self, key: str, **headers: str) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.server.url}/v1",
            api_key=key,
            default_headers=headers,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(trust_env=False),
        )

    def seen(self) -> Any:
        return self.upstream.requests[-1].body


def upstream(request: Request) -> Respond:
    if request.path == "/v1/models":
        return Respond({"object": "list", "data": [{"id": "m", "object": "model"}]})
    last = request.body["messages"][-1]["content"]
    if last == "zipped":
        return Respond(b"no gzip at all", headers={"content-encoding": "gzip"})
    if last == "deep":
        return Respond(b"[" * 100_000)
    if last == "fail":
        return Respond(error_body("The model is overloaded."), status=503)
    if request.body.get("stream"):
        return Respond(chat_stream(f"You said: {last}"), pace=0.02)
    return Respond(chat_body(f"You said: {last}"), headers={"x-request-id": "abc"})


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with serve_openai(upstream) as behind:
        settings = f'upstream = "{behind.url}"\npause_seconds = 0.1'
        folder = tmp_path_factory.mktemp("proxy")
        with serve(folder, server=settings, JUSTMEM_UPSTREAM_KEY=KEY) as running:
            yield Proxy(running, behind)


def say(client: openai.OpenAI, *texts: str, **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": text} for text in texts]
    return client.chat.completions.with_raw_response.create(model="m", messages=messages, **more)


def turns_of(proxy: Proxy, space: str, session: str) -> list[str]:
    with proxy.server.owner() as owner:
        answer = owner.get(f"/v1/spaces/{space}/sessions/{session}")
        if answer.status_code != 200:
            return []
        return [f"{turn['speaker']}: {turn['text']}" for turn in answer.json()["turns"]]


def filled(proxy: Proxy, space: str) -> str:
    key = proxy.server.key(space)
    with proxy.server.client(key) as client:
        client.post(f"/v1/spaces/{space}/sessions?wait=true", json=BIKE).raise_for_status()
    return key


# ---------------------------------------------------------------- before


def test_relevant_memory_is_added_as_a_fenced_note(proxy: Proxy) -> None:
    client = proxy.client(filled(proxy, "rider"))
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What did the gravel bike cost?"},
    ]
    raw = client.chat.completions.with_raw_response.create(
        model="m", messages=messages, temperature=0.5, user="u1"
    )
    first, note, last = proxy.seen()["messages"]
    assert first["content"] == "Be brief."
    assert note["role"] == "system"
    assert "<memory-" in note["content"]
    assert "1,450 euros" in note["content"]
    assert last == messages[1]
    assert (proxy.seen()["temperature"], proxy.seen()["user"]) == (0.5, "u1")
    receipt = json.loads(raw.headers["x-justmem-receipt"])
    assert receipt["cards"] > 0
    assert receipt["tokens"] == tokens.count(note["content"])
    assert raw.headers["x-request-id"] == "abc"
    assert raw.parse().choices[0].message.content == "You said: What did the gravel bike cost?"


@pytest.mark.parametrize("text", ["hi", "thanks, that helps!"])
def test_small_talk_adds_nothing_and_costs_nothing(proxy: Proxy, text: str) -> None:
    raw = say(proxy.client(filled(proxy, "polite")), text)
    assert proxy.seen()["messages"] == [{"role": "user", "content": text}]
    receipt = json.loads(raw.headers["x-justmem-receipt"])
    assert (receipt["cards"], receipt["tokens"], receipt["model_tokens"]) == (0, 0, 0)


def test_the_note_has_at_most_note_tokens(tmp_path: Path) -> None:
    with serve_openai(upstream) as behind:
        settings = f'upstream = "{behind.url}"\nnote_tokens = 100'
        with serve(tmp_path / "small", server=settings) as running:
            proxy = Proxy(running, behind)
            key = running.key("much")
            with running.client(key) as client:
                for number in range(12):
                    said = f"I bought gravel bike number {number} in the shop at the river."
                    session = {
                        "id": f"s{number}",
                        "at": "2024-05-20",
                        "turns": [{"role": "user", "text": said}],
                    }
                    client.post("/v1/spaces/much/sessions?wait=true", json=session)
            raw = say(proxy.client(key), "Which gravel bike did I buy?")
    note = proxy.seen()["messages"][0]["content"]
    assert 0 < tokens.count(note) <= 100
    assert 0 < json.loads(raw.headers["x-justmem-receipt"])["cards"] < 10


def test_the_upstream_gets_its_own_key_and_not_ours(proxy: Proxy) -> None:
    key = proxy.server.key("secretive")
    say(proxy.client(key, **{"X-JustMem-Session": "x"}), "hello")
    headers = proxy.upstream.requests[-1].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert key not in json.dumps(dict(headers))
    assert not [name for name in headers if name.startswith("x-justmem")]


# ---------------------------------------------------------------- after


def test_what_was_said_is_remembered_under_the_conversation(proxy: Proxy) -> None:
    key = proxy.server.key("talks")
    client = proxy.client(key, **{"X-JustMem-Session": "trip"})
    raw = say(client, "I booked a trip to Kyoto.")
    assert json.loads(raw.headers["x-justmem-receipt"])["session"] == "chat-trip"
    assert turns_of(proxy, "talks", "chat-trip") == [
        "User: I booked a trip to Kyoto.",
        "Assistant: You said: I booked a trip to Kyoto.",
    ]
    with proxy.server.client(key) as http:
        until(lambda: http.get("/v1/spaces/talks").json()["sessions"] == {"stored": 1})
    other = say(proxy.client(key, **{"X-JustMem-Session": "later"}), "Where is my trip to?")
    assert json.loads(other.headers["x-justmem-receipt"])["cards"] > 0
    assert "Kyoto" in proxy.seen()["messages"][0]["content"]


def test_a_conversation_without_a_name_belongs_to_the_day(proxy: Proxy) -> None:
    raw = say(proxy.client(proxy.server.key("daily")), "I like tea.")
    session = json.loads(raw.headers["x-justmem-receipt"])["session"]
    assert session.startswith("chat-20")
    assert len(turns_of(proxy, "daily", session)) == 2


def test_only_new_turns_of_a_request_are_appended(proxy: Proxy) -> None:
    client = proxy.client(proxy.server.key("grows"), **{"X-JustMem-Session": "c"})
    messages: list[Any] = [{"role": "user", "content": "One."}]
    for text in ("Two.", "Three."):
        reply = client.chat.completions.create(model="m", messages=messages)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        messages.append({"role": "user", "content": text})
    client.chat.completions.create(model="m", messages=messages)
    client.chat.completions.create(model="m", messages=messages)  # once more, for another reply
    turns = [f"{who}{said}" for said in ("One.", "Two.", "Three.") for who in WHO]
    until(lambda: turns_of(proxy, "grows", "chat-c") == turns)
    messages.append({"role": "assistant", "content": "You said: Three."})
    messages.append({"role": "user", "content": "Four."})
    client.chat.completions.create(model="m", messages=messages)
    until(lambda: turns_of(proxy, "grows", "chat-c")[6:7] == ["User: Four."])


def test_messages_since_the_last_reply_are_new() -> None:
    def read(messages: Any) -> Exchange:
        return exchange_of({"messages": messages})

    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    tool = {"role": "tool", "content": "42"}
    ask = {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url"}]}
    assert read([ask]) == Exchange(("Look",), question="Look")
    # Nothing is new, and what the user asked for is still recalled.
    assert read([ask, call, tool]) == Exchange((), question="Look")
    assert read([{"role": "assistant", "content": "Hi"}, ask, ask]) == Exchange(
        ("Look", "Look"), before="Hi", question="Look\nLook"
    )
    assert read(["nonsense", {"role": 5}, {}]) == Exchange(())


def test_a_key_that_may_only_read_recalls_and_does_not_remember(proxy: Proxy) -> None:
    filled(proxy, "quiet")
    raw = say(proxy.client(proxy.server.key("quiet", right="read")), "gravel bike?")
    receipt = json.loads(raw.headers["x-justmem-receipt"])
    assert receipt["cards"] > 0
    assert "session" not in receipt


# ---------------------------------------------------------------- streaming


def test_a_stream_passes_unchanged_and_is_remembered(proxy: Proxy) -> None:
    client = proxy.client(filled(proxy, "streams"), **{"X-JustMem-Session": "s"})
    with client.chat.completions.with_streaming_response.create(
        model="m", messages=[{"role": "user", "content": "gravel bike?"}], stream=True
    ) as raw:
        receipt = json.loads(raw.headers["x-justmem-receipt"])
        passed = b"".join(raw.iter_bytes())
    assert receipt["cards"] > 0
    assert passed == b"".join(chat_stream("You said: gravel bike?"))
    until(
        lambda: (
            turns_of(proxy, "streams", "chat-s")
            == ["User: gravel bike?", "Assistant: You said: gravel bike?"]
        )
    )


def test_a_stream_that_the_client_leaves_is_remembered_up_to_there(proxy: Proxy) -> None:
    client = proxy.client(proxy.server.key("leaves"), **{"X-JustMem-Session": "s"})
    with client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "tell " * 50}], stream=True
    ) as stream:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
    said = until(lambda: turns_of(proxy, "leaves", "chat-s"))
    assert said[0].startswith("User: tell")
    assert len(said) == 1 or len(said[1]) < 250
    assert "Traceback" not in proxy.server.log


# ---------------------------------------------------------------- trouble


def test_the_chat_goes_on_when_memory_fails(tmp_path: Path) -> None:
    with (
        serve_openai(upstream) as behind,
        serve(tmp_path / "s", server=f'upstream = "{behind.url}"') as running,
    ):
        proxy = Proxy(running, behind)
        key = running.key("broken")
        (running.home / "broken.db").write_bytes(b"this is not a database" * 1000)
        raw = say(proxy.client(key), "Are you there?")
        with proxy.client(key).chat.completions.with_streaming_response.create(
            model="m", messages=[{"role": "user", "content": "And now?"}], stream=True
        ) as streamed:
            assert "not recalled" in streamed.headers["x-justmem-error"]
            streamed.read()
    assert raw.parse().choices[0].message.content == "You said: Are you there?"
    assert "not re" in raw.headers["x-justmem-error"]
    assert str(tmp_path) not in raw.headers["x-justmem-error"]


def test_errors_of_the_upstream_are_passed_on(proxy: Proxy) -> None:
    with pytest.raises(openai.InternalServerError, match="overloaded"):
        say(proxy.client(proxy.server.key("err")), "fail")
    assert turns_of(proxy, "err", "chat-err") == []


def test_unusual_json_is_forwarded_unchanged(proxy: Proxy) -> None:
    sent = b'{"messages": [{"role": "user", "content": "half a pair: \\ud83d"}], "top_p": NaN}'
    headers = {"content-type": "application/json", "user-agent": b"caf\xc3\xa9"}
    with proxy.server.client(proxy.server.key("odd")) as client:
        answer = client.post("/v1/chat/completions", content=sent, headers=headers)
    assert answer.status_code == 200
    assert proxy.seen()["messages"][-1]["content"] == "half a pair: \ud83d"
    assert proxy.seen()["top_p"] != proxy.seen()["top_p"]


def test_a_malformed_answer_of_the_upstream_is_passed_on(proxy: Proxy) -> None:
    with proxy.server.client(proxy.server.key("broken")) as client:
        for said, status in (("zipped", 503), ("deep", 200)):
            body = {"messages": [{"role": "user", "content": said}]}
            assert client.post("/v1/chat/completions", json=body).status_code == status


def test_an_unreachable_upstream_is_an_error_that_chat_clients_understand(tmp_path: Path) -> None:
    with serve(tmp_path / "s", server='upstream = "http://127.0.0.1:9/v1"') as running:
        proxy = Proxy(running, Served("", []))
        with pytest.raises(openai.InternalServerError, match="does not answer"):
            say(proxy.client(running.key("x")), "hello")


def test_a_wrong_key_is_an_authentication_error(proxy: Proxy) -> None:
    with pytest.raises(openai.AuthenticationError, match="needs a key"):
        say(proxy.client("sk-wrong"), "hello")
    with pytest.raises(openai.NotFoundError):
        say(proxy.client(proxy.server.key("mine"), **{"X-JustMem-Space": "yours"}), "hello")


def test_without_an_upstream_the_error_names_the_setting(tmp_path: Path) -> None:
    with serve(tmp_path / "s") as running:
        client = Proxy(running, Served("", [])).client(running.key("x"))
        with pytest.raises(openai.NotFoundError, match="upstream"):
            say(client, "hello")
