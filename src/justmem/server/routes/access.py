"""What a route gets to know of a request: the server, the key, and the space it may use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Header, Path, Request
from pydantic import AfterValidator

from justmem.errors import InputError
from justmem.memory import AsyncMemory
from justmem.server.access_keys import Key, Right
from justmem.server.middleware import KEY
from justmem.server.state import Server


def _decoded(text: str) -> str:
    """Path parameters arrive as they were sent: see `Middleware`."""
    return unquote(text, errors="strict")


def checked_space(name: str) -> str:
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise ValueError("the name of a space is 1 to 200 printable characters")
    return name


SpaceName = Annotated[
    str,
    Path(description="The name of a space: any text, percent-encoded.", examples=["ana"]),
    AfterValidator(_decoded),
    AfterValidator(checked_space),
]
Id = Annotated[str, Path(description="Percent-encoded."), AfterValidator(_decoded)]


@dataclass(frozen=True, slots=True)
class Grant:
    """A request that may do what it asks for."""

    server: Server
    key: Key
    space: str

    def memory(self) -> AbstractAsyncContextManager[AsyncMemory]:
        """The space's memory, in the key's name."""
        return self.server.spaces.use(self.space, self.key.actor)


def server_of(request: Request) -> Server:
    server = request.app.state.server
    assert isinstance(server, Server)
    return server


def key_of(request: Request) -> Key:
    key = request.scope[KEY]
    assert isinstance(key, Key)
    return key


def _granted(right: Right) -> Callable[..., Grant]:
    def grant(request: Request, space: SpaceName) -> Grant:
        server, key = server_of(request), key_of(request)
        server.check(key, space, right)
        return Grant(server, key, space)

    return grant


Reader = Annotated[Grant, Depends(_granted("read"))]
Writer = Annotated[Grant, Depends(_granted("write"))]
Admin = Annotated[Grant, Depends(_granted("admin"))]


def space_for(key: Key, named: str | None) -> str:
    """The space of a request whose path names none: by header, or the key's only one."""
    space = unquote(named) if named else key.only
    if space is None:
        raise InputError(
            "Say whose memory it is about with the header X-JustMem-Space, or use a key that "
            "opens a single space."
        )
    try:
        return checked_space(space)
    except ValueError as error:
        raise InputError(f"X-JustMem-Space: {error}.") from None


SpaceHeader = Annotated[
    str | None,
    Header(alias="x-justmem-space", description="The space, percent-encoded."),
]
