"""Arguments with which a calling model plans its own recall. The tools of all integrations and of
MCP take the same ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from justmem.plan import plan_arguments

Question = Annotated[
    str, Field(description="The question, or the message you are about to reply to.")
]
Rewrites = Annotated[
    list[str] | None,
    Field(description="Up to 2 other wordings, if one search may miss some evidence."),
]
ExactWords = Annotated[
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

# Each becomes an argument of its own in place of `plan`.
PLAN = plan_arguments(
    rewrites=("rewrites", Rewrites),
    exact_words=("needs_source", ExactWords),
    spans_sessions=("spans_sessions", SpansSessions),
    period=("period", Period),
)
