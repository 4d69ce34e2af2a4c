"""Errors as responses in the form of problem+json (RFC 9457)."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from justmem import errors
from justmem.errors import JustMemError

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("justmem.server")

# An error has the status of its nearest base class in this table.
STATUS: Mapping[type[JustMemError], int] = {
    errors.InputError: 422,
    errors.NotInMemory: 404,
    errors.BudgetExceeded: 402,
    errors.ModelError: 502,
    errors.ModelUnavailable: 503,
    errors.WeightsUnavailable: 503,
    errors.StoreError: 500,
    errors.StoreBusy: 503,
    errors.StoreFull: 507,
    errors.EmbedderMismatch: 409,
    errors.Refused: 403,
    errors.KeyNeeded: 401,
    errors.KeyTooWeak: 403,
    errors.TooLarge: 413,
    errors.Unfinished: 408,
    errors.TooMany: 429,
    errors.TooSlow: 504,
    errors.NoRoom: 503,
}
# Messages about stores and weights name files of this machine, so clients get these instead. The
# message itself goes to the log.
_PRIVATE: Mapping[type[JustMemError], str] = {
    errors.WeightsUnavailable: "A local model of the server is not available: see its log.",
    errors.StoreBusy: "The store of this space is busy: try again in a moment.",
    errors.StoreFull: "There is no room left on the server's disk.",
    errors.NotForgotten: "It is forgotten, but something of it is still found on the server's "
    "disk: see its log.",
    errors.StoreError: "The store of this space cannot be used: see the log.",
}
# Pydantic's words for the commonest mistakes are about Python.
_MISTAKES = {
    "model_attributes_type": "it should be a JSON object",
    "dict_type": "it should be a JSON object",
    "json_invalid": "it is not JSON",
    "extra_forbidden": "there is no such field",
    "missing": "this is required",
}
_NO_OBJECT = "send a JSON object, with the header Content-Type: application/json"
_PLAIN = {
    "Not Found": "There is nothing at this path. /openapi.json lists the routes.",
    "Method Not Allowed": "This path does not allow this method. /openapi.json lists the routes.",
}
# Clients of the chat protocols look for an `error` object.
_CHAT = ("/v1/chat", "/v1/models", "/v1/responses", "/v1/messages")


class Problem(BaseModel):
    """What went wrong, and what to do. `error` says the same in the way chat clients expect."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    error: dict[str, Any] | None = None


def public(error: JustMemError) -> str:
    """The message for a client."""
    if not isinstance(error, errors.EmbedderMismatch):
        for kind in type(error).__mro__:
            if kind in _PRIVATE:
                log.error("%s: %s", type(error).__name__, error)
                return _PRIVATE[kind]
    return str(error)


def respond(error: Exception, path: str) -> JSONResponse:
    """The response to any error."""
    name, status, detail, headers = _described(error)
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="justmem"'
    problem = Problem(
        type=f"urn:justmem:problem:{name}",
        title=name.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        instance=path,
        error={"message": detail, "type": name, "code": name} if path.startswith(_CHAT) else None,
    )
    body = problem.model_dump(exclude_none=True)
    return JSONResponse(body, status, headers, media_type=MEDIA_TYPE)


def mistake(error: Mapping[str, Any]) -> str:
    """One error of pydantic, in plain words."""
    place, what = ".".join(map(str, error["loc"])), error["msg"]
    what = _MISTAKES.get(error["type"], what.removeprefix("Value error, ").rstrip("."))
    if place == "body" and error["type"] in ("model_attributes_type", "dict_type"):
        what = _NO_OBJECT
    return f"{place}: {what.replace('Input should', 'it should')}."


def _described(error: Exception) -> tuple[str, int, str, dict[str, str]]:
    """Name, status, message and headers."""
    if isinstance(error, JustMemError):
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
        status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
        after = error.after if isinstance(error, errors.Refused) else None
        if isinstance(error, errors.StoreBusy | errors.ModelUnavailable):
            after = 1.0
        headers = {} if after is None else {"retry-after": str(max(1, math.ceil(after)))}
        return name, status, public(error), headers
    if isinstance(error, RequestValidationError):
        return "input-error", 422, mistake(error.errors()[0]), {}
    if isinstance(error, HTTPException):
        name = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        detail = _PLAIN.get(error.detail, error.detail)
        return name, error.status_code, detail, dict(error.headers or {})
    log.error("unforeseen %s", type(error).__name__, exc_info=error)
    return "internal-error", 500, "Something went wrong in the server: see its log.", {}
