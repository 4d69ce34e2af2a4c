"""The servers behind the proxy: one for the formats of OpenAI, one for Anthropic's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
from fastapi import FastAPI, HTTPException, Request
from pydantic import SecretStr

from justmem.errors import ModelUnavailable
from justmem.models.addresses import checked_url, is_local
from justmem.models.http_client import NOT_SENT
from justmem.server.chat_budget import Expense
from justmem.server.chats import Chats
from justmem.server.secret_mask import SecretMask, upstream_secrets
from justmem.server.state import Server

_FORWARDED = (
    *("accept", "user-agent", "openai-organization", "openai-project", "openai-beta"),
    *("anthropic-version", "anthropic-beta"),
)
_KEPT_BACK = {
    *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"),
    *("content-length", "content-encoding", "date", "server", "set-cookie", "alt-svc"),
}


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    server: Server = app.state.server
    serving, settings = server.serving, server.settings
    app.state.chats = Chats(
        server.ingestion, pause=serving.pause_seconds, most_turns=serving.chat_turns
    )
    keys = _value(settings.upstream_key), _value(settings.anthropic_upstream_key)
    urls = serving.upstream, serving.anthropic_upstream
    behind = list(zip(urls, keys, strict=True))
    secrets = [secret for url, key in behind for secret in upstream_secrets(url, key)]
    app.state.blanks = SecretMask(secrets)
    app.state.questions = OrderedDict()  # what a response answered, by space and id
    app.state.upstreams = {}
    async with AsyncExitStack() as stack:
        for anthropic, (url, key) in enumerate(behind):
            if url is not None:
                client = _client(server, url, key, bool(anthropic))
                app.state.upstreams[bool(anthropic)] = await stack.enter_async_context(client)
        yield


def _value(key: SecretStr | None) -> str | None:
    return None if key is None else key.get_secret_value()


def _client(server: Server, url: str, key: str | None, anthropic: bool) -> httpx.AsyncClient:
    headers = {"accept-encoding": "identity"}  # read on its way through
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


def upstream(request: Request, anthropic: bool) -> httpx.AsyncClient:
    known: Mapping[bool, httpx.AsyncClient] = request.app.state.upstreams
    if anthropic not in known:
        name = "anthropic_upstream" if anthropic else "upstream"
        raise HTTPException(404, f"The chat proxy is not set up: name an `{name}` in [server].")
    return known[anthropic]


def passed(request: Request) -> dict[str, str]:
    known = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    return {name: value for name, value in known.items() if value.isascii()}


def answered(request: Request, answer: httpx.Response) -> dict[str, str]:
    blanks: SecretMask = request.app.state.blanks
    return {
        name: blanks.text(value)
        for name, value in answer.headers.items()
        if name not in _KEPT_BACK and value.isascii() and blanks.text(name) == name
    }


async def send(
    client: httpx.AsyncClient, request: httpx.Request, expense: Expense | None = None
) -> httpx.Response:
    try:
        return await client.send(request, stream=True)
    except httpx.TransportError as error:
        if expense is not None and type(error).__name__ in NOT_SENT:
            expense.close()
        raise ModelUnavailable(
            f"The chat server behind this one does not answer ({type(error).__name__}): "
            "try again in a moment."
        ) from None


async def read(request: Request, answer: httpx.Response) -> bytes:
    blanks: SecretMask = request.app.state.blanks
    try:
        return blanks.whole(await answer.aread())
    except httpx.TransportError:
        raise ModelUnavailable("The chat server broke off in the middle of its answer.") from None
    except httpx.DecodingError:
        raise ModelUnavailable("The chat server's answer cannot be unpacked.") from None
    finally:
        await answer.aclose()
