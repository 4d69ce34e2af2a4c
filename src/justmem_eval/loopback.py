"""HTTP servers on loopback: for any handler, and one with the OpenAI protocol and its failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any  # read as JSON; None if it is none
    raw: bytes = b""
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class Respond:
    """One reply of the server. `body` is sent as JSON, bytes as they are, a tuple of bytes as a
    stream with a pause of `pace` seconds before each. `cut` closes the connection before anything
    is sent, or in the middle of the body."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: Literal["", "before", "inside"] = ""
    pace: float = 0.0


Script = Callable[[Request], Respond | Mapping[str, Any]] | Sequence[Respond | Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Served:
    """`url` is the base URL to give to a client; `requests` what has arrived so far."""

    url: str
    requests: list[Request]


@contextmanager
def serve_openai(script: Script) -> Iterator[Served]:
    """Serves GET and POST under /v1 from a function of the request, or from a list, in order."""
    requests: list[Request] = []
    lock = threading.Lock()
    left = iter(() if callable(script) else script)

    def reply(request: Request) -> Respond:
        with lock:
            requests.append(request)
            found = script(request) if callable(script) else next(left, None)
        if found is None:
            return Respond({"error": {"message": "The script has no reply left."}}, status=500)
        return found if isinstance(found, Respond) else Respond(found)

    with serve(reply) as url:
        yield Served(f"{url}/v1", requests)


@contextmanager
def serve(reply: Callable[[Request], Respond]) -> Iterator[str]:
    """The URL of a server that answers GET and POST, each request in a thread of its own."""
    closing = threading.Event()

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                body = json.loads(raw)
            except ValueError:
                body = None
            self._send(reply(Request(self.path, headers, body, raw, self.command)))

        do_GET = do_POST

        def _send(self, respond: Respond) -> None:
            closing.wait(respond.delay)
            if closing.is_set() or respond.cut == "before":
                self.close_connection = True
                return
            body = respond.body
            if isinstance(body, tuple):
                self._stream(respond, body)
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            usual = {"date": self.date_time_string(), "content-type": "application/json"}
            self.send_response_only(respond.status)
            for name, value in (usual | dict(respond.headers)).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if respond.cut else data)
            self.close_connection = bool(respond.cut)

        def _stream(self, respond: Respond, pieces: tuple[bytes, ...]) -> None:
            self.send_response_only(respond.status)
            usual = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
            for name, value in (usual | dict(respond.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            for piece in pieces[: len(pieces) // 2] if respond.cut else pieces:
                if closing.wait(respond.pace):
                    break
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.close_connection = bool(respond.cut) or closing.is_set()
            if not self.close_connection:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # tests include clients that stop waiting

    with Server(("127.0.0.1", 0), Connection) as server:
        # A short poll, because every test waits for the shutdown.
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            closing.set()
            server.shutdown()
            thread.join()


def chat_body(
    content: Any, *, usage: Any = (100, 20), finish_reason: str = "stop"
) -> dict[str, Any]:
    """A chat completion. `usage` is (in, out), or whatever a strange server may send."""
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}
