"""Oversized, slow, hasty and vanishing clients; a server that is killed, and one that stops."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from justmem import open_async
from justmem.errors import TooMany
from justmem.server.access_keys import Rates
from justmem_eval.loopback import Request, Respond, Served, chat_body, serve_openai
from servers import Running, serve, until
from stories import BIKE, RUN

ASKED = {"question": "What did the gravel bike cost?", "at": "2024-06-01T12:00"}
ANSWER = {"answer": "It cost 1,450 euros.", "used": ["1"], "sufficient": True}


# ---------------------------------------------------------------- one key


def test_a_bucket_empties_and_fills_again() -> None:
    now = 0.0
    rates = Rates(2, 3, clock=lambda: now)
    for _ in range(3):
        rates.admit("a")
    with pytest.raises(TooMany) as caught:
        rates.admit("a")
    assert caught.value.after == pytest.approx(0.5)
    rates.admit("b")  # another key has a bucket of its own
    now = 0.5
    rates.admit("a")
    now = 100.0
    for _ in range(3):
        rates.admit("a")
    with pytest.raises(TooMany):
        rates.admit("a")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tight = "body_bytes = 20000\nclient_seconds = 1\nrate = 1000"

    def slow(request: Request) -> Respond:
        return Respond(chat_body(ANSWER), delay=1.0)

    with serve_openai(slow) as model:
        settings = f'answerer = "openai:m@{model.url}"'
        with serve(tmp_path_factory.mktemp("limits"), settings, server=tight) as running:
            with running.owner() as owner:
                owner.post("/v1/spaces/ana/sessions?wait=true", json=BIKE)
            yield running


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client(server.key("ana")) as opened:
        yield opened


def test_a_key_over_its_rate_is_told_when_to_retry(tmp_path: Path) -> None:
    with serve(tmp_path / "hasty", server="rate = 0.01\nburst = 3") as running:
        with running.client(running.key("ana")) as client:
            statuses = [client.get("/v1/spaces").status_code for _ in range(4)]
            last = client.get("/v1/spaces")
        assert statuses == [200, 200, 200, 429]
        assert int(last.headers["retry-after"]) >= 1
        with running.client(running.key("ana")) as other:
            assert other.get("/v1/spaces").status_code == 200


# ---------------------------------------------------------------- bodies


def test_a_large_body_is_refused_by_its_content_length(client: httpx.Client) -> None:
    answer = client.post("/v1/spaces/ana/recall", json={"question": "x" * 30_000})
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:justmem:problem:too-large"


def test_an_endless_body_is_cut_off(client: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"question": "'
        for _ in range(100):
            yield b"x" * 1000

    answer = client.post("/v1/spaces/ana/recall", content=endless())
    assert answer.status_code == 413


JSON = {"content-type": "application/json"}
MALFORMED: list[tuple[bytes, dict[str, str], str]] = [
    (b"", JSON, "body: this is required."),
    (b"{", JSON, "body.1: it is not JSON."),
    (b'{"question": "x", "labels": []}', JSON, "body.labels: it should be a JSON object."),
    (b"[]", JSON, "send a JSON object"),
    (b"null", JSON, "send a JSON object"),
    (b'"text"', JSON, "send a JSON object"),
    (b'{"question": "x"}', {"content-type": "text/plain"}, "Content-Type: application/json"),
    (b'{"question": 5}', JSON, "body.question: "),
    (b'{"question": ""}', JSON, "The question is empty"),
    (b'{"question": "x", "more": 1}', JSON, "body.more: there is no such field."),
    (b'{"question": "x", "at": "tomorrow"}', JSON, "'tomorrow' is not a time"),
    (b'{"question": "x", "at": 1e400}', JSON, ""),
    (b'{"question": "x", "at": NaN}', JSON, ""),
    (b'{"question": "\xff"}', JSON, ""),
    (b"[" * 5000, JSON, ""),
]


def test_malformed_requests_get_a_problem_that_says_what_is_wrong(client: httpx.Client) -> None:
    for body, headers, says in MALFORMED:
        answer = client.post("/v1/spaces/ana/recall", content=body, headers=headers)
        assert answer.status_code in (400, 422), body
        assert answer.headers["content-type"] == "application/problem+json"
        assert says in answer.json()["detail"], body


def connected(server: Running) -> socket.socket:
    host, port = urlsplit(server.url).netloc.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(server: Running, method: str, path: str, length: int, more: str = "") -> bytes:
    key = server.key("ana")
    lines = [
        f"{method} {path} HTTP/1.1",
        f"host: {urlsplit(server.url).netloc}",
        f"authorization: Bearer {key}",
        "content-type: application/json",
        f"content-length: {length}",
        *([more] if more else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_a_slow_body_is_refused(server: Running) -> None:
    with connected(server) as slow:
        slow.sendall(head(server, "POST", "/v1/spaces/ana/recall", 1000) + b'{"question"')
        answer = slow.recv(4000)
    assert b" 408 " in answer.partition(b"\r\n")[0]


def test_a_client_that_leaves_before_its_body_is_complete_harms_nobody(server: Running) -> None:
    for _ in range(5):
        with connected(server) as gone:
            gone.sendall(head(server, "POST", "/v1/spaces/ana/sessions", 1000) + b'{"turns"')
    with server.owner() as owner:
        assert owner.get("/v1/spaces/ana").status_code == 200
    assert "Traceback" not in server.log


def spent(server: Running) -> int:
    with server.owner() as owner:
        return int(owner.get("/v1/spaces/ana").json()["spent_tokens"])


def test_an_answer_is_counted_although_its_reader_left(server: Running) -> None:
    before = spent(server)
    body = json.dumps(ASKED).encode()
    with connected(server) as leaving:
        leaving.sendall(head(server, "POST", "/v1/spaces/ana/ask", len(body)) + body)
    until(lambda: spent(server) >= before + 120)
    assert "Traceback" not in server.log


# ---------------------------------------------------------------- killed, and stopped


def hanging(request: Request) -> Respond:
    return Respond(chat_body({"cards": []}), delay=30.0)


def served_by(folder: Path, model: Served, stage: str, server: str = "") -> Any:
    return serve(folder, f'{stage} = "openai:m@{model.url}"', server=server)


def state_of(server: Running, space: str, session: str) -> Any:
    with server.owner() as owner:
        answer = owner.get(f"/v1/spaces/{space}/sessions/{session}/status")
        return answer.json()["state"] if answer.status_code == 200 else None


def test_an_accepted_session_survives_a_kill_and_gets_its_cards(tmp_path: Path) -> None:
    with serve_openai(hanging) as model, served_by(tmp_path / "s", model, "extractor") as running:
        with running.owner() as owner:
            for number in range(20):
                sent = {**BIKE, "id": f"bike{number}"}
                assert owner.post("/v1/spaces/ana/sessions", json=sent).status_code == 202
            changed = {**BIKE, "id": "bike19", "turns": BIKE["turns"][:1]}
            assert owner.post("/v1/spaces/ana/sessions", json=changed).status_code == 202
            assert owner.get("/v1/spaces/ana").json()["sessions"] == {"pending": 20}
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
    with serve(tmp_path / "s", 'extractor = "rules"') as running, running.owner() as owner:
        until(lambda: owner.get("/v1/spaces/ana").json()["sessions"] == {"stored": 20})
        assert len(owner.get("/v1/spaces/ana/sessions/bike19").json()["turns"]) == 1


def test_sessions_that_a_stopping_server_cannot_finish_stay_pending(tmp_path: Path) -> None:
    with serve_openai(hanging) as model:
        settings = f'extractor = "openai:m@{model.url}"'
        with serve(tmp_path / "s", settings, server="grace_seconds = 1") as running:
            with running.owner() as owner:
                assert owner.post("/v1/spaces/ana/sessions", json=BIKE).status_code == 202
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(15) in (0, -signal.SIGTERM)
        assert "Traceback" not in running.log
    with serve(tmp_path / "s") as running:
        until(lambda: state_of(running, "ana", "bike") == "stored")


def test_a_full_queue_refuses_and_stores_nothing(tmp_path: Path) -> None:
    with (
        serve_openai(hanging) as model,
        served_by(tmp_path / "s", model, "extractor", "queue = 2\ngrace_seconds = 0") as running,
        running.owner() as owner,
    ):
        # At most three are in work: one worker of four is left to other spaces.
        sent = [{**BIKE, "id": f"bike{number}"} for number in range(8)]
        answers = [owner.post("/v1/spaces/ana/sessions", json=each) for each in sent]
        assert {answer.status_code for answer in answers} == {202, 503}
        assert int(answers[-1].headers["retry-after"]) >= 1
        stored = owner.get("/v1/spaces/ana/sessions").json()
        assert len(stored) == sum(answer.status_code == 202 for answer in answers) <= 5


def test_a_failed_session_is_retried_on_request(tmp_path: Path) -> None:
    replies = iter([Respond({"error": "no"}, status=401)])
    cards = {"cards": ["User | bought a gravel bike | 2024-05-20 | completed | event | 1"]}
    with (
        serve_openai(lambda _: next(replies, Respond(chat_body(cards)))) as model,
        served_by(tmp_path / "s", model, "extractor") as running,
        running.owner() as owner,
    ):
        done = owner.post("/v1/spaces/ana/sessions?wait=true", json=BIKE).json()
        assert done["state"] == "failed"
        assert done["reason"]
        again = owner.post("/v1/spaces/ana/retry?session=bike")
        assert (again.status_code, again.json()) == (202, {"sessions": 1})
        until(lambda: state_of(running, "ana", "bike") == "stored")
        assert owner.post("/v1/spaces/ana/retry").json() == {"sessions": 0}
        asked = len(model.requests)
        assert owner.post("/v1/spaces/ana/rebuild?session=bike").json() == {"sessions": 1}
        until(lambda: len(model.requests) == asked + 1)
        until(lambda: state_of(running, "ana", "bike") == "stored")


def test_an_ask_that_takes_too_long_is_told_so_and_still_counted(tmp_path: Path) -> None:
    quick = "request_seconds = 3"
    with (
        serve_openai(lambda _: Respond(chat_body(ANSWER), delay=600.0)) as model,
        served_by(tmp_path / "s", model, "answerer", server=quick) as running,
        running.owner() as owner,
    ):
        owner.post("/v1/spaces/ana/sessions", json=BIKE)
        until(lambda: state_of(running, "ana", "bike") == "stored")
        late = owner.post("/v1/spaces/ana/ask", json=ASKED)
        assert late.status_code == 504
        until(lambda: owner.get("/v1/spaces/ana").json()["spent_tokens"] >= 120)


async def test_memory_in_a_process_beside_the_server_sees_the_same(tmp_path: Path) -> None:
    with serve(tmp_path / "s") as running, running.owner() as owner:
        owner.post("/v1/spaces/ana/sessions?wait=true", json=BIKE)
        light = {"embedder": "justmem.testing:HashEmbedder", "reranker": "none"}
        async with open_async("ana", folder=running.home, **light) as memory:
            await memory.remember(RUN)
            assert len(await memory.sessions()) == 2
        assert owner.get("/v1/spaces/ana").json()["sessions"] == {"stored": 2}
