"""Arguments in place of a plan."""

from __future__ import annotations

from typing import Any

from justmem.integrations.arguments import plan_arguments


async def test_arguments_in_place_of_a_plan_are_passed_by_name_or_position() -> None:
    @plan_arguments(needs_source=("needs_source", bool | None), period=("period", str | None))
    async def recall(question: str, plan: dict[str, Any] | None = None, limit: int = 3) -> Any:
        return question, plan, limit

    wanted = ("Where?", {"needs_source": True}, 3)
    assert await recall("Where?", needs_source=True) == wanted
    assert await recall("Where?", True, None, 3) == wanted
