"""OAuth 2.1 for remote MCP clients, as the MCP specification asks for it.

The SDK serves the endpoints (metadata, registration, PKCE, tokens, revocation). This module decides
who may be let in. The owner of a key pastes it into our consent page. The client gets a token for
one space, which works only at /mcp and only until the key is revoked.
"""

from __future__ import annotations

import secrets
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
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from justmem.errors import InvalidSetting
from justmem.runtime.addresses import is_loopback
from justmem.server.access_keys import RIGHTS, Key
from justmem.server.mcp.consent import consent_page
from justmem.server.mcp.oauth_secrets import OAuthSecrets
from justmem.server.state import Server

_SCOPES = ["read", "write"]
_CONSENT_SECONDS = 600  # for the owner to decide, and for the client to use its code
_ACCESS_SECONDS = 3600
_REFRESH_SECONDS = 60 * 24 * 3600


class Asked(BaseModel):
    """A client that waits for the owner's consent."""

    client: OAuthClientInformationFull
    params: AuthorizationParams

    @property
    def scopes(self) -> list[str]:
        return self.params.scopes or _SCOPES

    def answer(self, **given: str) -> Response:
        """Sends the browser back to the client."""
        uri = str(self.params.redirect_uri)
        url = construct_redirect_uri(uri, state=self.params.state, **given)
        return RedirectResponse(url, 303)


class Granted(BaseModel):
    """What an owner allowed a client: one space, with at most the rights of a key."""

    key: str
    space: str
    consent: str  # an id that the tokens of one consent share


class Code(AuthorizationCode, Granted): ...


class Token(AccessToken, RefreshToken, Granted): ...


class OAuth(OAuthAuthorizationServerProvider[Code, Token, Token]):
    def __init__(self, server: Server, url: str) -> None:
        split = urlsplit(url)
        secure = split.scheme == "https" or is_loopback(split.hostname or "")
        if not secure or split.path not in ("", "/") or split.query:
            raise InvalidSetting(
                f"public_url is the https address of this server without a path, not {url!r}."
            )
        self._server = server
        self._issuer = url.rstrip("/")
        self._resource = f"{self._issuer}/mcp"
        self._secrets = OAuthSecrets(server.settings.folder, lambda: server.clock().timestamp())
        # This header tells a client where to begin.
        metadata = f"{self._issuer}/.well-known/oauth-protected-resource/mcp"
        self.challenge = f'Bearer realm="justmem", resource_metadata="{metadata}"'

    def routes(self) -> list[BaseRoute]:
        issuer, resource = AnyHttpUrl(self._issuer), AnyHttpUrl(self._resource)
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
        granted = self._secrets.find(Token, "access", token)
        key = None if granted is None else self._key_of(granted)
        if granted is None or key is None or not key.opens(granted.space):
            return None
        right = min(key.right, "write" if "write" in granted.scopes else "read", key=RIGHTS.index)
        return key.model_copy(update={"right": right, "spaces": (granted.space,)})

    def _key_of(self, granted: Granted) -> Key | None:
        keys = self._server.keys.all() if self._server.keys else []
        return next((key for key in keys if key.id == granted.key), None)

    # ------------------------------------------------------------ what the SDK calls

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._secrets.find(OAuthClientInformationFull, "client", client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        for uri in client_info.redirect_uris or []:
            if uri.scheme in ("javascript", "data", "file") or (
                uri.scheme == "http" and not is_loopback(uri.host or "")
            ):
                raise RegistrationError("invalid_redirect_uri", "Use https or a loopback address.")
        id = str(client_info.client_id)
        self._secrets.add("client", client_info, client=id, secret=id)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        if params.resource is not None and params.resource.rstrip("/") != self._resource:
            raise AuthorizeError("invalid_target", f"Tokens are issued for {self._resource} only.")
        ticket = self._secrets.add(
            "ticket",
            Asked(client=client, params=params),
            client=str(client.client_id),
            seconds=_CONSENT_SECONDS,
        )
        return f"{self._issuer}/oauth/consent?ticket={ticket}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> Code | None:
        code = self._secrets.find(Code, "code", authorization_code)
        return code and code.model_copy(update={"code": authorization_code})

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: Code
    ) -> OAuthToken:
        if not self._secrets.use(authorization_code.code):
            raise TokenError("invalid_grant", "The code was used before.")
        return self._issued(authorization_code, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> Token | None:
        token = self._secrets.find(Token, "refresh", refresh_token)
        known = token is not None and self._key_of(token) is not None
        return token.model_copy(update={"token": refresh_token}) if token and known else None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: Token, scopes: list[str]
    ) -> OAuthToken:
        """If the token was used before, somebody has a copy: no token of its consent is valid any
        more."""
        if not self._secrets.use(refresh_token.token):
            self._secrets.revoke(refresh_token.consent)
            raise TokenError("invalid_grant", "The refresh token was used before.")
        return self._issued(refresh_token, scopes)

    async def load_access_token(self, token: str) -> Token | None:
        found = self._secrets.find(Token, "access", token)
        return found and found.model_copy(update={"token": token})

    async def revoke_token(self, token: Token) -> None:
        """Both tokens of the consent."""
        self._secrets.revoke(token.consent)

    def _issued(self, granted: Code | Token, scopes: list[str]) -> OAuthToken:
        def new(kind: str, seconds: int) -> str:
            token = Token(
                token="",  # only its hash is stored
                scopes=scopes,
                expires_at=int(self._server.clock().timestamp()) + seconds,
                **granted.model_dump(include={"client_id", "key", "space", "consent"}),
            )
            whose = {"client": granted.client_id, "consent": granted.consent}
            return self._secrets.add(kind, token, seconds=seconds, **whose)

        return OAuthToken(
            access_token=new("access", _ACCESS_SECONDS),
            expires_in=_ACCESS_SECONDS,
            refresh_token=new("refresh", _REFRESH_SECONDS),
            scope=" ".join(scopes),
        )

    # ------------------------------------------------------------ the consent page

    async def _show(self, request: Request) -> Response:
        return self._page(request.query_params.get("ticket", ""))

    async def _decide(self, request: Request) -> Response:
        form = {name: str(value).strip() for name, value in (await request.form()).items()}
        ticket, space = form.get("ticket", ""), form.get("space", "")
        asked = self._secrets.find(Asked, "ticket", ticket)
        if asked is None:
            return self._page(ticket)
        if form.get("answer") != "allow":
            self._secrets.use(ticket)
            return asked.answer(error="access_denied")
        key = self._server.identify(form.get("key", ""))
        if key is None:
            return self._page(ticket, "This key is not known.", space)
        space = space or key.only or ""
        if not space:
            return self._page(ticket, "This key opens several spaces: name one.")
        if not key.opens(space):
            return self._page(ticket, "This key does not open that space.")
        return self.allow(ticket, key, space, "write" in form)

    def allow(self, ticket: str, key: Key, space: str, write: bool) -> Response:
        """Sends the browser back to the client, with a code."""
        asked = self._secrets.find(Asked, "ticket", ticket)
        if asked is None or not self._secrets.use(ticket):
            return consent_page(None)
        scopes = [scope for scope in asked.scopes if write or scope != "write"]
        client = str(asked.client.client_id)
        code = Code(
            code="",  # only its hash is stored
            expires_at=self._server.clock().timestamp() + _CONSENT_SECONDS,
            client_id=client,
            scopes=scopes,
            code_challenge=asked.params.code_challenge,
            redirect_uri=asked.params.redirect_uri,
            redirect_uri_provided_explicitly=asked.params.redirect_uri_provided_explicitly,
            resource=self._resource,
            key=key.id,
            space=space,
            consent=secrets.token_hex(16),
        )
        return asked.answer(
            code=self._secrets.add("code", code, client=client, seconds=_CONSENT_SECONDS)
        )

    def _page(self, ticket: str, error: str = "", space: str = "") -> Response:
        asked = self._secrets.find(Asked, "ticket", ticket)
        if asked is None:
            return consent_page(None)
        name, uri = asked.client.client_name, str(asked.params.redirect_uri)
        return consent_page(
            uri, name=name, ticket=ticket, space=space, error=error, write="write" in asked.scopes
        )
