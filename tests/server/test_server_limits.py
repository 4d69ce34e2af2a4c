"""Oversized, slow, hasty and vanishing clients; a server that is killed, and one that stops."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from justmem import Session, open_async
from justmem.config import ServerSettings
from justmem.errors import NoRoom, NotInMemory, StoreBusy, TooMany, TooSlow
from justmem.intake.sessions import as_session
from justmem.language.languages import LANGUAGES
from justmem.server import question_priority
from justmem.server.ingestion import Ingestion
from justmem.server.metrics import Metrics
from justmem.server.rate_limits import Limits
from justmem.spaces.opened import OpenSpaces
from justmem.store.storage import storage
from justmem.testing import Request, Respond, Served, chat_body, chat_stream, serve_openai
from servers import Running, serve, until
from stories import BIKE, RUN

ASKED = {"question": "What did the gravel bike cost?", "at": "2024-06-01T12:00"}
ANSWER = {"answer": "It cost 1,450 euros.", "used": ["1"], "sufficient": True}


# ---------------------------------------------------------------- one key


def test_a_bucket_empties_and_fills_again() -> None:
    now = 0.0
    limits = Limits(ServerSettings(rate=2, burst=3), clock=lambda: now)
    for _ in range(3):
        limits.admit("a")
    with pytest.raises(TooMany) as caught:
        limits.admit("a")
    assert caught.value.after == pytest.approx(0.5)
    limits.admit("b")  # another key has a bucket of its own
    now = 0.5
    limits.admit("a")
    now = 100.0
    for _ in range(3):
        limits.admit("a")
    with pytest.raises(TooMany):
        limits.admit("a")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    tight = "body_bytes = 20000\nbody_seconds = 1\nwrite_seconds = 2\nasks = 2\nrate = 1000"

    def slow(request: Request) -> Respond:
        if request.body.get("stream"):
            return Respond(chat_stream(ANSWER, size=2), pace=0.05)
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


def test_too_hasty_a_key_is_told_when_to_come_back(tmp_path: Path) -> None:
    with serve(tmp_path / "hasty", server="rate = 0.01\nburst = 3") as running:
        with running.client(running.key("ana")) as client:
            statuses = [client.get("/v1/spaces").status_code for _ in range(4)]
            last = client.get("/v1/spaces")
        assert statuses == [200, 200, 200, 429]
        assert int(last.headers["retry-after"]) >= 1
        with running.client(running.key("ana")) as other:
            assert other.get("/v1/spaces").status_code == 200


async def test_a_key_has_only_so_many_questions_under_way(server: Running) -> None:
    headers = {"authorization": f"Bearer {server.key('ana')}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False) as client:
        asks = [client.post("/v1/spaces/ana/ask", json=ASKED, timeout=30) for _ in range(5)]
        answers = await asyncio.gather(*asks)
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200, 200, 429, 429, 429]
        again = await client.post("/v1/spaces/ana/recall", json=ASKED)
        assert again.status_code == 200


# ---------------------------------------------------------------- bodies


def test_a_large_body_is_refused_by_its_announcement(client: httpx.Client) -> None:
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


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"question": 5}',
        b'{"question": ""}',
        b'{"question": "x", "more": 1}',
        b'{"question": "x", "at": "tomorrow"}',
        b'{"question": "x", "at": 1e400}',
        b'{"question": "x", "at": NaN}',
        b'{"question": "\xff"}',
        b'{"question": "\\ud800"}',
        b"[" * 5000,
    ],
)
def test_what_cannot_be_understood_is_a_problem_of_the_sender(
    client: httpx.Client, body: bytes
) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post("/v1/spaces/ana/recall", content=body, headers=headers)
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


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


def test_a_body_that_trickles_is_not_waited_for(server: Running) -> None:
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
        accept = "accept: text/event-stream"
        path = "/v1/spaces/ana/ask"
        leaving.sendall(head(server, "POST", path, len(body), accept) + body)
        heard = b""
        while b"event: token" not in heard:
            heard += leaving.recv(4000)
    until(lambda: spent(server) >= before + 120)
    assert "Traceback" not in server.log


def test_a_reader_that_stops_reading_is_left(server: Running) -> None:
    long = {**RUN, "id": "long", "turns": [{"role": "user", "text": "word " * 3000}]}
    with server.client(server.key("big")) as client:
        for number in range(40):
            client.post(
                "/v1/spaces/big/sessions?wait=true",
                json={**long, "id": f"long{number}"},
            ).raise_for_status()
    with connected(server) as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        key = server.key("big")
        stuck.sendall(
            f"GET /v1/spaces/big/export HTTP/1.1\r\nhost: {urlsplit(server.url).netloc}\r\n"
            f"authorization: Bearer {key}\r\n\r\n".encode()
        )
        time.sleep(0.2)
        with server.owner() as owner:  # meanwhile everyone else is served
            assert owner.get("/v1/spaces/ana").status_code == 200
        until(lambda: "/export" in server.log, 30)


# ---------------------------------------------------------------- killed, and stopped


def hanging(request: Request) -> Respond:
    return Respond(chat_body({"cards": []}), delay=30.0)


def served_by(folder: Path, model: Served, stage: str, server: str = "") -> Any:
    return serve(folder, f'{stage} = "openai:m@{model.url}"', server=server)


def state_of(server: Running, space: str, session: str) -> Any:
    with server.owner() as owner:
        answer = owner.get(f"/v1/spaces/{space}/sessions/{session}/status")
        return answer.json()["session"]["state"] if answer.status_code == 200 else None


def test_an_accepted_session_survives_a_kill_and_is_taken_up_again(tmp_path: Path) -> None:
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


def test_a_server_that_is_told_to_stop_parks_what_it_cannot_finish(tmp_path: Path) -> None:
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


def test_a_failed_session_is_retried_on_request(tmp_path: Path) -> None:
    replies = iter([Respond({"error": "no"}, status=400)])
    cards = {"cards": ["User | bought a gravel bike | 2024-05-20 | completed | event | 1"]}
    with (
        serve_openai(lambda _: next(replies, Respond(chat_body(cards)))) as model,
        served_by(tmp_path / "s", model, "extractor") as running,
        running.owner() as owner,
    ):
        done = owner.post("/v1/spaces/ana/sessions?wait=true", json=BIKE).json()
        assert done["state"] == "failed"
        assert "does not accept the request" in done["reason"]
        again = owner.post("/v1/spaces/ana/sessions/bike/retry")
        assert (again.status_code, again.json()) == (202, {"sessions": 1})
        until(lambda: state_of(running, "ana", "bike") == "stored")
        assert owner.post("/v1/spaces/ana/retry").json() == {"sessions": 0}


def test_an_ask_that_takes_too_long_is_told_so_and_still_counted(tmp_path: Path) -> None:
    quick = "request_seconds = 0.5"
    with (
        serve_openai(lambda _: Respond(chat_body(ANSWER), delay=2.0)) as model,
        served_by(tmp_path / "s", model, "answerer", server=quick) as running,
        running.owner() as owner,
    ):
        owner.post("/v1/spaces/ana/sessions", json=BIKE)
        until(lambda: state_of(running, "ana", "bike") == "stored")
        late = owner.post("/v1/spaces/ana/ask", json=ASKED)
        assert late.status_code == 504
        until(lambda: owner.get("/v1/spaces/ana").json()["spent_tokens"] >= 120)


# ---------------------------------------------------------------- the queue, from inside


def spaces_in(folder: Path, extractor: Any) -> OpenSpaces:
    from justmem.answer import RulesAnswerer
    from justmem.plan import RulesPlanner
    from justmem.testing import HashEmbedder

    parts = {
        "embedder": HashEmbedder(64),
        "extractor": extractor,
        "planner": RulesPlanner(LANGUAGES),
        "answerer": RulesAnswerer(LANGUAGES),
        "language": LANGUAGES,
    }
    return OpenSpaces(storage(folder), parts, most_open=2, idle_seconds=60)


class Gated:
    """An extractor that notes what it is given and waits to be let go on."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gate = asyncio.Event()

    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Any:
        from justmem.ports import Extraction

        self.seen.append(f"{session.id}:{session.turns[0].text}")
        await self.gate.wait()
        return Extraction(cards=[])


def said(id: str, text: str = "hello") -> Session:
    return as_session({"id": id, "at": "2024-05-20", "turns": [{"role": "user", "text": text}]})


async def test_spaces_take_turns(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    jobs = [await queue.accept("a", said(f"a{n}")) for n in range(3)]
    jobs += [await queue.accept("b", said("b0"))]
    gated.gate.set()
    await asyncio.gather(*(job.done for job in jobs))
    assert [each.partition(":")[0] for each in gated.seen] == ["a0", "a1", "b0", "a2"]
    await spaces.close()


async def test_one_space_never_has_all_the_workers(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 3, Metrics())
    jobs = [await queue.accept("a", said(f"a{n}")) for n in range(5)]
    await until_async(lambda: len(gated.seen) == 2)
    jobs += [await queue.accept("b", said("b0"))]
    await until_async(lambda: len(gated.seen) == 3)
    assert {each.partition(":")[0] for each in gated.seen} == {"a0", "a1", "b0"}
    gated.gate.set()
    await asyncio.gather(*(job.done for job in jobs))
    assert len(gated.seen) == 6
    await spaces.close()


async def test_what_was_at_work_when_the_process_died_is_taken_up_last(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    for space, id in (("a", "poison"), ("a", "a1"), ("b", "b1")):
        await queue.accept(space, said(id))
    await until_async(lambda: gated.seen == ["poison:hello"])
    async with spaces.use("a") as memory:
        (record,) = [each for each in await memory.sessions() if each.id == "poison"]
    assert (record.state, record.reason) == ("pending", "its cards are being made")
    await queue.stop(0)  # as if killed: nothing of it is settled
    await spaces.close()

    again = Gated()
    again.gate.set()
    spaces = spaces_in(tmp_path, again)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    await queue.take_up()
    await until_async(lambda: len(again.seen) == 3 and not queue.counts()["working"])
    assert [each.partition(":")[0] for each in again.seen][-1] == "poison"
    async with spaces.use("a") as memory:
        assert {each.reason for each in await memory.sessions()} == {""}
    await spaces.close()


@pytest.mark.parametrize("error", [RuntimeError("a bug"), TooSlow("It took too long.")])
async def test_a_session_whose_cards_cannot_be_made_is_failed_and_the_next_goes_on(
    tmp_path: Path, error: Exception
) -> None:
    class Broken(Gated):
        async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Any:
            if session.id == "bad":
                raise error
            return await super().extract(session, limit=limit)

    broken = Broken()
    broken.gate.set()
    spaces = spaces_in(tmp_path, broken)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    bad = await queue.accept("a", said("bad"))
    good = await queue.accept("a", said("good"))
    assert (await good.done).state == "empty"
    with pytest.raises(type(error)):
        await bad.done
    async with spaces.use("a") as memory:
        (record,) = [each for each in await memory.sessions() if each.id == "bad"]
    assert record.state == "failed"
    assert "its cards could not be made" in record.reason
    await queue.take_up()  # as at the next start
    assert queue.counts()["working"] == queue.counts()["queued"] == 0
    await spaces.close()


async def test_a_newer_text_takes_the_place_of_one_that_waits(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    first = await queue.accept("a", said("busy"))
    older = await queue.accept("a", said("x", "one"))
    newer = await queue.accept("a", said("x", "two"))
    assert older is newer
    gated.gate.set()
    await asyncio.gather(first.done, newer.done)
    assert gated.seen == ["busy:hello", "x:two"]
    async with spaces.use("a") as memory:
        assert (await memory.session("x")).turns[0].text == "two"
    await spaces.close()


async def test_a_newer_text_waits_for_the_one_at_work(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 2, Metrics())
    older = await queue.accept("a", said("x", "one"))
    await until_async(lambda: bool(gated.seen))
    accepting = asyncio.create_task(queue.accept("a", said("x", "two")))
    await asyncio.sleep(0.05)
    assert not accepting.done()  # to keep it now would be undone when the older one is settled
    gated.gate.set()
    newer = await accepting
    await asyncio.gather(older.done, newer.done)
    async with spaces.use("a") as memory:
        assert (await memory.session("x")).turns[0].text == "two"
    await spaces.close()


async def test_a_session_forgotten_while_it_waits_does_not_come_back(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    busy = await queue.accept("a", said("busy"))
    job = await queue.accept("a", said("x"))
    gone = await queue.forget("a", session="x")
    assert gone.sessions == 1
    gated.gate.set()
    await busy.done
    with pytest.raises(NotInMemory):
        await job.done
    async with spaces.use("a") as memory:
        assert [each.id for each in await memory.sessions()] == ["busy"]
    await spaces.close()


async def test_a_turn_forgotten_while_its_session_waits_leaves_the_queue_too(
    tmp_path: Path,
) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    busy = await queue.accept("a", said("busy"))
    job = await queue.accept("a", said("x", "a secret"))
    assert (await queue.forget("a", turn="x#1")).turns == 1
    gated.gate.set()
    await asyncio.gather(busy.done, job.done)
    async with spaces.use("a") as memory:
        assert (await memory.session("x")).turns[0].forgotten
    assert not [text for text in gated.seen if "secret" in str(text)]
    await spaces.close()


async def test_an_erased_space_stays_erased_although_sessions_waited(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(), 1, Metrics())
    for number in range(5):
        await queue.accept("a", said(f"x{number}"))
    erasing = asyncio.create_task(queue.erase("a"))
    await asyncio.sleep(0.05)
    gated.gate.set()  # the one at work is waited for
    await erasing
    await asyncio.sleep(0.05)
    assert await spaces.names() == []
    assert queue.counts() == {"queued": 0, "paused": 0, "working": 0}


async def test_erasing_ends_what_others_do_and_lets_nobody_in(tmp_path: Path) -> None:
    spaces = spaces_in(tmp_path, Gated())
    async with spaces.use("a", create=True) as memory:
        await memory.keep(said("x"))
    inside, leave = asyncio.Event(), asyncio.Event()

    async def use() -> None:
        async with spaces.use("a"):
            inside.set()
            try:
                await asyncio.Event().wait()
            finally:
                await leave.wait()  # it takes a while to end

    user = asyncio.create_task(use())
    await inside.wait()
    erasing = asyncio.create_task(spaces.erase("a"))
    await asyncio.sleep(0)
    for create in (False, True):
        with pytest.raises(StoreBusy):
            async with spaces.use("a", create=create):
                pass
    with pytest.raises(StoreBusy):
        await spaces.erase("a")
    leave.set()
    await erasing
    with pytest.raises(NotInMemory):
        await user
    assert await spaces.names() == []
    async with spaces.use("a", create=True):
        pass
    await spaces.close()


async def test_a_cancelled_user_of_a_space_is_cancelled(tmp_path: Path) -> None:
    spaces = spaces_in(tmp_path, Gated())

    async def use() -> None:
        async with spaces.use("a", create=True):
            await asyncio.Event().wait()

    user = asyncio.create_task(use())
    await asyncio.sleep(0.05)
    user.cancel()
    with pytest.raises(asyncio.CancelledError):
        await user
    await spaces.close()


async def test_a_full_queue_refuses_and_keeps_nothing(tmp_path: Path) -> None:
    gated = Gated()
    spaces = spaces_in(tmp_path, gated)
    queue = Ingestion(spaces, ServerSettings(queue=2), 1, Metrics())
    for number in range(3):  # one at work, two waiting
        await queue.accept("a", said(f"x{number}"))
        await asyncio.sleep(0.02)
    with pytest.raises(NoRoom):
        await queue.accept("a", said("late"))
    async with spaces.use("a") as memory:
        assert "late" not in {each.id for each in await memory.sessions()}
    gated.gate.set()
    await until_async(lambda: queue.counts()["working"] == 0)
    await (await queue.accept("a", said("late"))).done
    await spaces.close()


async def test_spaces_nobody_uses_are_closed_and_opened_again(tmp_path: Path) -> None:
    gated = Gated()
    gated.gate.set()
    spaces = spaces_in(tmp_path, gated)
    for name in "abcd":
        async with spaces.use(name, create=True) as memory:
            await memory.remember(said("x", name))
    assert spaces.open <= 2
    async with spaces.use("a") as first, spaces.use("b"), spaces.use("c"):
        assert (await first.session("x")).turns[0].text == "a"
        assert spaces.open >= 3  # in use: not closed, although too many
    await spaces.close()


async def test_learning_gives_way_to_a_question_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = question_priority.Yielding()
    steps: list[str] = []

    async def learn(name: str) -> None:
        async with gate.step():
            steps.append(name)

    with gate.question():
        waiting = [asyncio.create_task(learn(name)) for name in "ab"]
        await asyncio.sleep(0.05)
        assert steps == []
    await asyncio.gather(*waiting)
    assert steps == ["a", "b"]
    monkeypatch.setattr(question_priority, "PATIENCE", 0.01)
    with gate.question():  # but not for ever
        await learn("c")
    assert steps == ["a", "b", "c"]


async def test_learning_embeds_the_same_vectors_in_small_steps() -> None:
    from justmem.testing import HashEmbedder

    texts = [f"text number {n}" for n in range(11)]
    plain = await HashEmbedder(64).embed(texts)
    gentle = await question_priority.YieldingEmbedder(
        HashEmbedder(64), question_priority.Yielding()
    ).embed(texts)
    assert (gentle.vectors == plain.vectors).all()
    assert gentle.tokens == plain.tokens
    nothing = await question_priority.YieldingEmbedder(
        HashEmbedder(64), question_priority.Yielding()
    ).embed([])
    assert nothing.vectors.shape == (0, 64)


async def test_what_is_pending_elsewhere_is_not_taken_up_by_who_serves_one_space(
    tmp_path: Path,
) -> None:
    gated = Gated()
    gated.gate.set()
    spaces = spaces_in(tmp_path, gated)
    for space in ("mine", "theirs"):
        async with spaces.use(space, create=True) as memory:
            await memory.keep(said("x"))
    queue = Ingestion(spaces, ServerSettings(), 2, Metrics())
    await queue.take_up(only="mine")
    await until_async(lambda: queue.result("mine", "x") is not None)
    assert queue.result("theirs", "x") is None
    await queue.take_up()
    await until_async(lambda: queue.result("theirs", "x") is not None)
    await spaces.close()


async def until_async(check: Any) -> None:
    for _ in range(200):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def test_memory_in_a_process_beside_the_server_sees_the_same(tmp_path: Path) -> None:
    with serve(tmp_path / "s") as running, running.owner() as owner:
        owner.post("/v1/spaces/ana/sessions?wait=true", json=BIKE)
        light = {"embedder": "justmem.testing:HashEmbedder", "reranker": "none"}
        async with open_async("ana", folder=running.home, **light) as memory:
            await memory.remember(RUN)
            assert len(await memory.sessions()) == 2
        assert owner.get("/v1/spaces/ana").json()["sessions"] == {"stored": 2}
