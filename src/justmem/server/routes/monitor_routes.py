"""Health and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse

from justmem.errors import KeyTooWeak, NoRoom
from justmem.server import metrics
from justmem.server.routes.access import key_of, server_of
from justmem.server.schemas import Health

router = APIRouter(tags=["running"])


@router.get("/health/live", summary="Is the process alive?")
async def health_live() -> Health:
    return Health(status="alive")


@router.get("/health/ready", summary="Can it answer?")
async def health_ready(request: Request) -> Health:
    """503 while local models load, and once the server is stopping."""
    if (reason := server_of(request).not_ready) is not None:
        raise NoRoom(reason)
    return Health(status="ready")


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_metrics(request: Request) -> PlainTextResponse:
    """Tokens by stage, latencies, sessions by state, requests. Only for admin keys that open all
    spaces, because the numbers cover all spaces."""
    key = key_of(request)
    if not (key.may("admin") and key.opens_all):
        raise KeyTooWeak("Metrics are of all spaces: they need an admin key that opens all.")
    text = server_of(request).metrics.text()
    return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)
