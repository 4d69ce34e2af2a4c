"""Translates errors into problem+json (RFC 9457)."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
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
_FORMS = ("session", "messages")
_TITLES = {404: "Not found", 405: "Method not allowed", 422: "Not understood"}


class Problem(BaseModel):
    """What went wrong, and what to do. `error` says the same in the way chat clients expect."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    error: dict[str, Any] | None = None


def problem_of(error: JustMemError, instance: str) -> Problem:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    title = name.replace("-", " ").capitalize()
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return _problem(name, title, status, public(error), instance)


def _problem(name: str, title: str, status: int, detail: str, instance: str) -> Problem:
    # Clients of the chat protocol look for an `error` object.
    chat = instance.startswith(("/v1/chat", "/v1/models", "/v1/responses", "/v1/messages"))
    error = {"message": detail, "type": name, "code": name} if chat else None
    return Problem(
        type=f"urn:justmem:problem:{name}",
        title=title,
        status=status,
        detail=detail,
        instance=instance,
        error=error,
    )


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


def response(problem: Problem, **headers: str) -> JSONResponse:
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="justmem"'
    body = problem.model_dump(exclude_none=True)
    return JSONResponse(body, problem.status, headers, media_type=MEDIA_TYPE)


def respond(error: JustMemError, instance: str) -> JSONResponse:
    after = error.after if isinstance(error, errors.Refused) else None
    if isinstance(error, errors.StoreBusy | errors.ModelUnavailable):
        after = 1.0
    headers = {} if after is None else {"retry-after": str(max(1, math.ceil(after)))}
    return response(problem_of(error, instance), **headers)


def two_lengths(instance: str) -> JSONResponse:
    """A proxy may count the body the other way and take its end for another request."""
    detail = "The request has both Content-Length and Transfer-Encoding: send one of them."
    return response(_problem("malformed", "Malformed", 400, detail, instance), connection="close")


def install(app: FastAPI) -> None:
    @app.exception_handler(JustMemError)
    async def ours(request: Request, error: JustMemError) -> JSONResponse:
        return respond(error, request.url.path)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        # "session" and "messages" are the two forms of a session's body.
        parts = [str(part) for part in first["loc"]]
        place = ".".join(part for n, part in enumerate(parts) if n != 1 or part not in _FORMS)
        detail = f"{place}: {first['msg']}." if place else f"{first['msg']}."
        return response(_problem("input-error", "Input error", 422, detail, request.url.path))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        title = _TITLES.get(error.status_code, "Refused")
        name, detail = title.lower().replace(" ", "-"), str(error.detail)
        if detail == "Not Found":
            detail = "There is nothing at this path. /openapi.json lists the routes."
        found = _problem(name, title, error.status_code, detail, request.url.path)
        return response(found, **(error.headers or {}))

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        log.error("unforeseen %s in %s", type(error).__name__, request.method, exc_info=error)
        detail = "Something went wrong in the server: see its log."
        return response(_problem("internal", "Internal error", 500, detail, request.url.path))
