"""Test doubles, also for your own tests. They need no network, no download and no key.

ScriptedModel   a language model that returns scripted replies
HashEmbedder    an embedder: texts with common words have similar vectors
serve_openai    an HTTP server on loopback with the OpenAI protocol, also for failures
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import numpy as np

from justmem.domain import Call
from justmem.errors import ModelError, ModelUnavailable
from justmem.ports import Completion, Embedded, Prompt
from justmem.runtime import tokens

# ---------------------------------------------------------------- models

Scripted = str | Mapping[str, Any] | Sequence[Any] | Completion | Exception


class ScriptedModel:
    """Replies from a list, in order, or from a function of the prompt. A string is returned
    unchanged, a mapping as JSON, and an exception is raised. `prompts` holds all prompts."""

    def __init__(
        self,
        replies: Sequence[Scripted] | Callable[[Prompt], Scripted] = (),
        *,
        name: str = "scripted",
        context: int = 128_000,
    ) -> None:
        self.name = name
        self.context = context
        self.prompts: list[Prompt] = []
        self._reply = replies if callable(replies) else _in_order(replies)

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        reply = self._reply(prompt)
        if isinstance(reply, Completion):
            return reply
        if isinstance(reply, ModelError) and not reply.calls:
            reply.calls = (self._call(prompt, "", error=str(reply)),)
        if isinstance(reply, Exception):
            raise reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return Completion(text=text, call=self._call(prompt, text))

    def _call(self, prompt: Prompt, text: str, error: str = "") -> Call:
        return Call(
            stage=prompt.stage,
            model=self.name,
            tokens_in=tokens.count(prompt.system) + tokens.count(prompt.user),
            tokens_out=tokens.count(text),
            estimated=True,
            error=error,
        )


def _in_order(replies: Sequence[Scripted]) -> Callable[[Prompt], Scripted]:
    left = iter(replies)

    def reply(prompt: Prompt) -> Scripted:
        silence = ModelUnavailable(f"The script has no reply left for this {prompt.stage} call.")
        return next(left, silence)

    return reply


_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Each word has a place in the vector, so texts with common words have similar vectors."""

    def __init__(self, dim: int = 64) -> None:
        self.name = f"hash-{dim}"
        self.dim = dim

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        used = 0
        for row, text in zip(vectors, texts, strict=True):
            words = _WORD.findall(text.lower()) or [""]
            used += len(words)
            for word in words:
                place = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
                row[place % self.dim] += 1.0
            row /= np.linalg.norm(row)
        return Embedded(vectors=vectors, tokens=used)


# ---------------------------------------------------------------- a server


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any


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
    closing = threading.Event()
    lock = threading.Lock()
    left = iter(() if callable(script) else script)

    def reply(request: Request) -> Respond:
        with lock:
            requests.append(request)
            found = script(request) if callable(script) else next(left, None)
        if found is None:
            return Respond(error_body("The script has no reply left."), status=500)
        return found if isinstance(found, Respond) else Respond(found)

    class Connection(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(reply(Request(self.path, headers, json.loads(raw))))

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(reply(Request(self.path, headers, None)))

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
            yield Served(f"http://127.0.0.1:{server.server_address[1]}/v1", requests)
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


def chat_stream(
    content: Any, *, usage: tuple[int, int] | None = (100, 20), size: int = 8
) -> tuple[bytes, ...]:
    """The same as a stream: a chunk for each `size` characters, the usage in one of its own."""
    text = content if isinstance(content, str) else json.dumps(content)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[i : i + size]} for i in range(0, len(text), size)]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    chunks: list[dict[str, Any]] = [
        {"id": "x", "object": "chat.completion.chunk", "choices": each} for each in choices
    ]
    if usage:
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        chunks.append(chunks[0] | {"choices": [], "usage": counts})
    return (*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n")


def embeddings_body(vectors: Sequence[Any], *, usage: Any = 10) -> dict[str, Any]:
    """An embeddings reply. `usage` is the number of tokens, or whatever a server may send."""
    rows = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    spent = {"prompt_tokens": usage, "total_tokens": usage} if isinstance(usage, int) else usage
    return {"object": "list", "data": rows, "usage": spent}


def error_body(message: str, *, code: str | None = None, param: str | None = None) -> Any:
    return {"error": {"message": message, "type": "error", "code": code, "param": param}}
