"""What was true when, and what holds now."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from justmem.domain import HistoryEntry, SubjectProfile
from justmem.server.routes.access import Reader
from justmem.server.schemas import Time

router = APIRouter(prefix="/v1/spaces/{space}", tags=["memory"])


class History(BaseModel):
    entries: list[HistoryEntry]


@router.get("/history", summary="What was true when")
async def history(
    grant: Reader,
    subject: Annotated[str | None, Query(max_length=200)] = None,
    card: Annotated[str | None, Query(description="Instead of a subject: a card's id.")] = None,
    at: Annotated[Time | None, Query(description="As of this time; default: now.")] = None,
) -> History:
    """The cards of a subject with the time that each held, newest first; or a card with those that
    it replaced and that replaced it."""
    async with grant.memory() as memory:
        moment = grant.server.moment(at)
        return History(entries=await memory.history(subject, card=card, at=moment))


@router.get("/profile", summary="Short lines about a person")
async def profile(
    grant: Reader,
    subject: Annotated[
        str | None, Query(max_length=200, description="Default: whom most cards are about.")
    ] = None,
    tokens: Annotated[int, Query(ge=1, le=10_000)] = 400,
    at: Annotated[Time | None, Query(description="As of this time; default: now.")] = None,
) -> SubjectProfile:
    """What holds now first, without a model."""
    async with grant.memory() as memory:
        return await memory.profile(subject, tokens=tokens, at=grant.server.moment(at))
