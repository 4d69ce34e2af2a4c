"""The page where the owner of a key allows or refuses what an OAuth client asks for."""

from __future__ import annotations

from html import escape
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse

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
<p><button class="main" name="answer" value="allow">Allow</button>
<button name="answer" value="refuse" formnovalidate>Refuse</button></p></form>
"""
_GONE = "<p>This request is over or unknown. Start again from the program that sent you here.</p>"


def consent_page(
    redirect_uri: str | None,
    *,
    name: str | None = None,
    ticket: str = "",
    space: str = "",
    error: str = "",
    write: bool = False,
) -> HTMLResponse:
    """`redirect_uri` is None for a request that is over. `write`: the client asks for it."""
    if redirect_uri is None:
        return HTMLResponse(_PAGE.format(body=_GONE), 404)
    to = urlsplit(redirect_uri)
    body = _FORM.format(
        name=escape(name or "A program"),
        place=escape(to.hostname or f"{to.scheme}:"),
        write="checked" if write else "disabled",
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
    # With `no-referrer`, browsers send the form with the origin `null`, which is refused.
    headers = {"content-security-policy": policy, "referrer-policy": "same-origin"}
    return HTMLResponse(_PAGE.format(body=body), 400 if error else 200, headers)
