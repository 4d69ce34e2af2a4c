"""Arguments with which a caller plans its own recall. The tools of all integrations and of MCP take
the same ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Annotated, Any, cast

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


def plan_arguments(
    **arguments: tuple[str, Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for commands and tools that take a `plan`: each part of it becomes an argument
    of its own. `arguments` are, by their names, the part and the annotated type."""

    def collect(given: dict[str, Any]) -> dict[str, Any]:
        parts = {part: given.pop(name, None) for name, (part, _) in arguments.items()}
        # An option that may be repeated is an empty list if it is left out.
        plan = {part: value for part, value in parts.items() if value not in (None, [])}
        return {**given, "plan": plan or None}

    def decorate(work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def call(*args: Any, **given: Any) -> Any:
            return work(**collect(arguments_of(*args, **given)))

        @wraps(work)
        async def call_async(*args: Any, **given: Any) -> Any:
            return await work(**collect(arguments_of(*args, **given)))

        def arguments_of(*args: Any, **given: Any) -> dict[str, Any]:
            """All by name: some frameworks pass them by position."""
            return shape.bind(*args, **given).arguments

        made: Any = call_async if iscoroutinefunction(work) else call
        own = signature(work, eval_str=True)
        parts = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
            for name, (_, kind) in arguments.items()
        ]
        known = list(own.parameters.values())
        place = list(own.parameters).index("plan")
        shown = [*known[:place], *parts, *known[place + 1 :]]
        made.__signature__ = shape = own.replace(parameters=shown)
        made.__annotations__ = {each.name: each.annotation for each in shown}
        made.__annotations__["return"] = own.return_annotation
        return cast(Callable[..., Any], made)

    return decorate


# Each becomes an argument of its own in place of `plan`.
PLAN = plan_arguments(
    rewrites=("rewrites", Rewrites),
    needs_source=("needs_source", NeedsSource),
    spans_sessions=("spans_sessions", SpansSessions),
    period=("period", Period),
)
