"""The servers behind the proxy: one for the formats of OpenAI, one for Anthropic's."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote, unquote, urlsplit

import httpx
from fastapi import HTTPException, Request
from pydantic import SecretStr
from starlette.responses import Response

from justmem.config import Settings
from justmem.errors import ModelUnavailable
from justmem.runtime.addresses import checked_url, is_local

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


class Upstreams:
    """`openai` and `anthropic` are None if the setting names no such server."""

    def __init__(self, settings: Settings) -> None:
        secrets: list[str] = []

        def client(url: str | None, key: SecretStr | None, header: str, prefix: str = "") -> _Known:
            if url is None:
                return None
            secret = None if key is None else key.get_secret_value()
            secrets.extend(upstream_secrets(url, secret))
            headers = {"accept-encoding": "identity"}  # the proxy reads the reply
            checked = checked_url(url)
            return httpx.AsyncClient(
                base_url=checked,
                headers=headers if secret is None else headers | {header: prefix + secret},
                timeout=httpx.Timeout(30.0, connect=10.0, read=settings.server.request_seconds),
                limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100),
                trust_env=not is_local(checked),
            )

        openai, anthropic = settings.server.upstream, settings.server.anthropic_upstream
        self.openai = client(openai, settings.upstream_key, "authorization", "Bearer ")
        self.anthropic = client(anthropic, settings.anthropic_upstream_key, "x-api-key")
        self.mask = SecretMask(secrets)
        # The question that a response answered, by its space and id
        self.questions: OrderedDict[tuple[str, str], str] = OrderedDict()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for client in filter(None, (self.openai, self.anthropic)):
                await stack.enter_async_context(client)
            yield

    def check(self, anthropic: bool) -> httpx.AsyncClient:
        client = self.anthropic if anthropic else self.openai
        if client is None:
            name = "anthropic_upstream" if anthropic else "upstream"
            raise HTTPException(404, f"The chat proxy is not set up: name an `{name}` in [server].")
        return client

    async def send(
        self, request: Request, path: str, content: bytes, *, anthropic: bool
    ) -> httpx.Response:
        client = self.check(anthropic)
        given = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        headers = {name: value for name, value in given.items() if value.isascii()}
        if content:
            headers["content-type"] = "application/json"
        url = httpx.URL(path, query=request.url.query.encode() or None)
        sent = client.build_request(request.method, url, content=content or None, headers=headers)
        try:
            return await client.send(sent, stream=True)
        except httpx.TransportError as error:
            raise ModelUnavailable(
                f"The chat server behind this one does not answer ({type(error).__name__}): "
                "try again in a moment."
            ) from error

    async def read(self, answer: httpx.Response) -> bytes:
        try:
            return self.mask.bytes(await answer.aread())
        except httpx.TransportError:
            raise ModelUnavailable("The chat server stopped in the middle of its answer.") from None
        except httpx.DecodingError:
            raise ModelUnavailable("The chat server's answer cannot be decompressed.") from None
        finally:
            await answer.aclose()

    def headers(self, answer: httpx.Response) -> dict[str, str]:
        return {
            name: self.mask.text(value)
            for name, value in answer.headers.items()
            if name not in _KEPT_BACK and value.isascii() and self.mask.text(name) == name
        }

    async def pass_through(self, request: Request, path: str, *, anthropic: bool) -> Response:
        answer = await self.send(request, path, await request.body(), anthropic=anthropic)
        content = await self.read(answer)
        return Response(content, answer.status_code, self.headers(answer))


_Known = httpx.AsyncClient | None
