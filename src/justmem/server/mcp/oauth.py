"""OAuth 2.1 for remote MCP clients, as the MCP specification asks for it.

The SDK serves the endpoints (metadata, registration, PKCE, tokens, revocation). This module decides
who may be let in. The owner of a key pastes it into our consent page. The client gets a token for
one space, which works only at /mcp and only until the key is revoked.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
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
from pydantic import AnyHttpUrl
from starlette.routing import BaseRoute, Route

from justmem.errors import InvalidSetting
from justmem.runtime.addresses import is_loopback
from justmem.server.access_keys import RIGHTS, Key, Right
from justmem.server.mcp.consent import Consent
from justmem.server.mcp.grants import PREFIX, Grant, Grants
from justmem.server.state import Server

SCOPES = ("read", "write")
_WAITING = 600  # seconds for the owner to decide, and for the client to use its code
_ACCESS = 3600
_REFRESH = 60 * 24 * 3600
_MOST_WAITING = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """A client that waits for the owner's consent."""

    client: OAuthClientInformationFull
    params: AuthorizationParams
    expires: float

    @property
    def scopes(self) -> list[str]:
        return self.params.scopes or list(SCOPES)


class Code(AuthorizationCode):
    key: str
    space: str


class Refresh(RefreshToken):
    grant: Grant


class OAuth(OAuthAuthorizationServerProvider[Code, Refresh, AccessToken]):
    def __init__(self, server: Server, url: str) -> None:
        split = urlsplit(url)
        secure = split.scheme == "https" or is_loopback(split.hostname or "")
        if not secure or split.path not in ("", "/") or split.query:
            raise InvalidSetting(
                f"public_url is the https address of this server without a path, not {url!r}."
            )
        self._server = server
        self.issuer = url.rstrip("/")
        self.resource = f"{self.issuer}/mcp"
        self._grants = Grants(server.settings.folder)
        self._waiting: OrderedDict[str, Request] = OrderedDict()
        self._codes: OrderedDict[str, Code] = OrderedDict()

    def routes(self) -> list[BaseRoute]:
        issuer, scopes = AnyHttpUrl(self.issuer), list(SCOPES)
        registration = ClientRegistrationOptions(
            enabled=True, valid_scopes=scopes, default_scopes=scopes
        )
        revocation = RevocationOptions(enabled=True)
        consent = Consent(self)
        return [
            *create_auth_routes(self, issuer, None, registration, revocation),
            *create_protected_resource_routes(
                AnyHttpUrl(self.resource), [issuer], scopes, "JustMem"
            ),
            Route("/oauth/consent", consent.show, methods=["GET"]),
            Route("/oauth/consent", consent.decide, methods=["POST"]),
        ]

    @property
    def challenge(self) -> str:
        """The header that tells a client where to begin."""
        metadata = f"{self.issuer}/.well-known/oauth-protected-resource/mcp"
        return f'Bearer realm="justmem", resource_metadata="{metadata}"'

    def key(self, token: str) -> Key | None:
        """The key behind an access token, narrowed to what was granted."""
        grant = self._found("access", token)
        if grant is None or grant.expires < self._now or grant.resource != self.resource:
            return None
        key = self._key(grant.key)
        if key is None or not key.opens(grant.space):
            return None
        right = min(key.right, _right(grant.scopes), key=RIGHTS.index)
        return replace(key, right=right, spaces=(grant.space,))

    def _found(self, kind: str, token: str) -> Grant | None:
        grant = self._grants.find(token) if token.startswith(PREFIX) else None
        return grant if grant is not None and grant.kind == kind else None

    def _key(self, id: str) -> Key | None:
        keys = self._server.keys
        return next((key for key in keys.all() if key.id == id), None) if keys else None

    @property
    def _now(self) -> float:
        return self._server.clock().timestamp()

    # ------------------------------------------------------------ clients

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        info = self._grants.client(client_id)
        return OAuthClientInformationFull.model_validate_json(info) if info else None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        for uri in client_info.redirect_uris or []:
            if uri.scheme in ("javascript", "data", "file") or (
                uri.scheme == "http" and not is_loopback(uri.host or "")
            ):
                raise RegistrationError("invalid_redirect_uri", "Use https or a loopback address.")
        assert client_info.client_id is not None
        self._grants.add_client(client_info.client_id, client_info.model_dump_json())

    # ------------------------------------------------------------ consent

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        if params.resource is not None and params.resource.rstrip("/") != self.resource:
            raise AuthorizeError("invalid_target", f"Tokens are issued for {self.resource} only.")
        ticket = secrets.token_urlsafe(24)
        self._waiting[ticket] = Request(client, params, self._now + _WAITING)
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popitem(last=False)
        return f"{self.issuer}/oauth/consent?ticket={ticket}"

    def waiting(self, ticket: str) -> Request | None:
        request = self._waiting.get(ticket)
        return request if request and request.expires > self._now else None

    def identify(self, secret: str) -> Key | None:
        return self._server.identify(secret)

    def allow(self, ticket: str, key: Key, space: str, write: bool) -> str:
        """Where the browser goes next, with a code for the client."""
        request = self._waiting.pop(ticket)
        params, client_id = request.params, request.client.client_id
        assert client_id is not None
        code = Code(
            code=secrets.token_urlsafe(32),
            scopes=[scope for scope in request.scopes if write or scope != "write"],
            expires_at=self._now + _WAITING,
            client_id=client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=self.resource,
            key=key.id,
            space=space,
        )
        self._codes[code.code] = code
        while len(self._codes) > _MOST_WAITING:
            self._codes.popitem(last=False)
        return self._back(params, code=code.code)

    def refuse(self, ticket: str) -> str:
        return self._back(self._waiting.pop(ticket).params, error="access_denied")

    def _back(self, params: AuthorizationParams, **given: str) -> str:
        return construct_redirect_uri(str(params.redirect_uri), state=params.state, **given)

    # ------------------------------------------------------------ tokens

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> Code | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: Code
    ) -> OAuthToken:
        code = authorization_code
        if self._codes.pop(code.code, None) is None:
            raise TokenError("invalid_grant", "The code was used before.")
        self._grants.clean(int(self._now))
        return self._issued(
            Grant(
                client=code.client_id,
                key=code.key,
                space=code.space,
                scopes=tuple(code.scopes),
                resource=self.resource,
                family=secrets.token_hex(16),
            )
        )

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> Refresh | None:
        grant = self._found("refresh", refresh_token)
        if grant is None or self._key(grant.key) is None:
            return None
        return Refresh(
            token=refresh_token,
            client_id=grant.client,
            scopes=list(grant.scopes),
            expires_at=grant.expires,
            resource=grant.resource,
            grant=grant,
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: Refresh, scopes: list[str]
    ) -> OAuthToken:
        """If the token was used before, somebody has a copy: no token of its consent is valid any
        more."""
        grant = refresh_token.grant
        if not self._grants.use(refresh_token.token):
            self._grants.revoke(grant.family)
            raise TokenError("invalid_grant", "The refresh token was used before.")
        return self._issued(grant.model_copy(update={"scopes": tuple(scopes)}))

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

    async def load_access_token(self, token: str) -> AccessToken | None:
        grant = self._found("access", token)
        if grant is None:
            return None
        scopes, expires = list(grant.scopes), grant.expires
        return AccessToken(token=token, client_id=grant.client, scopes=scopes, expires_at=expires)

    async def revoke_token(self, token: AccessToken | Refresh) -> None:
        """Both tokens of the consent."""
        if grant := self._grants.find(token.token):
            self._grants.revoke(grant.family)


def _right(scopes: tuple[str, ...]) -> Right:
    return "write" if "write" in scopes else "read"
