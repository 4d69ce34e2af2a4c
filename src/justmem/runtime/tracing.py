"""OpenTelemetry spans by the GenAI conventions for memory. Without `opentelemetry-api` (the extra
`otel`), and without a configured SDK, nothing happens.

No span holds words of a conversation. The conventions are in no installable package yet, so their
names are written down here.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, TypeVar

from justmem.domain import Answer, Call, Evidence, Forgotten, Receipt, Remembered

TracedOperation = Literal["search_memory", "upsert_memory", "delete_memory"]
Method = TypeVar("Method", bound=Callable[..., Any])
_FOUND = find_spec("opentelemetry") is not None and find_spec("opentelemetry.trace") is not None


def traced(operation: TracedOperation) -> Callable[[Method], Method]:
    """A decorator for the asynchronous methods of a memory: one span for each call."""

    def decorate(method: Method) -> Method:
        if not _FOUND:
            return method

        @functools.wraps(method)
        async def call(memory: Any, /, *args: Any, **given: Any) -> Any:
            # Erasing a space is another operation than deleting one record.
            name = "delete_memory_store" if given.get("everything") else operation
            with _span(name, memory.space) as span:
                result = await method(memory, *args, **given)
                if span.is_recording():
                    span.set_attributes(_attributes(given, result))
                    receipt = _receipt(result)
                    for each in receipt.calls if receipt else ():
                        _chat(each)
                return result

        return call  # type: ignore[return-value]

    return decorate


@contextmanager
def _span(operation: str, space: str) -> Iterator[Any]:
    from opentelemetry import trace

    tracer = trace.get_tracer("justmem")
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "justmem",
        "gen_ai.memory.store.id": _digest(space),
    }
    with tracer.start_as_current_span(
        operation, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            # The message may hold words, so only the type is recorded.
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(trace.StatusCode.ERROR)
            raise


def _attributes(given: Mapping[str, Any], result: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(result, Remembered):
        found["gen_ai.conversation.id"] = result.session_id
        found["gen_ai.memory.record.count"] = len(result.cards)
    elif isinstance(result, Forgotten):
        found["gen_ai.memory.record.count"] = result.cards
        if target := _target(given):
            found["gen_ai.memory.record.id"] = target
    elif isinstance(result, Evidence | Answer):
        evidence = result.evidence if isinstance(result, Answer) else result
        found["gen_ai.memory.record.count"] = len(evidence.cards)
        found["justmem.access"] = evidence.access.value
    if receipt := _receipt(result):
        found["gen_ai.usage.input_tokens"] = receipt.tokens_in
        found["gen_ai.usage.output_tokens"] = receipt.tokens_out
    return found


def _target(given: Mapping[str, Any]) -> str | None:
    """The id of what was forgotten. Anything else, such as a subject, is shown as a hash."""
    for name in ("card", "turn", "session", "subject", "key", "since", "until"):
        if value := given.get(name):
            is_id = name in ("card", "turn", "session")
            return str(value) if is_id else f"{name}:{_digest(str(value))}"
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _receipt(result: Any) -> Receipt | None:
    return None if isinstance(result, Forgotten) else getattr(result, "receipt", None)


def _chat(call: Call) -> None:
    """A child span for a model call in the receipt."""
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
