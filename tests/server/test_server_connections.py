"""Connections that send slowly, read slowly, or send what a server must not take."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from servers import Running, serve, until

SLOW = b"GET /health/live HTTP/1.1\r\nHost: x\r\nX: "
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


def filled(running: Running) -> None:
    """More than sockets hold on the way."""
    with running.owner() as owner:
        for number in range(16):
            turns = [{"role": "assistant", "text": "x" * 900_000}]
            session = {"id": f"s{number}", "at": "2024-05-20", "turns": turns}
            owner.post("/v1/spaces/ana/sessions", json=session).raise_for_status()
        until(lambda: owner.get("/v1/spaces/ana").json()["sessions"] == {"empty": 16}, 120)


def exporting(running: Running) -> socket.socket:
    """A reader that has read the first bytes and stops."""
    key = running.key("ana", right="read").encode()
    line = connected(running, receive=65536)
    line.sendall(b"GET /v1/spaces/ana/export HTTP/1.1\r\nHost: x\r\n")
    line.sendall(b"Authorization: Bearer " + key + b"\r\n\r\n")
    assert line.recv(12) == b"HTTP/1.1 200"
    return line


def test_a_slow_reader_does_not_keep_a_space_from_being_erased(tmp_path: Path) -> None:
    patient = "client_seconds = 600\nrequest_seconds = 20"
    with serve(tmp_path / "s", server=patient) as running:
        filled(running)
        with exporting(running) as line, running.owner() as owner:
            assert owner.delete("/v1/spaces/ana").status_code == 200
            assert owner.get("/v1/spaces/ana").status_code == 404
            assert not read(line).endswith(b"0\r\n\r\n")  # cut short, and seen to be


def test_an_export_has_to_be_read_in_time(tmp_path: Path) -> None:
    with serve(
        tmp_path / "s", server="client_seconds = 600\nstream_seconds = 1\ngrace_seconds = 1"
    ) as running:
        filled(running)
        with exporting(running) as line:
            time.sleep(2)
            assert not read(line).endswith(b"0\r\n\r\n")


def test_a_slow_reader_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    patient = "client_seconds = 600\nrequest_seconds = 600\ngrace_seconds = 1"
    with serve(tmp_path / "s", server=patient) as running:
        filled(running)
        with exporting(running):
            running.process.send_signal(signal.SIGTERM)
            assert running.process.wait(60) is not None
