"""OAuth 2.1 for remote MCP clients, as the MCP specification asks for it.

The SDK serves the endpoints (metadata, registration, PKCE, tokens, revocation). This module decides
who may be let in. The owner of a key pastes it into our consent page. The client gets a token for
one space, which works only at /mcp and only until the key is revoked.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, BaseModel
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from justmem.errors import InvalidSetting
from justmem.runtime import private_files
from justmem.runtime.addresses import is_loopback
from justmem.server.access_keys import RIGHTS, Key
from justmem.server.state import Server

FILE = "oauth.sqlite3"
_SCOPES = ["read", "write"]
_PREFIX = "jmo_"
_WAITING = 600  # seconds for the owner to decide, and for the client to use its code
_ACCESS = 3600
_REFRESH = 60 * 24 * 3600
_MOST = 1000  # requests, codes and clients without a token: anybody may make one
_SCHEMA = """
CREATE TABLE IF NOT EXISTS clients (id TEXT PRIMARY KEY, info TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (
  hash TEXT PRIMARY KEY, client TEXT NOT NULL, family TEXT NOT NULL, expires INTEGER NOT NULL,
  used INTEGER NOT NULL DEFAULT 0, granted TEXT NOT NULL);
"""
T = TypeVar("T")


class Grant(BaseModel):
    """What an owner allowed one client. The tokens of one consent are a `family`."""

    client: str
    key: str
    space: str
    scopes: list[str]
    family: str
    kind: Literal["access", "refresh"] = "access"
    expires: int = 0


class Grants:
    """Clients and tokens, in one small SQLite file. It stores only hashes of the tokens."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            private_files.folder(self._path.parent)
            private_files.write(self._path, b"")
        with closing(sqlite3.connect(self._path, timeout=5)) as db, db:
            db.executescript(_SCHEMA)
            yield db

    def client(self, id: str) -> str | None:
        with self._file() as db:
            row = db.execute("SELECT info FROM clients WHERE id = ?", (id,)).fetchone()
        return row[0] if row else None

    def add_client(self, id: str, info: str) -> None:
        """The oldest client without a token goes if there are too many."""
        with self._file() as db:
            db.execute("INSERT INTO clients VALUES (?, ?)", (id, info))
            db.execute(
                "DELETE FROM clients WHERE id NOT IN (SELECT client FROM tokens) AND rowid <= "
                "(SELECT max(rowid) FROM clients) - ?",
                (_MOST,),
            )

    def add(self, grant: Grant) -> str:
        """The new token: shown once, stored as a hash."""
        token = _PREFIX + secrets.token_urlsafe(32)
        row = (_hash(token), grant.client, grant.family, grant.expires, grant.model_dump_json())
        with self._file() as db:
            db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, 0, ?)", row)
        return token

    def find(self, token: str, kind: str) -> Grant | None:
        if not token.startswith(_PREFIX):
            return None
        with self._file() as db:
            found = "SELECT granted FROM tokens WHERE hash = ?"
            row = db.execute(found, (_hash(token),)).fetchone()
        grant = Grant.model_validate_json(row[0]) if row else None
        return grant if grant and grant.kind == kind else None

    def use(self, token: str) -> bool:
        """False if it was used before. A refresh token works once. It stays known, so that a second
        use is noticed."""
        with self._file() as db:
            used = "UPDATE tokens SET used = 1 WHERE hash = ? AND used = 0"
            return db.execute(used, (_hash(token),)).rowcount == 1

    def revoke(self, family: str) -> None:
        with self._file() as db:
            db.execute("DELETE FROM tokens WHERE family = ?", (family,))

    def clean(self, now: int) -> None:
        with self._file() as db:
            db.execute("DELETE FROM tokens WHERE expires < ?", (now,))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


# ---------------------------------------------------------------- the provider for the SDK


@dataclass(frozen=True, slots=True)
class Request:
    """A client that waits for the owner's consent."""

    client: OAuthClientInformationFull
    params: AuthorizationParams
    expires: float

    def back(self, **given: str) -> str:
        uri = str(self.params.redirect_uri)
        return construct_redirect_uri(uri, state=self.params.state, **given)


class Code(AuthorizationCode):
    grant: Grant


class Access(AccessToken):
    grant: Grant


class Refresh(RefreshToken):
    grant: Grant


class OAuth(OAuthAuthorizationServerProvider[Code, Refresh, Access]):
    def __init__(self, server: Server, url: str) -> None:
        split = urlsplit(url)
        secure = split.scheme == "https" or is_loopback(split.hostname or "")
        if not secure or split.path not in ("", "/") or split.query:
            raise InvalidSetting(
                f"public_url is the https address of this server without a path, not {url!r}."
            )
        self._server = server
        self._issuer = url.rstrip("/")
        self._grants = Grants(server.settings.folder)
        self._waiting: OrderedDict[str, Request] = OrderedDict()
        self._codes: OrderedDict[str, Code] = OrderedDict()
        # This header tells a client where to begin.
        metadata = f"{self._issuer}/.well-known/oauth-protected-resource/mcp"
        self.challenge = f'Bearer realm="justmem", resource_metadata="{metadata}"'

    def routes(self) -> list[BaseRoute]:
        issuer, resource = AnyHttpUrl(self._issuer), AnyHttpUrl(f"{self._issuer}/mcp")
        registration = ClientRegistrationOptions(
            enabled=True, valid_scopes=_SCOPES, default_scopes=_SCOPES
        )
        revocation = RevocationOptions(enabled=True)
        return [
            *create_auth_routes(self, issuer, None, registration, revocation),
            *create_protected_resource_routes(resource, [issuer], _SCOPES, "JustMem"),
            Route("/oauth/consent", self._show, methods=["GET"]),
            Route("/oauth/consent", self._decide, methods=["POST"]),
        ]

    def key(self, token: str) -> Key | None:
        """The key behind an access token, narrowed to what was granted."""
        grant = self._grants.find(token, "access")
        if grant is None or grant.expires < self._now:
            return None
        key = self._key_of(grant)
        if key is None or not key.opens(grant.space):
            return None
        right = key.right if "write" in grant.scopes else "read"
        limited = min(right, "write", key=RIGHTS.index)
        return key.model_copy(update={"right": limited, "spaces": (grant.space,)})

    def _key_of(self, grant: Grant) -> Key | None:
        keys = self._server.keys.all() if self._server.keys else []
        return next((key for key in keys if key.id == grant.key), None)

    @property
    def _now(self) -> float:
        return self._server.clock().timestamp()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        info = self._grants.client(client_id)
        return OAuthClientInformationFull.model_validate_json(info) if info else None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        for uri in client_info.redirect_uris or []:
            if uri.scheme in ("javascript", "data", "file") or (
                uri.scheme == "http" and not is_loopback(uri.host or "")
            ):
                raise RegistrationError("invalid_redirect_uri", "Use https or a loopback address.")
        self._grants.add_client(str(client_info.client_id), client_info.model_dump_json())

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        resource = f"{self._issuer}/mcp"
        if params.resource is not None and params.resource.rstrip("/") != resource:
            raise AuthorizeError("invalid_target", f"Tokens are issued for {resource} only.")
        ticket = secrets.token_urlsafe(24)
        _keep(self._waiting, ticket, Request(client, params, self._now + _WAITING))
        return f"{self._issuer}/oauth/consent?ticket={ticket}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> Code | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: Code
    ) -> OAuthToken:
        if self._codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant", "The code was used before.")
        self._grants.clean(int(self._now))
        return self._issued(authorization_code.grant)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> Refresh | None:
        grant = self._grants.find(refresh_token, "refresh")
        if grant is None or self._key_of(grant) is None:
            return None
        return Refresh(token=refresh_token, **_shared(grant))

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: Refresh, scopes: list[str]
    ) -> OAuthToken:
        """If the token was used before, somebody has a copy: no token of its consent is valid any
        more."""
        grant = refresh_token.grant
        if not self._grants.use(refresh_token.token):
            self._grants.revoke(grant.family)
            raise TokenError("invalid_grant", "The refresh token was used before.")
        return self._issued(grant.model_copy(update={"scopes": scopes}))

    def _issued(self, grant: Grant) -> OAuthToken:
        now = int(self._now)
        access = {"kind": "access", "expires": now + _ACCESS}
        refresh = {"kind": "refresh", "expires": now + _REFRESH}
        return OAuthToken(
            access_token=self._grants.add(grant.model_copy(update=access)),
            expires_in=_ACCESS,
            refresh_token=self._grants.add(grant.model_copy(update=refresh)),
            scope=" ".join(grant.scopes),
        )

    async def load_access_token(self, token: str) -> Access | None:
        grant = self._grants.find(token, "access")
        return None if grant is None else Access(token=token, **_shared(grant))

    async def revoke_token(self, token: Access | Refresh) -> None:
        """Both tokens of the consent."""
        self._grants.revoke(token.grant.family)

    # ------------------------------------------------------------ the consent page

    async def _show(self, request: HttpRequest) -> Response:
        return self._page(request.query_params.get("ticket", ""))

    async def _decide(self, request: HttpRequest) -> Response:
        form = {name: str(value).strip() for name, value in (await request.form()).items()}
        ticket, space = form.get("ticket", ""), form.get("space", "")
        if self._asked(ticket) is None:
            return self._page(ticket)
        if form.get("answer") != "allow":
            return RedirectResponse(self._waiting.pop(ticket).back(error="access_denied"), 303)
        key = self._server.identify(form.get("key", ""))
        if key is None:
            return self._page(ticket, "This key is not known.", space)
        space = space or key.only or ""
        if not space:
            return self._page(ticket, "This key opens several spaces: name one.")
        if not key.opens(space) or len(space) > 200 or not space.isprintable():
            return self._page(ticket, "This key does not open that space.")
        return RedirectResponse(self.allow(ticket, key, space, "write" in form), 303)

    def _asked(self, ticket: str) -> Request | None:
        request = self._waiting.get(ticket)
        return request if request and request.expires > self._now else None

    def allow(self, ticket: str, key: Key, space: str, write: bool) -> str:
        """Where the browser goes next, with a code for the client."""
        request = self._waiting.pop(ticket)
        scopes = [scope for scope in _scopes(request) if write or scope != "write"]
        client, family = str(request.client.client_id), secrets.token_hex(16)
        code = Code(
            code=secrets.token_urlsafe(32),
            expires_at=self._now + _WAITING,
            client_id=client,
            scopes=scopes,
            code_challenge=request.params.code_challenge,
            redirect_uri=request.params.redirect_uri,
            redirect_uri_provided_explicitly=request.params.redirect_uri_provided_explicitly,
            resource=f"{self._issuer}/mcp",
            grant=Grant(client=client, key=key.id, space=space, scopes=scopes, family=family),
        )
        _keep(self._codes, code.code, code)
        return request.back(code=code.code)

    def _page(self, ticket: str, error: str = "", space: str = "") -> Response:
        request = self._asked(ticket)
        if request is None:
            return HTMLResponse(_PAGE.format(body=_GONE), 404)
        to = urlsplit(str(request.params.redirect_uri))
        body = _FORM.format(
            name=escape(request.client.client_name or "A program"),
            place=escape(to.hostname or f"{to.scheme}:"),
            write="checked" if "write" in _scopes(request) else "disabled",
            error=escape(error),
            ticket=escape(ticket),
            space=escape(space),
        )
        # Browsers apply form-action to the redirect after the form as well.
        origin = f"//{to.netloc}" if to.scheme in ("http", "https") else ""
        policy = (
            "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
            f"form-action 'self' {to.scheme}:{origin}"
        )
        headers = {"content-security-policy": policy}
        return HTMLResponse(_PAGE.format(body=body), 400 if error else 200, headers)


def _scopes(request: Request) -> list[str]:
    return request.params.scopes or _SCOPES


def _shared(grant: Grant) -> dict[str, Any]:
    """The fields that access and refresh tokens share."""
    shared = {"client_id": grant.client, "scopes": grant.scopes, "expires_at": grant.expires}
    return {**shared, "grant": grant}


def _keep(known: OrderedDict[str, T], name: str, value: T) -> None:
    known[name] = value
    while len(known) > _MOST:
        known.popitem(last=False)


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Connect to JustMem</title><link rel="stylesheet" href="/style.css">
<main><h1>Connect to your memory</h1>{body}</main></html>
"""
_FORM = """
<p><b>{name}</b> at <code>{place}</code> asks to use one space of this memory.
Continue only if you have just started this yourself.</p>
<p role="alert">{error}</p>
<form method="post" action="/oauth/consent">
<input type="hidden" name="ticket" value="{ticket}">
<p><label>Your JustMem key <input type="password" name="key" required autocomplete="off"
autofocus></label></p>
<p><label>Space <input name="space" value="{space}"
placeholder="only if your key opens several"></label></p>
<p><label><input type="checkbox" name="write" value="yes" {write}> It may also remember and
forget</label></p>
<p><button name="answer" value="allow">Allow</button>
<button name="answer" value="refuse" formnovalidate>Refuse</button></p></form>
"""
_GONE = "<p>This request is over or unknown. Start again from the program that sent you here.</p>"
