"""OAuth 2.1 for MCP clients: the SDK's own client against a real server, on loopback."""

from __future__ import annotations

import re
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AuthorizationParams, TokenError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from browser import chromium
from justmem.config import load
from justmem.intake.sessions import as_time
from justmem.server.access_keys import Keys
from justmem.server.mcp.oauth import OAuth
from justmem.server.mcp.oauth_secrets import FILE, OAuthSecrets
from justmem.server.state import Server
from justmem.testing import HashEmbedder
from servers import Running, serve

BACK = "http://127.0.0.1:9/callback"
BOUGHT = "Bought a gravel bike today, 1,450 euros."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = f'public_url = "http://127.0.0.1:{port}"'
    with serve(tmp_path_factory.mktemp("oauth"), "", "--port", str(port), server=settings) as it:
        yield it


@dataclass
class Kept:
    """What a client stores between two visits."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass
class Owner:
    """The person in front of the browser."""

    key: str
    space: str = ""
    answer: str = "allow"
    write: bool = True
    kept: Kept = field(default_factory=Kept)
    back: str = ""
    pages: list[str] = field(default_factory=list)

    async def visit(self, url: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            page = await browser.get(url)
            self.pages.append(page.text)
            ticket = re.search(r'name="ticket" value="([^"]+)"', page.text)
            assert ticket, page.text
            form = {"ticket": ticket[1], "key": self.key, "space": self.space}
            form |= {"write": "yes"} if self.write else {}
            to = page.url.join("/oauth/consent")
            sent = await browser.post(
                to, data={**form, "answer": self.answer}, follow_redirects=False
            )
        self.pages.append(sent.text)
        self.back = sent.headers.get("location", "")

    async def come_back(self) -> AuthorizationCodeResult:
        given = parse_qs(urlsplit(self.back).query)
        if "code" not in given:
            raise PermissionError(given.get("error", ["no code"])[0])
        return AuthorizationCodeResult(code=given["code"][0], state=given["state"][0])


def provider(server: Running, owner: Owner) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(client_name="<b>Test</b>", redirect_uris=[AnyUrl(BACK)])
    return OAuthClientProvider(
        f"{server.url}/mcp", metadata, owner.kept, owner.visit, owner.come_back
    )


async def use(server: Running, owner: Owner, tool: str, **given: Any) -> Any:
    auth = provider(server, owner)
    async with httpx2.AsyncClient(auth=auth, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport) as client:
            return await client.call_tool(tool, given)


async def test_a_client_registers_asks_for_consent_and_uses_the_memory(server: Running) -> None:
    owner = Owner(server.key("ana"))
    made = await use(server, owner, "remember", text=BOUGHT, at="2024-05-20")
    assert not made.is_error
    assert owner.kept.tokens is not None
    assert "&lt;b&gt;Test&lt;/b&gt;" in owner.pages[0]
    # The next visit needs no consent.
    found = await use(server, owner, "recall", question="gravel bike")
    assert "gravel bike" in found.structured_content["cards"][0]
    assert len(owner.pages) == 2
    # The token is stored as a hash, and works at the tools alone.
    token = owner.kept.tokens.access_token
    assert token.encode() not in (server.home / "oauth.sqlite3").read_bytes()
    with server.client(token) as http:
        for path in ("/v1/spaces/ana", "/v1/spaces/mcp", "/v1/spaces"):
            assert http.get(path).status_code == 401


def test_the_consent_page_works_in_a_browser(server: Running, tmp_path: Path) -> None:
    """httpx does not send the headers with which a browser says where a form comes from."""
    back = f"{server.url}/callback"
    with server.client(None) as http, chromium(tmp_path) as browser:
        client = http.post("/register", json={"redirect_uris": [back]}).json()["client_id"]
        asked = {"response_type": "code", "client_id": client, "redirect_uri": back}
        asked |= {"code_challenge": "x" * 43, "code_challenge_method": "S256"}
        browser.open(http.get("/authorize", params=asked).headers["location"])
        browser.write("[type=password]", server.key("ana"))
        browser.click("[value=allow]")
        browser.until(f"location.href.startsWith('{back}?code=')")


async def test_reusing_a_refresh_token_ends_all_tokens_of_the_consent(server: Running) -> None:
    owner = Owner(server.key("ana"))
    await use(server, owner, "remember", text=BOUGHT, at="2024-05-20")
    first = owner.kept.tokens
    assert first is not None
    client = owner.kept.client
    assert client is not None
    form = {"grant_type": "refresh_token", "client_id": client.client_id}
    form |= {"client_secret": client.client_secret} if client.client_secret else {}
    with server.client(None) as http:
        second = http.post("/token", data={**form, "refresh_token": first.refresh_token})
        assert second.status_code == 200, second.text
        owner.kept.tokens = OAuthToken.model_validate(second.json())
        assert not (await use(server, owner, "show", what="sessions")).is_error
        again = http.post("/token", data={**form, "refresh_token": first.refresh_token})
        assert again.status_code == 400
        token = second.json()["access_token"]
        http.headers["authorization"] = f"Bearer {token}"
        assert http.post("/mcp", json={}).status_code == 401


async def test_read_is_not_write_and_a_space_is_not_another(server: Running) -> None:
    owner = Owner(server.key("team-*"), space="team-x", write=False)
    refused = await use(server, owner, "remember", text=BOUGHT)
    assert refused.is_error
    assert "right `write`" in str(refused.content)
    assert owner.kept.tokens is not None
    key = owner.kept.tokens.access_token
    sent = {"authorization": f"Bearer {key}", "x-justmem-space": "team-y"}
    async with httpx2.AsyncClient(headers=sent, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport) as client:
            other = await client.call_tool("show", {"what": "sessions"})
    assert other.is_error


async def test_revoking_a_key_ends_its_tokens(server: Running) -> None:
    owner = Owner(server.key("ana", name="laptop"))
    await use(server, owner, "show", what="sessions")
    keys = Keys(server.home)
    (key,) = [key for key in keys.all() if key.name == "laptop"]
    keys.revoke(key.id)
    assert owner.kept.tokens is not None
    with server.client(owner.kept.tokens.access_token) as http:
        assert http.post("/mcp", json={}).status_code == 401


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        (Owner("jm_0_wrong"), "not known"),
        (Owner("", answer="refuse"), ""),
    ],
)
async def test_without_consent_there_is_no_code(server: Running, owner: Owner, shown: str) -> None:
    with pytest.raises((PermissionError, ExceptionGroup)):
        await use(server, owner, "show", what="sessions")
    assert owner.kept.tokens is None
    assert shown in owner.pages[-1]


def test_a_client_finds_the_oauth_metadata(server: Running) -> None:
    with server.client(None) as http:
        refused = http.post("/mcp", json={})
        assert refused.status_code == 401
        found = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert found
        resource = http.get(found[1]).json()
        assert resource["resource"] == f"{server.url}/mcp"
        (issuer,) = resource["authorization_servers"]
        about = http.get(f"{issuer.rstrip('/')}/.well-known/oauth-authorization-server").json()
        assert about["code_challenge_methods_supported"] == ["S256"]
        # Elsewhere the way in is a key.
        plain = http.get("/v1/spaces").headers["www-authenticate"]
        assert "resource_metadata" not in plain
        bad = {"redirect_uris": ["http://elsewhere.example/x"]}
        assert http.post("/register", json=bad).status_code == 400


def test_the_number_of_clients_without_a_token_is_limited(tmp_path: Path) -> None:
    known = OAuthSecrets(tmp_path, lambda: 0.0)
    value = OAuthToken(access_token="")
    known.add("client", value, client="c0", secret="c0")
    known.add("access", value, client="c0", consent="f")
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.executemany(
            "INSERT INTO secrets VALUES (?, 'client', ?, '', 9e9, 0, '{}')",
            [(f"c{number}", f"c{number}") for number in range(1, 1005)],
        )
    known.add("client", value, client="last", secret="last")
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        (count,) = db.execute("SELECT count(*) FROM secrets WHERE kind = 'client'").fetchone()
    assert count == 1001  # the newest thousand, and the one with a token
    assert known.find(OAuthToken, "client", "c0") is not None


def oauth_of(folder: Path) -> tuple[Server, OAuth, str]:
    """With a key."""
    token = Keys(folder).add("laptop", "write", ("ana",), as_time("2024-06-01"))
    settings = load(folder=folder, embedder=HashEmbedder(), reranker="none")
    server = Server(settings, clock=lambda: as_time("2024-06-01"), keys=Keys(folder))
    return server, OAuth(server, "http://127.0.0.1:9"), token


async def consented(
    server: Server, oauth: OAuth, token: str, client: OAuthClientInformationFull
) -> str:
    """The code that the client gets."""
    await oauth.register_client(client)
    asked = AuthorizationParams(
        state=None,
        scopes=None,
        code_challenge="x",
        redirect_uri=AnyUrl(BACK),
        redirect_uri_provided_explicitly=True,
    )
    ticket = (await oauth.authorize(client, asked)).partition("ticket=")[2]
    key = server.identify(token)
    assert key is not None
    back = oauth.allow(ticket, key, "ana", write=True).headers["location"]
    return parse_qs(urlsplit(back).query)["code"][0]


async def test_of_two_requests_with_one_code_or_token_only_one_succeeds(tmp_path: Path) -> None:
    server, oauth, token = oauth_of(tmp_path)
    client = OAuthClientInformationFull(client_id="c", redirect_uris=[AnyUrl(BACK)])
    code = await consented(server, oauth, token, client)
    codes = [await oauth.load_authorization_code(client, code) for _ in range(2)]
    assert codes[0] is not None
    assert codes[1] is not None
    tokens = await oauth.exchange_authorization_code(client, codes[0])
    with pytest.raises(TokenError):
        await oauth.exchange_authorization_code(client, codes[1])
    assert tokens.refresh_token is not None
    loaded = [await oauth.load_refresh_token(client, tokens.refresh_token) for _ in range(2)]
    assert loaded[0] is not None
    assert loaded[1] is not None
    newer = await oauth.exchange_refresh_token(client, loaded[0], ["read"])
    assert oauth.key(newer.access_token) is not None
    with pytest.raises(TokenError):
        await oauth.exchange_refresh_token(client, loaded[1], ["read"])
    assert oauth.key(newer.access_token) is None  # somebody has a copy


async def test_keys_that_cannot_be_read_let_no_token_in(tmp_path: Path) -> None:
    server, oauth, token = oauth_of(tmp_path)
    server.sign_in = oauth
    client = OAuthClientInformationFull(client_id="c", redirect_uris=[AnyUrl(BACK)])
    code = await oauth.load_authorization_code(
        client, await consented(server, oauth, token, client)
    )
    assert code is not None
    access = (await oauth.exchange_authorization_code(client, code)).access_token
    assert server.identify(access, signed_in=True) is not None
    assert server.identify(access) is None
    (tmp_path / "keys.json").write_text("{broken")
    assert server.identify(access, signed_in=True) is None
