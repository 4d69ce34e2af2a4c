"""Translates errors into problem+json (RFC 9457)."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from justmem import errors
from justmem.errors import JustMemError

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("justmem.server")

# The most particular class that is listed decides.
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
_FORMS = ("session", "messages")  # of a session's body


class Problem(BaseModel):
    """What went wrong, and what to do. `error` says the same in the way chat clients expect."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    error: dict[str, Any] | None = None


def _problem(
    name: str, status: int, detail: str, instance: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    # Clients of the chat protocol look for an `error` object.
    chat = instance.startswith(("/v1/chat", "/v1/models", "/v1/responses", "/v1/messages"))
    problem = Problem(
        type=f"urn:justmem:problem:{name}",
        title=name.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        instance=instance,
        error={"message": detail, "type": name, "code": name} if chat else None,
    )
    more = {"www-authenticate": 'Bearer realm="justmem"'} if status == 401 else {}
    body = problem.model_dump(exclude_none=True)
    return JSONResponse(body, status, {**(headers or {}), **more}, media_type=MEDIA_TYPE)


def public(error: JustMemError) -> str:
    """Messages about stores and weights name files of this machine: those stay in its log."""
    if isinstance(error, errors.WeightsUnavailable):
        log.error("%s", error)
        return "A local model of the server is not available: see its log."
    if isinstance(error, errors.StoreError) and not isinstance(error, errors.EmbedderMismatch):
        log.error("%s: %s", type(error).__name__, error)
        what = {
            errors.StoreBusy: "The store of this space is busy: try again in a moment.",
            errors.StoreFull: "There is no room left on the server's disk.",
            errors.NotForgotten: "It is forgotten, but something of it is still found on the "
            "server's disk: see its log.",
        }
        return what.get(type(error), "The store of this space cannot be used: see the log.")
    return str(error)


def respond(error: JustMemError, instance: str) -> JSONResponse:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    after = error.after if isinstance(error, errors.Refused) else None
    if isinstance(error, errors.StoreBusy | errors.ModelUnavailable):
        after = 1.0
    headers = {} if after is None else {"retry-after": str(max(1, math.ceil(after)))}
    return _problem(name, status, public(error), instance, headers)


def two_lengths(instance: str) -> JSONResponse:
    """A proxy may count the body the other way and take its end for another request."""
    detail = "The request has both Content-Length and Transfer-Encoding: send one of them."
    return _problem("malformed", 400, detail, instance, {"connection": "close"})


def install(app: FastAPI) -> None:
    @app.exception_handler(JustMemError)
    async def ours(request: Request, error: JustMemError) -> JSONResponse:
        return respond(error, request.url.path)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        parts = [str(part) for part in first["loc"]]
        place = ".".join(part for n, part in enumerate(parts) if n != 1 or part not in _FORMS)
        detail = f"{place}: {first['msg']}." if place else f"{first['msg']}."
        return _problem("input-error", 422, detail, request.url.path)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        name = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        detail = str(error.detail)
        if detail == "Not Found":
            detail = "There is nothing at this path. /openapi.json lists the routes."
        return _problem(name, error.status_code, detail, request.url.path, error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        log.error("unforeseen %s in %s", type(error).__name__, request.method, exc_info=error)
        detail = "Something went wrong in the server: see its log."
        return _problem("internal-error", 500, detail, request.url.path)
