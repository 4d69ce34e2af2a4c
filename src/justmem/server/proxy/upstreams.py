"""The servers behind the proxy: one for the formats of OpenAI, one for Anthropic's."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
from fastapi import FastAPI, HTTPException, Request
from starlette.responses import Response

from justmem.errors import ModelUnavailable
from justmem.runtime.addresses import checked_url, is_local
from justmem.server.state import Server

_FORWARDED = (
    *("accept", "user-agent", "openai-organization", "openai-project", "openai-beta"),
    *("anthropic-version", "anthropic-beta"),
)
_KEPT_BACK = {
    *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"),
    *("content-length", "content-encoding", "date", "server", "set-cookie", "alt-svc"),
}
_SHORTEST = 8  # shorter secrets are placeholders such as "none", and may be words of a reply


class SecretMask:
    """Replaces each secret by ***, as it is and as JSON and URLs write it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            if len(secret) >= _SHORTEST:
                escaped = json.dumps(secret)[1:-1]
                forms |= {secret, escaped, escaped.replace("/", r"\/"), quote(secret, safe="")}
        self._forms = sorted((form.encode() for form in forms), key=len, reverse=True)

    def bytes(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, b"***")
        return data

    def text(self, text: str) -> str:
        return self.bytes(text.encode()).decode()


def upstream_secrets(url: str, key: str | None) -> list[str]:
    """The key, and the user and password that the address may contain."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = b64encode(f"{user}:{password}".encode()).decode() if password else ""
    return [secret for secret in (key, password, basic) if secret]


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    server: Server = app.state.server
    serving, settings = server.serving, server.settings
    app.state.questions = OrderedDict()  # the question that a response answered, by space and id
    app.state.upstreams = {}
    secrets: list[str] = []
    async with AsyncExitStack() as stack:
        for url, secret, anthropic in (
            (serving.upstream, settings.upstream_key, False),
            (serving.anthropic_upstream, settings.anthropic_upstream_key, True),
        ):
            if url is not None:
                key = None if secret is None else secret.get_secret_value()
                secrets += upstream_secrets(url, key)
                client = _client(server, url, key, anthropic)
                app.state.upstreams[anthropic] = await stack.enter_async_context(client)
        app.state.mask = SecretMask(secrets)
        yield


def _client(server: Server, url: str, key: str | None, anthropic: bool) -> httpx.AsyncClient:
    headers = {"accept-encoding": "identity"}  # the proxy reads the reply
    if key is not None:
        headers |= {"x-api-key": key} if anthropic else {"authorization": f"Bearer {key}"}
    checked = checked_url(url)
    return httpx.AsyncClient(
        base_url=checked,
        headers=headers,
        timeout=httpx.Timeout(30.0, connect=10.0, read=server.serving.request_seconds),
        limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100),
        trust_env=not is_local(checked),
    )


async def send(request: Request, path: str, content: bytes, *, anthropic: bool) -> httpx.Response:
    known: Mapping[bool, httpx.AsyncClient] = request.app.state.upstreams
    check_upstream(request, anthropic)
    given = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    headers = {name: value for name, value in given.items() if value.isascii()}
    if content:
        headers["content-type"] = "application/json"
    query: Any = request.url.query or None
    client = known[anthropic]
    sent = client.build_request(
        request.method, path, content=content or None, headers=headers, params=query
    )
    try:
        return await client.send(sent, stream=True)
    except httpx.TransportError as error:
        raise ModelUnavailable(
            f"The chat server behind this one does not answer ({type(error).__name__}): "
            "try again in a moment."
        ) from error


def check_upstream(request: Request, anthropic: bool) -> None:
    if anthropic not in request.app.state.upstreams:
        name = "anthropic_upstream" if anthropic else "upstream"
        raise HTTPException(404, f"The chat proxy is not set up: name an `{name}` in [server].")


def headers_of(request: Request, answer: httpx.Response) -> dict[str, str]:
    mask: SecretMask = request.app.state.mask
    return {
        name: mask.text(value)
        for name, value in answer.headers.items()
        if name not in _KEPT_BACK and value.isascii() and mask.text(name) == name
    }


async def read(request: Request, answer: httpx.Response) -> bytes:
    mask: SecretMask = request.app.state.mask
    try:
        return mask.bytes(await answer.aread())
    except httpx.TransportError:
        raise ModelUnavailable("The chat server stopped in the middle of its answer.") from None
    except httpx.DecodingError:
        raise ModelUnavailable("The chat server's answer cannot be decompressed.") from None
    finally:
        await answer.aclose()


async def pass_through(request: Request, path: str, *, anthropic: bool) -> Response:
    answer = await send(request, path, await request.body(), anthropic=anthropic)
    content = await read(request, answer)
    return Response(content, answer.status_code, headers_of(request, answer))
