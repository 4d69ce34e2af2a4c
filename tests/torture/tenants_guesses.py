"""Another's id is answered like one that nobody has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from string import ascii_letters, digits
from urllib.parse import quote

from justmem.errors import JustMemError
from torture.tenants_operations import received, tool_call, whole
from torture.tenants_world import Tenant

Ask = Callable[[Tenant, str], str]


def guess(me: Tenant, other: Tenant, r: Random) -> str:
    """All that came back for an id of the other's; AssertionError if it tells the id apart."""
    mine = set(me.ids())
    # Short ones occur in other words by chance, which would make two same answers differ.
    theirs = [id for id in other.ids() if id not in mine and len(id) > 8]
    if not theirs:
        return ""
    id = me.sending(r.choice(theirs))
    # The same length and the same signs, so that the answers can be compared letter by letter.
    nobody = id
    while nobody in (*mine, *theirs):
        nobody = "".join(_other(each, r) for each in id)
    me.sending(nobody)
    where = r.choice([*_WAYS])
    heard = [_WAYS[where](me, each) for each in (id, nobody)]
    same = [_without(text, each) for text, each in zip(heard, (id, nobody), strict=True)]
    assert same[0] == same[1], f"{where} tells {id!r} from {nobody!r}: {same}"
    return heard[0]


def _other(sign: str, r: Random) -> str:
    same = next((kind for kind in (digits, ascii_letters) if sign in kind), sign)
    return r.choice(same)


def _without(text: str, id: str) -> str:
    session = id.partition("#")[0]  # of a quote's id
    for form in (id, quote(id, safe=""), json.dumps(id)[1:-1], repr(session)):
        text = text.replace(form, "ID")
    return re.sub(r"'date': '[^']*'|'content-length': '\d+'", "", text)


def _library(method: str, parameter: str) -> Ask:
    def ask(me: Tenant, id: str) -> str:
        try:
            return received(getattr(me.memory, method)(**{parameter: id}))
        except JustMemError as error:
            return f"{type(error).__name__}: {error}"

    return ask


def _http(method: str, path: str, field: str | None = None) -> Ask:
    def ask(me: Tenant, id: str) -> str:
        address = path.replace("{id}", quote(id, safe=""))
        space = quote(me.space, safe="")
        body = {field: id} if field else None
        return whole(me.client.request(method, f"/v1/spaces/{space}/{address}", json=body))

    return ask


def _tool(name: str, argument: str) -> Ask:
    def ask(me: Tenant, id: str) -> str:
        call = {"name": name, "arguments": {argument: id}}
        return whole(tool_call(me.client, "tools/call", call, me.space))

    return ask


def _space(me: Tenant, id: str) -> str:
    """An id as the name of a space: nobody's, whosever id it is."""
    return whole(me.client.get(f"/v1/spaces/{quote(id, safe='')}/cards"))


_WAYS: dict[str, Ask] = {
    "card": _library("card", "card_id"),
    "source": _library("source", "card_id"),
    "session": _library("session", "session_id"),
    "quarantined": _library("quarantined", "session_id"),
    "cards": _library("cards", "session"),
    "forget card": _library("forget", "card"),
    "forget session": _library("forget", "session"),
    "forget subject": _library("forget", "subject"),
    "GET card": _http("GET", "cards/{id}"),
    "GET session": _http("GET", "sessions/{id}"),
    "GET status": _http("GET", "sessions/{id}/status"),
    "GET quarantined": _http("GET", "sessions/{id}/quarantined"),
    "POST retry": _http("POST", "sessions/{id}/retry"),
    "POST forget card": _http("POST", "forget", "card"),
    "POST forget session": _http("POST", "forget", "session"),
    "POST forget subject": _http("POST", "forget", "subject"),
    "replay": _tool("replay", "card"),
    "fetch": _tool("fetch", "id"),
    "tool forget": _tool("forget", "session"),
    "space": _space,
}
