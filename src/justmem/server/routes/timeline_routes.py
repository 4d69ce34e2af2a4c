"""A space by months: one small answer, however much it holds."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from justmem.server.routes.access import Reader

router = APIRouter(prefix="/v1/spaces/{space}", tags=["memory"])


class Month(BaseModel):
    """Sessions and cards are listed in order of time, so a month's cards are those from `offset`
    on, as many as `cards` says."""

    month: str = Field(examples=["2024-05"])
    sessions: int = 0
    turns: int = 0
    cards: int = 0
    offset: int = Field(0, description="The offset of the month's first card in the list of cards.")


class Timeline(BaseModel):
    months: list[Month]


@router.get("/timeline", summary="Count a space by months")
async def timeline(grant: Reader) -> Timeline:
    """Months in which something was said, in order of time."""
    async with grant.memory() as memory:
        records = await memory.sessions()
    months: dict[str, Month] = {}
    before = 0
    for record in records:
        name = record.at.isoformat()[:7]
        month = months.setdefault(name, Month(month=name, offset=before))
        month.sessions += 1
        month.turns += record.turns
        month.cards += record.cards
        before += record.cards
    return Timeline(months=list(months.values()))
