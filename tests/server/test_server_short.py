"""A server that keeps little: what it redacts, drops and expires, over HTTP and the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from justmem_eval.loopback import chat_body, serve_openai
from servers import Running, serve, until
from stories import HISTORY

CARD = "4111 1111 1111 1111"
SETTINGS = 'redact = "secrets"\nretention = { days = 20000, source_days = 0 }'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_openai(lambda _: chat_body("Noted.")) as behind:
        proxy = f'upstream = "{behind.url}"\npause_seconds = 0.1'
        with serve(tmp_path_factory.mktemp("short"), SETTINGS, server=proxy) as running:
            yield running


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with server.owner() as client:
        yield client


def held(server: Running) -> bytes:
    return b"".join(path.read_bytes() for path in server.home.iterdir() if path.is_file())


def remembered(client: httpx.Client, space: str, session: Any) -> Any:
    done = client.post(f"/v1/spaces/{space}/sessions?wait=true", json=session)
    assert done.status_code == 200, done.text
    return done.json()


def test_text_sent_over_http_is_redacted_first(server: Running, client: httpx.Client) -> None:
    said = {"at": "2024-05-01", "turns": [{"role": "user", "text": f"I paid with {CARD} today."}]}
    done = remembered(client, "redacted", said)
    assert "1 of 1 turns were redacted" in done["receipt"]["notes"]
    # The id that was made from the words is the one the session is known by.
    status = client.get(f"/v1/spaces/redacted/sessions/{done['session_id']}/status")
    assert status.json()["state"] == done["state"] == "stored"
    asked = client.post("/v1/spaces/redacted/ask", json={"question": f"Who paid with {CARD}?"})
    assert asked.json()["evidence"]["question"] == "Who paid with [card number]?"
    assert b"1111" not in held(server)
    assert "1111" not in server.log


def test_a_card_can_be_read_without_its_words(server: Running, client: httpx.Client) -> None:
    for session in HISTORY:
        remembered(client, "cards", session)
    cards = client.get("/v1/spaces/cards/cards").json()
    one = client.get(f"/v1/spaces/cards/cards/{cards[0]['id']}").json()
    assert one["card"]["id"] == cards[0]["id"]
    assert not any(citation["kept"] for citation in one["source"]["citations"])
    session = client.get("/v1/spaces/cards/sessions/run").json()
    assert {turn["text"] for turn in session["turns"]} == {""}
    preview = client.post("/v1/spaces/cards/forget", json={"session": "run", "preview": True})
    assert preview.json()["forgotten"]["turns"] == 3
    assert b"Saiho-ji" not in held(server)


def test_a_chat_continues_after_its_words_were_removed(client: httpx.Client) -> None:
    """The cards of what was said before stay, although their words cannot be added to."""
    headers = {"x-justmem-space": "chat", "x-justmem-session": "trip"}

    def say(text: str) -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        assert client.post("/v1/chat/completions", json=body, headers=headers).is_success

    def stored() -> dict[str, str]:
        answer = client.get("/v1/spaces/chat/sessions")
        found = answer.json() if answer.is_success else []
        return {each["id"]: each["state"] for each in found}

    say("I moved to Porto in May.")
    until(lambda: stored() == {"chat-trip": "stored"})
    say(f"I bought a piano with {CARD}.")
    until(lambda: len(client.get("/v1/spaces/chat/cards").json()) == 2)
    facts = [card["fact"] for card in client.get("/v1/spaces/chat/cards").json()]
    assert any("Porto" in fact for fact in facts)
    assert any("[card number]" in fact for fact in facts)


def test_a_server_expires_by_its_own_clock(tmp_path: Path) -> None:
    with serve(tmp_path) as first, first.owner() as client:
        remembered(client, "ana", HISTORY[0])  # of 2024
    with serve(tmp_path, "retention = { days = 30 }") as again, again.owner() as client:
        until(lambda: client.get("/v1/spaces/ana/sessions").json() == [])
