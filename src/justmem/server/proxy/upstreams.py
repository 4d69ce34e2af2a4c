"""The servers behind the proxy: one for the formats of OpenAI, one for Anthropic's."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal
from urllib.parse import quote, unquote, urlsplit

import httpx
from fastapi import HTTPException, Request
from pydantic import SecretStr
from starlette.responses import Response

from justmem.config import Settings
from justmem.errors import ModelUnavailable
from justmem.runtime.addresses import checked_url, is_local

Provider = Literal["openai", "anthropic"]
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


def upstream_secrets(url: str, key: str) -> list[str]:
    """The key, and the user and password that the address may contain."""
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    basic = b64encode(f"{user}:{password}".encode()).decode() if password else ""
    return [secret for secret in (key, password, basic) if secret]


class Upstream:
    """One server. `setting` names its address in [server]."""

    def __init__(
        self, settings: Settings, setting: str, key: SecretStr | None, header: str, prefix: str = ""
    ) -> None:
        url: str | None = getattr(settings.server, setting)
        self._setting = setting
        self.is_set = url is not None
        secret = "" if key is None else key.get_secret_value()
        headers = {"accept-encoding": "identity"}  # the proxy reads the reply
        if secret:
            headers[header] = prefix + secret
        self._client = httpx.AsyncClient(
            base_url="" if url is None else checked_url(url),
            headers=headers,
            timeout=httpx.Timeout(30.0, connect=10.0, read=settings.server.request_seconds),
            limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100),
            trust_env=not is_local(url or ""),
        )
        self._mask = SecretMask(upstream_secrets(url or "", secret))
        # The questions that the latest responses answered, by space and id of the response
        self.questions: dict[tuple[str, Any], str] = {}

    def check(self) -> None:
        if not self.is_set:
            detail = f"The chat proxy is not set up: name an `{self._setting}` in [server]."
            raise HTTPException(404, detail)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, request: Request, path: str, content: bytes) -> httpx.Response:
        given = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        headers = {name: value for name, value in given.items() if value.isascii()}
        if content:
            headers["content-type"] = "application/json"
        url = httpx.URL(path, query=request.url.query.encode() or None)
        sent = self._client.build_request(
            request.method, url, content=content or None, headers=headers
        )
        try:
            return await self._client.send(sent, stream=True)
        except httpx.TransportError as error:
            raise ModelUnavailable(
                f"The chat server behind this one does not answer ({type(error).__name__}): "
                "try again in a moment."
            ) from error

    async def read(self, answer: httpx.Response) -> bytes:
        try:
            return self._mask.bytes(await answer.aread())
        except httpx.TransportError:
            raise ModelUnavailable("The chat server stopped in the middle of its answer.") from None
        except httpx.DecodingError:
            raise ModelUnavailable("The chat server's answer cannot be decompressed.") from None
        finally:
            await answer.aclose()

    async def lines(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        """Only whole lines: a secret may be split between two chunks."""
        rest = b""
        async for chunk in answer.aiter_bytes():
            lines, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield self._mask.bytes(lines) + newline
        if rest:
            yield self._mask.bytes(rest)

    def headers(self, answer: httpx.Response) -> dict[str, str]:
        return {
            name: self._mask.text(value)
            for name, value in answer.headers.items()
            if name not in _KEPT_BACK and value.isascii() and self._mask.text(name) == name
        }

    async def pass_through(self, request: Request, path: str) -> Response:
        self.check()
        answer = await self.send(request, path, await request.body())
        content = await self.read(answer)
        return Response(content, answer.status_code, self.headers(answer))


def upstreams_of(settings: Settings) -> dict[Provider, Upstream]:
    key, other = settings.upstream_key, settings.anthropic_upstream_key
    return {
        "openai": Upstream(settings, "upstream", key, "authorization", "Bearer "),
        "anthropic": Upstream(settings, "anthropic_upstream", other, "x-api-key"),
    }
