"""The application: routes, lifespan, OpenAPI."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from justmem.errors import JustMemError, KeyTooWeak, NoRoom
from justmem.server import card_routes, metrics, session_routes, space_routes
from justmem.server.mcp import HttpTools
from justmem.server.middleware import Middleware
from justmem.server.problems import MEDIA_TYPE, Problem, respond
from justmem.server.proxy import routes as chat_routes
from justmem.server.requests import ThisKey, ThisServer, check_parameters
from justmem.server.state import Server

PAGES = Path(__file__).parent / "inspector"
ABOUT = """Just enough long-term memory: cited answers, and a receipt for each.

Send your key as `Authorization: Bearer jm_...`. Names of spaces are any text, percent-encoded.
Times are local and have no offset. Errors are `application/problem+json`.
"""
_PROBLEM: dict[str, Any] = {
    "model": Problem,
    "description": "What went wrong, and what to do.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
# For the OpenAPI document: the middleware has checked the key before a route runs.
_KEY = Security(HTTPBearer(scheme_name="key", auto_error=False))


def application(server: Server) -> ASGIApp:
    """With CORS for the configured origins."""
    return CORSMiddleware(
        Middleware(api(server), server),
        allow_origins=server.serving.origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "x-justmem-space", "x-justmem-session"],
        expose_headers=["retry-after", "x-justmem-receipt", "x-justmem-error"],
    )


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Our times have no offset, which the format `date-time` requires."""
        if self.openapi_schema is None:
            text = json.dumps(super().openapi())
            self.openapi_schema = json.loads(text.replace('"date-time"', '"iso-8601"'))
        return self.openapi_schema


def api(server: Server) -> FastAPI:
    tools = HttpTools(server)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with server.running(), tools.manager.run():
            yield

    app = _Api(
        title="JustMem",
        version=version("justmem"),
        description=ABOUT,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        responses={"default": _PROBLEM},
        generate_unique_id_function=lambda route: route.name,
        # Without this a page elsewhere could send JSON as text/plain, which browsers let pass.
        strict_content_type=True,
        redirect_slashes=False,
    )
    app.state.server = server
    for kind in (JustMemError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _problem)
    app.include_router(running)
    for router in (
        space_routes.router,
        session_routes.router,
        card_routes.questions,
        card_routes.router,
    ):
        app.include_router(router, dependencies=[_KEY, Depends(check_parameters)])
    app.include_router(chat_routes.router, dependencies=[_KEY])
    app.router.routes += tools.routes
    app.router.default = StaticFiles(directory=PAGES, html=True)
    return app


async def _problem(request: Request, error: Exception) -> JSONResponse:
    no_route = {"route", "endpoint"}.isdisjoint(request.scope)
    if no_route and isinstance(error, HTTPException):  # of the pages
        error = HTTPException(404)
    return respond(error, request.url.path)


# ---------------------------------------------------------------- health and metrics

running = APIRouter(tags=["running"])


class Health(BaseModel):
    status: str


@running.get("/health/live")
async def health_live() -> Health:
    return Health(status="alive")


@running.get("/health/ready")
async def health_ready(server: ThisServer) -> Health:
    """503 while local models load, and once the server is stopping."""
    if server.not_ready is not None:
        raise NoRoom(server.not_ready)
    return Health(status="ready")


@running.get(
    "/metrics",
    dependencies=[_KEY],
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_metrics(server: ThisServer, key: ThisKey) -> PlainTextResponse:
    """Tokens by stage, latencies, sessions by state, requests. Only for admin keys that open all
    spaces, because the numbers cover all spaces."""
    if not (key.may("admin") and key.opens_all):
        raise KeyTooWeak("Metrics cover all spaces: they need an admin key that opens all.")
    return PlainTextResponse(server.metrics.text(), media_type=metrics.CONTENT_TYPE)
