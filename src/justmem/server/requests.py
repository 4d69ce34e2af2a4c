"""What the routes share: parameters, bodies, and access to a space."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Header, Path, Query, Request, params
from fastapi.dependencies.utils import get_flat_params
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse
from starlette.types import Send

from justmem.errors import InputError, JustMemError
from justmem.memory import AsyncMemory
from justmem.server.access_keys import Key, Right
from justmem.server.middleware import KEY
from justmem.server.space_access import SpaceAccess
from justmem.server.state import Server

log = logging.getLogger("justmem.server")

# ---------------------------------------------------------------- parameters and bodies


def decoded(text: str) -> str:
    """Path parameters arrive as they were sent: see `Middleware`."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InputError(f"{text[:100]!r} is not UTF-8, percent-encoded.") from None


async def check_parameters(request: Request) -> None:
    """A misspelt or misplaced parameter, such as `verfy`, must not be ignored."""
    route = request.scope["route"]
    known = {
        field.alias
        for field in get_flat_params(route.dependant)
        if not isinstance(field.field_info, params.Path | params.Header)
    }
    for name in request.query_params:
        if name not in known:
            raise InputError(f"query.{name[:100]}: there is no such parameter.")
    sent = not {"content-length", "transfer-encoding"}.isdisjoint(request.headers)
    if sent and route.body_field is None and await request.body() not in (b"", b"{}"):
        raise InputError("body: this request takes none. Put its parameters into the query.")


SpaceName = Annotated[
    str,
    Path(description="The name of a space: any text, percent-encoded.", examples=["ana"]),
    AfterValidator(decoded),
]
SpaceHeader = Annotated[
    str | None,
    Header(alias="x-justmem-space", description="The space, percent-encoded."),
]
Id = Annotated[str, Path(description="Percent-encoded."), AfterValidator(decoded)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Time = Annotated[
    str | float,
    Field(
        description="ISO 8601, or seconds since 1970, read as UTC. Local time of the speaker; an "
        "offset is ignored.",
        examples=["2024-05-20T14:30"],
    ),
]
Deadline = Annotated[
    str | float,
    Field(
        description="ISO 8601 in the server's local time or with an offset, or seconds since 1970.",
        examples=["2024-05-20T14:30+02:00"],
    ),
]
Labels = Annotated[dict[str, str], Field(description="Names and values to filter by.")]


class Body(BaseModel):
    """Its fields are arguments of a method of AsyncMemory, which checks their values."""

    model_config = ConfigDict(extra="forbid")

    def given(self, *but: str) -> dict[str, Any]:
        return self.model_dump(exclude_none=True, exclude=set(but))


def with_example(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class ClosingStream(StreamingResponse):
    """Closes what it reads from, also when the client leaves. If that fails, the response ends
    early, and uvicorn closes the connection."""

    async def stream_response(self, send: Send) -> None:
        source: Any = self.body_iterator
        async with aclosing(source):
            try:
                await super().stream_response(send)
            except JustMemError as error:
                log.warning("a response was cut short: %s", type(error).__name__)


# ---------------------------------------------------------------- access


def server_of(request: Request) -> Server:
    server: Server = request.app.state.server
    return server


def key_of(request: Request) -> Key:
    key: Key = request.scope[KEY]
    return key


def space_for(key: Key, named: str | None) -> str:
    """The space of a request whose path names none: by header, or the key's only one."""
    space = decoded(named) if named else key.only
    if space is None:
        raise InputError(
            "Name the space with the header X-JustMem-Space, or use a key that opens one space."
        )
    return space


def _access(right: Right) -> Callable[..., SpaceAccess]:
    def check(request: Request, space: SpaceName) -> SpaceAccess:
        return SpaceAccess(server_of(request), key_of(request), space).check(right)

    return check


def _memory(right: Right) -> Any:
    async def opened(request: Request, space: SpaceName) -> AsyncIterator[AsyncMemory]:
        async with _access(right)(request, space).memory() as memory:
            yield memory

    return Depends(opened, scope="function")


ThisServer = Annotated[Server, Depends(server_of)]
ThisKey = Annotated[Key, Depends(key_of)]
ReadAccess = Annotated[SpaceAccess, Depends(_access("read"))]
WriteAccess = Annotated[SpaceAccess, Depends(_access("write"))]
AdminAccess = Annotated[SpaceAccess, Depends(_access("admin"))]
# The opened memory of the space
Readable = Annotated[AsyncMemory, _memory("read")]
Writable = Annotated[AsyncMemory, _memory("write")]
Administrable = Annotated[AsyncMemory, _memory("admin")]
