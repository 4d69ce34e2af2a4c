"""OpenTelemetry spans by the GenAI conventions for memory. Without `opentelemetry-api` (the extra
`otel`), and without a configured SDK, nothing happens.

No span holds words of a conversation, unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is
true. The conventions are in no installable package yet, so their names are written down here.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from justmem.domain import Answer, Evidence, Forgotten, Remembered

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
Operation = Literal["search_memory", "upsert_memory", "delete_memory"]
_FOUND = find_spec("opentelemetry") is not None and find_spec("opentelemetry.trace") is not None


class _Spaced(Protocol):
    @property
    def space(self) -> str: ...


S = TypeVar("S", bound=_Spaced)
P = ParamSpec("P")
T = TypeVar("T")


def traced(
    operation: Operation,
) -> Callable[
    [Callable[Concatenate[S, P], Coroutine[Any, Any, T]]],
    Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
]:
    """A decorator for the verbs of a memory: one span for each call."""

    def decorate(
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        if not _FOUND:
            return method

        @functools.wraps(method)
        async def call(memory: S, /, *args: P.args, **given: P.kwargs) -> T:
            with _span(_named(operation, given), memory.space) as span:
                result = await method(memory, *args, **given)
                if span.is_recording():
                    _describe(span, args, given, result)
                return result

        return call

    return decorate


def _named(operation: Operation, given: Mapping[str, Any]) -> str:
    """To delete all of a space has a name of its own: a backend would read `delete_memory` without
    an id as the same."""
    return "delete_memory_store" if given.get("everything") else operation


@contextmanager
def _span(operation: str, space: str) -> Iterator[Any]:
    from opentelemetry import trace

    tracer = trace.get_tracer("justmem")
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "justmem",
        "gen_ai.memory.store.id": hashlib.sha256(space.encode()).hexdigest()[:16],
    }
    with tracer.start_as_current_span(
        operation, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            # The message may hold words: only the kind of the error is told.
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise


def _describe(span: Any, args: tuple[Any, ...], given: Mapping[str, Any], result: Any) -> None:
    if isinstance(result, Remembered):
        span.set_attribute("gen_ai.conversation.id", result.session_id)
        span.set_attribute("gen_ai.memory.record.count", len(result.cards))
    elif isinstance(result, Forgotten):
        span.set_attribute("gen_ai.memory.record.count", result.cards)
        if (target := _target(given)) is not None:
            span.set_attribute("gen_ai.memory.record.id", target)
    elif isinstance(result, Evidence | Answer):
        evidence = result.evidence if isinstance(result, Answer) else result
        span.set_attribute("gen_ai.memory.record.count", len(evidence.cards))
        span.set_attribute("justmem.access", evidence.access.value)
        if os.environ.get(CAPTURE, "").lower() in ("true", "1"):
            span.set_attribute("gen_ai.memory.query.text", str((args or [given["question"]])[0]))
            cards = [{"id": card.id, "content": card.text} for card in evidence.cards]
            span.set_attribute("gen_ai.memory.records", json.dumps(cards, ensure_ascii=False))
    if not isinstance(result, Forgotten) and (receipt := getattr(result, "receipt", None)):
        span.set_attribute("gen_ai.usage.input_tokens", receipt.tokens_in)
        span.set_attribute("gen_ai.usage.output_tokens", receipt.tokens_out)
        for call in receipt.calls:
            _chat(call)


def _target(given: Mapping[str, Any]) -> str | None:
    """What was forgotten, without words: a subject is named by its hash."""
    for name in ("card", "turn", "session"):
        if given.get(name):
            return str(given[name])
    if given.get("subject"):
        return f"subject:{hashlib.sha256(str(given['subject']).encode()).hexdigest()[:16]}"
    if given.get("since") or given.get("until"):
        return f"period:{given.get('since') or ''}/{given.get('until') or ''}"
    return None


def _chat(call: Any) -> None:
    """A model call that the receipt lists, as a child of its own."""
    from opentelemetry import trace

    now = time.time_ns()
    span = trace.get_tracer("justmem").start_span(
        f"chat {call.model}",
        kind=trace.SpanKind.CLIENT,
        start_time=now - int(call.seconds * 1e9),
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": call.model,
            "gen_ai.usage.input_tokens": call.tokens_in,
            "gen_ai.usage.output_tokens": call.tokens_out,
            "justmem.stage": call.stage,
        },
    )
    span.end(now)


@contextmanager
def incoming(headers: Mapping[str, str]) -> Iterator[None]:
    """The caller's trace, from the headers of a request (`traceparent`)."""
    if not _FOUND:
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)
