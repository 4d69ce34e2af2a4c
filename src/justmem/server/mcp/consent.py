"""The page on which the owner of a key lets an MCP client in. It needs no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from justmem.server.mcp.oauth import OAuth, Request

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


class Consent:
    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth

    async def show(self, request: HttpRequest) -> Response:
        return self._page(request.query_params.get("ticket", ""))

    async def decide(self, request: HttpRequest) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        ticket, space = form.get("ticket", ""), form.get("space", "").strip()
        if self._oauth.waiting(ticket) is None:
            return self._page(ticket)
        if form.get("answer") != "allow":
            return RedirectResponse(self._oauth.refuse(ticket), 303)
        key = self._oauth.identify(form.get("key", "").strip())
        if key is None:
            return self._page(ticket, "This key is not known.", space)
        chosen = space or key.only
        if chosen is None:
            return self._page(ticket, "This key opens several spaces: name one.")
        if not key.opens(chosen) or len(chosen) > 200 or not chosen.isprintable():
            return self._page(ticket, "This key does not open that space.")
        return RedirectResponse(self._oauth.allow(ticket, key, chosen, "write" in form), 303)

    def _page(self, ticket: str, error: str = "", space: str = "") -> Response:
        waiting = self._oauth.waiting(ticket)
        if waiting is None:
            return HTMLResponse(_PAGE.format(body=_GONE), 404)
        body = _FORM.format(
            name=escape(waiting.client.client_name or "A program"),
            place=escape(_place(waiting)),
            write="checked" if "write" in waiting.scopes else "disabled",
            error=escape(error),
            ticket=escape(ticket),
            space=escape(space),
        )
        # Browsers apply form-action to the redirect after the form as well.
        policy = (
            "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
            f"form-action 'self' {_origin(waiting)}"
        )
        status = 400 if error else 200
        return HTMLResponse(
            _PAGE.format(body=body), status, headers={"content-security-policy": policy}
        )


def _place(waiting: Request) -> str:
    uri = waiting.params.redirect_uri
    return uri.host or f"{uri.scheme}:"


def _origin(waiting: Request) -> str:
    """As a source of a content security policy."""
    split = urlsplit(str(waiting.params.redirect_uri))
    if split.scheme in ("http", "https"):
        return f"{split.scheme}://{split.netloc}"
    return f"{split.scheme}:"
