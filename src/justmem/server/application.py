"""The application: routes, lifespan, OpenAPI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from justmem.errors import KeyTooWeak, NoRoom
from justmem.server import card_routes, metrics, problems, session_routes
from justmem.server.middleware import Middleware
from justmem.server.problems import MEDIA_TYPE, Problem
from justmem.server.proxy import chat
from justmem.server.proxy.upstreams import Upstreams
from justmem.server.requests import key_of, server_of
from justmem.server.state import Server

PAGES = Path(__file__).parent / "inspector"
ABOUT = """Just enough long-term memory: cited answers, and a receipt for each.

Send your key as `Authorization: Bearer jm_...`. Names of spaces are any text, percent-encoded.
Errors are `application/problem+json`.
"""


def application(server: Server) -> ASGIApp:
    tools = _tools(server)
    upstreams = Upstreams(server.settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(server.running())
            await stack.enter_async_context(upstreams.running())
            if tools is not None:
                await stack.enter_async_context(tools.manager.run())
            yield

    app = FastAPI(
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
    app.state.upstreams = upstreams
    problems.install(app)
    for router in (
        session_routes.space_router,
        session_routes.router,
        session_routes.note_router,
        card_routes.question_router,
        card_routes.router,
        running,
        chat.router,
    ):
        app.include_router(router)
    if tools is not None:
        app.add_route("/mcp", tools, include_in_schema=False)
        app.router.routes.extend(tools.sign_in_routes)
    app.mount("/", StaticFiles(directory=PAGES, html=True), name="pages")
    app.openapi = partial(_openapi, app)  # type: ignore[method-assign]
    return _cross_origin(Middleware(app, server), server)


# ---------------------------------------------------------------- health and metrics

running = APIRouter(tags=["running"])


class Health(BaseModel):
    status: str


@running.get("/health/live")
async def health_live() -> Health:
    return Health(status="alive")


@running.get("/health/ready")
async def health_ready(request: Request) -> Health:
    """503 while local models load, and once the server is stopping."""
    if (reason := server_of(request).not_ready) is not None:
        raise NoRoom(reason)
    return Health(status="ready")


@running.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_metrics(request: Request) -> PlainTextResponse:
    """Tokens by stage, latencies, sessions by state, requests. Only for admin keys that open all
    spaces, because the numbers cover all spaces."""
    key = key_of(request)
    if not (key.may("admin") and key.opens_all):
        raise KeyTooWeak("Metrics cover all spaces: they need an admin key that opens all.")
    text = server_of(request).metrics.text()
    return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)


# ---------------------------------------------------------------- the parts


def _tools(server: Server) -> Any:
    if find_spec("mcp") is None:
        return None
    from justmem.server.mcp import HttpTools

    return HttpTools(server)


def _cross_origin(app: ASGIApp, server: Server) -> ASGIApp:
    if not server.serving.origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=server.serving.origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "x-justmem-space", "x-justmem-session"],
        expose_headers=["retry-after", "x-justmem-receipt", "x-justmem-error"],
    )


_PROBLEM: dict[str, Any] = {
    "description": "What went wrong, and what to do.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def _with_local_times(schema: Any) -> Any:
    """Our times have no offset, and `date-time` promises one."""
    if isinstance(schema, list):
        return [_with_local_times(each) for each in schema]
    if not isinstance(schema, dict) or schema.get("title") == "Entry":  # whose times are in UTC
        return schema
    if schema.get("format") == "date-time":
        about = "ISO 8601, local time without an offset: 2024-05-20T14:30:00"
        return {**schema, "format": "local-date-time", "description": about}
    return {name: _with_local_times(each) for name, each in schema.items()}


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = _with_local_times(FastAPI.openapi(app))
        parts = schema.setdefault("components", {})
        parts["schemas"]["Problem"] = Problem.model_json_schema()
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                operation["responses"].pop("422", None)  # `default` describes our problems
                if path.startswith("/health"):
                    operation["security"] = []
        app.openapi_schema = schema
    return app.openapi_schema
