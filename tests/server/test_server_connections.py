"""Connections that send slowly, read slowly, or send what a server must not take."""

from __future__ import annotations

import asyncio
import resource
import select
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.types import ASGIApp, Message

from justmem.config import load
from justmem.intake.sessions import as_time
from justmem.server.application import application
from justmem.server.state import Server
from servers import Running, serve

SLOW = b"GET /health/live HTTP/1.1\r\nHost: x\r\nX: "
LONG = [{"role": "assistant", "text": "x" * 900_000}]
QUICK = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    short = "header_seconds = 1\nclient_seconds = 60\nconnections = 40\nrate = 10000"
    with serve(tmp_path_factory.mktemp("connections"), server=short) as running:
        yield running


def connected(server: Running, receive: int = 0) -> socket.socket:
    host, port = urlsplit(server.url).netloc.split(":")
    made = socket.socket()
    if receive:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    made.settimeout(60)
    made.connect((host, int(port)))
    return made


def read(line: socket.socket) -> bytes:
    """Everything until the other side ends it."""
    said = b""
    try:
        while piece := line.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def answered(line: socket.socket) -> bytes:
    """The next answer, whole."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(1)
    head = said.lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += line.recv(length - len(body))
    return said + body


def half_a_question(server: Running) -> bytes:
    """Its last byte is }"""
    key = server.key("ana").encode()
    return (
        b"POST /v1/spaces/ana/recall HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + key + b"\r\nContent-Length: 2\r\n\r\n{"
    )


# ---------------------------------------------------------------- slow headers


@pytest.mark.parametrize("begun", [b"", b"GET", SLOW], ids=["nothing", "a word", "a header"])
def test_missing_headers_end_the_connection(server: Running, begun: bytes) -> None:
    with connected(server) as line:
        line.sendall(begun)
        assert read(line) == b""


def test_dripping_headers_do_not_keep_the_connection(server: Running) -> None:
    with connected(server) as line:
        line.sendall(SLOW)
        line.settimeout(0.1)
        for _ in range(600):
            try:
                line.sendall(b"x")
                if line.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    raise AssertionError("it is still open")


def test_the_headers_of_a_later_request_have_a_deadline_too(server: Running) -> None:
    with connected(server) as line:
        line.sendall(QUICK)
        assert answered(line).startswith(b"HTTP/1.1 200")
        line.sendall(SLOW)
        assert read(line) == b""


def test_an_unread_body_does_not_keep_the_connection(server: Running) -> None:
    with connected(server) as line:
        line.sendall(b"POST /v1/spaces/a/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n")
        assert answered(line).startswith(b"HTTP/1.1 401")
        line.sendall(b"x")
        assert read(line) == b""


def test_a_connection_in_use_outlives_the_deadline_of_its_headers(server: Running) -> None:
    with connected(server) as line:
        line.sendall(half_a_question(server))
        time.sleep(1.5)
        line.sendall(b"}")
        assert answered(line).startswith(b"HTTP/1.1 422")


def test_many_slow_connections_do_not_block_others(tmp_path: Path) -> None:
    few = "header_seconds = 600\nclient_seconds = 600\nconnections = 40"
    with serve(tmp_path / "s", server=few) as running, ExitStack() as stack:
        busy = stack.enter_context(connected(running))
        busy.sendall(half_a_question(running))
        with running.client(None) as client:  # answered after the half question was read
            client.get("/health/live")
        slow = [stack.enter_context(connected(running)) for _ in range(200)]
        for line in slow:
            line.sendall(SLOW)
        with running.client(None) as client:
            assert [client.get("/health/live").status_code for _ in range(3)] == [200] * 3
        for line in slow[:150]:  # the oldest gave their places
            assert read(line) == b""
        busy.sendall(b"}")  # but no request under way
        assert answered(busy).startswith(b"HTTP/1.1 422")


def test_requests_without_a_key_do_not_block_others(server: Running) -> None:
    unfinished = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
    with ExitStack() as stack, server.owner() as owner:
        busy = stack.enter_context(connected(server))
        busy.sendall(half_a_question(server))
        owner.get("/v1/spaces").raise_for_status()  # answered after the half question was read
        for _ in range(60):
            stack.enter_context(connected(server)).sendall(unfinished)
        with server.owner() as later:
            assert later.get("/v1/spaces").status_code == 200
        busy.sendall(b"}")
        assert answered(busy).startswith(b"HTTP/1.1 422")


@contextmanager
def few_files(limit: int) -> Iterator[None]:
    """Processes that are started inside may have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def one_more_than(most: int, server: Running, stack: ExitStack) -> list[socket.socket]:
    """So many half questions of one key are open. One more is refused."""
    unfinished = half_a_question(server)  # each request has the same key
    open = [stack.enter_context(connected(server)) for _ in range(most + 1)]
    for line in open:
        line.sendall(unfinished)
    ((last,), _, _) = select.select(open, [], [], 60)  # the one that was read last
    refused = answered(last)
    assert refused.startswith(b"HTTP/1.1 429")
    assert f"This key has {most} open requests".encode() in refused
    return [line for line in open if line is not last]


def test_the_limit_of_a_key_counts_the_files_that_the_server_may_open(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with few_files(450):  # 400 are for spaces and models, but 100 connections always remain
            running = stack.enter_context(serve(tmp_path / "s", server="rate = 10000"))
        one_more_than(50, running, stack)
        with running.owner() as other:
            assert other.get("/v1/spaces").status_code == 200


def test_a_server_of_one_connection_answers(tmp_path: Path) -> None:
    with serve(tmp_path / "s", server="connections = 1") as running, running.owner() as owner:
        assert owner.get("/v1/spaces").status_code == 200


def test_one_key_does_not_take_all_connections(server: Running) -> None:
    with ExitStack() as stack:
        open = one_more_than(20, server, stack)
        with server.owner() as other:
            assert other.get("/v1/spaces").status_code == 200
        open[0].sendall(b"}")
        assert answered(open[0]).startswith(b"HTTP/1.1 422")
        again = stack.enter_context(connected(server))
        again.sendall(half_a_question(server) + b"}")
        assert answered(again).startswith(b"HTTP/1.1 422")


# ---------------------------------------------------------------- what must not be taken


def test_a_request_with_two_lengths_is_refused_and_the_connection_ends(server: Running) -> None:
    two = b"GET /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    two += b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with connected(server) as line:
        line.sendall(two + QUICK)
        said = read(line)
    assert said.startswith(b"HTTP/1.1 400")
    assert said.count(b"HTTP/1.1 ") == 1


def test_unknown_methods_are_one_label_in_the_metrics(server: Running) -> None:
    with server.owner() as owner:
        for number in range(5):
            owner.request(f"MADEUP{number}" * 50, "/v1/spaces")
        told = owner.get("/metrics").text
    assert 'method="other"' in told
    assert "MADEUP" not in told + server.log


def test_without_keys_requests_of_other_sites_are_refused(tmp_path: Path) -> None:
    with serve(tmp_path / "s", "", "--no-keys") as running, running.client(None) as client:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
            headers = {"sec-fetch-site": site}
            assert client.get("/v1/spaces", headers=headers).status_code == status
            assert client.get("/metrics", headers=headers).status_code == status
            assert client.get("/", headers=headers).status_code == 200  # a link to the pages
        assert client.get("/v1/spaces", headers={"sec-fetch-site": "none"}).status_code == 200
        assert client.get("/v1/spaces").status_code == 200


# ---------------------------------------------------------------- slow readers


class Reader:
    """Reads an export piece by piece, without sockets, and stops at the first session."""

    def __init__(self, app: ASGIApp) -> None:
        self.body = b""
        self.ended = False
        self.waits = asyncio.Event()
        self.go_on = asyncio.Event()
        self.reading = asyncio.create_task(self._read(app))

    async def _read(self, app: ASGIApp) -> None:
        path = "/v1/spaces/ana/export"
        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}}
        scope |= {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": [(b"host", b"127.0.0.1")], "scheme": "http", "http_version": "1.1"}
        await app(scope, asyncio.Event().wait, self._send)

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            if b"bikes" in message["body"]:
                self.waits.set()
                await self.go_on.wait()
            self.body += message["body"]
            self.ended = not message.get("more_body", False)


@asynccontextmanager
async def stalled_export(folder: Path, **limits: float) -> AsyncIterator[tuple[Server, Reader]]:
    """An export of three sessions. All were read, and the reader waits with the first one."""
    settings = load(folder=folder, embedder="justmem.testing:HashEmbedder", reranker="none")
    serving = settings.server.model_copy(update=limits)
    settings = settings.model_copy(update={"server": serving})
    server = Server(settings, clock=lambda: as_time("2024-06-01"), keys=None)
    async with server.running():
        async with server.spaces.use("ana", create=True) as memory:
            for number in range(3):
                await memory.keep(f"I have {number} bikes.", id=f"s{number}", at="2024-05-20")
        reader = Reader(application(server))
        await reader.waits.wait()
        yield server, reader


async def test_a_slow_reader_does_not_keep_a_space_from_being_erased(tmp_path: Path) -> None:
    async with stalled_export(tmp_path) as (server, reader):
        await server.spaces.erase("ana")
        assert await server.spaces.names() == []
        reader.go_on.set()
        await reader.reading
        assert reader.body.count(b"bikes") == 1  # the one it was taking
        assert not reader.ended  # cut short, and seen to be


async def test_a_reader_that_waits_gets_the_whole_export(tmp_path: Path) -> None:
    async with stalled_export(tmp_path) as (_, reader):
        reader.go_on.set()
        await reader.reading
        assert reader.body.count(b"bikes") == 3
        assert reader.ended


@pytest.mark.parametrize("limit", ["client_seconds", "stream_seconds"])
async def test_an_export_has_to_be_read_in_time(tmp_path: Path, limit: str) -> None:
    async with stalled_export(tmp_path, **{limit: 0.1}) as (_, reader):
        await reader.reading
        assert not reader.ended


def test_a_slow_reader_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    patient = "client_seconds = 600\nrequest_seconds = 600\ngrace_seconds = 1"
    with serve(tmp_path / "s", server=patient) as running:
        with running.owner() as owner:
            for number in range(8):  # more than sockets hold on the way
                session = {"id": f"s{number}", "at": "2024-05-20", "turns": LONG}
                owner.post("/v1/spaces/ana/sessions", json=session).raise_for_status()
        with connected(running, receive=65536) as line:
            line.sendall(b"GET /v1/spaces/ana/export HTTP/1.1\r\nHost: x\r\n")
            line.sendall(f"Authorization: Bearer {running.key('ana')}\r\n\r\n".encode())
            assert line.recv(12) == b"HTTP/1.1 200"
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(60) is not None
