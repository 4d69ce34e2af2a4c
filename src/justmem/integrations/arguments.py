"""Arguments with which a caller plans its own recall. The tools of all integrations and of MCP take
the same ones."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

Question = Annotated[
    str, Field(description="The question, or the message you are about to reply to.")
]
Rewrites = Annotated[
    list[str] | None,
    Field(description="Up to 2 other wordings, if one search may miss some evidence."),
]
NeedsSource = Annotated[
    bool | None,
    Field(description="True for the original words: a quote, a list, an earlier reply."),
]
SpansSessions = Annotated[
    bool | None,
    Field(description="True if evidence is spread over chats: counts, lists, comparisons."),
]
Period = Annotated[
    str | None,
    Field(description="The time asked about: 2023-05, 2023-05-07 or 2023-05-01/2023-05-31."),
]


def plan_of(
    rewrites: list[str] | None,
    needs_source: bool | None,
    spans_sessions: bool | None,
    period: str | None,
) -> dict[str, Any] | None:
    """The parts that are given."""
    parts: dict[str, Any] = {"rewrites": rewrites or None, "needs_source": needs_source}
    parts |= {"spans_sessions": spans_sessions, "period": period}
    return {name: value for name, value in parts.items() if value is not None} or None
