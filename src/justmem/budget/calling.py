"""One call of a language model, with a credible count of its tokens.

A provider's count is used if it is credible, even if it is more than was allowed: then a note says
so, and the next call has less left. Any other count is replaced by our own. A call that was broken
off may still be billed, so it counts with its longest reply.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from justmem.domain import Call
from justmem.errors import JustMemError, ModelError, ModelNonsense
from justmem.ports import Completion, LanguageModel, Prompt, StreamingModel
from justmem.runtime import tokens

_LEAST_SHARE = 0.5  # a report below this share of our own count is replaced by our count
_MOST_OUT = 10_000_000
_PER_TOKEN = 16  # characters: a longer reply for the tokens allowed is no text
_LEAST = 20_000  # characters that any reply may have


async def complete(model: LanguageModel, prompt: Prompt, notes: list[str]) -> Completion:
    """Adds to `notes` what is unusual about its cost."""
    with _answered_for(model.name, prompt, notes):
        done = await model.complete(prompt)
    return _entered(done, prompt, notes)


async def stream(
    model: StreamingModel, prompt: Prompt, notes: list[str]
) -> AsyncGenerator[str | Completion]:
    with _answered_for(getattr(model, "name", ""), prompt, notes):
        length = 0
        async with aclosing(model.stream(prompt)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    yield _entered(piece, prompt, notes)
                    continue
                length += len(piece)
                if length > longest(prompt):
                    call = _cut(getattr(model, "name", ""), prompt, "too long a reply")
                    raise _too_long(prompt, call)
                yield piece


@contextmanager
def carrying(calls: Sequence[Call]) -> Iterator[None]:
    """An error raised inside also carries the calls made before."""
    try:
        yield
    except BaseException as error:
        _add(error, before=calls)
        raise


@contextmanager
def _answered_for(model: str, prompt: Prompt, notes: list[str]) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        error.calls = tuple(believed(call, prompt, None, notes) for call in error.calls)
        raise
    except (JustMemError, GeneratorExit):
        raise
    except BaseException as error:  # cancelled in the middle, or not our error
        _add(error, after=[_cut(model, prompt, f"broken off ({type(error).__name__})")])
        raise


def _cut(model: str, prompt: Prompt, error: str) -> Call:
    """A call of which nothing was read to its end."""
    return Call(
        stage=prompt.stage,
        model=model,
        tokens_in=prompt.tokens,
        tokens_out=0,
        undelivered=prompt.max_tokens,
        estimated=True,
        error=error,
    )


def longest(prompt: Prompt) -> int:
    """Characters of the longest reply that is read."""
    return max(_LEAST, _PER_TOKEN * prompt.max_tokens)


def _too_long(prompt: Prompt, call: Call) -> ModelNonsense:
    return ModelNonsense(
        f"The model's reply to the {prompt.stage} call is longer than {longest(prompt):,} "
        f"characters, where {prompt.max_tokens:,} tokens were allowed: it was not read. "
        "Try again, or use another model.",
        call,
    )


def _add(error: BaseException, before: Sequence[Call] = (), after: Sequence[Call] = ()) -> None:
    error.calls = (*before, *getattr(error, "calls", ()), *after)  # type: ignore[attr-defined]


def _entered(done: Completion, prompt: Prompt, notes: list[str]) -> Completion:
    if len(done.text) > longest(prompt):
        read = done.text[: longest(prompt)]
        raise _too_long(prompt, believed(done.call, prompt, read, notes))
    call = believed(done.call, prompt, done.text, notes)
    if prompt.limit is not None and call.counted > prompt.limit:
        notes.append(
            f"the {prompt.stage} call took {call.counted} tokens where {prompt.limit} were allowed"
        )
    return dataclasses.replace(done, call=call)


def believed(call: Call, prompt: Prompt, text: str | None, notes: list[str]) -> Call:
    """The call with counts that can be true. `text` is the reply, if one came."""
    sent = tokens.count(prompt.system) + tokens.count(prompt.user)  # not all bill the schema
    size = len(prompt.system) + len(prompt.user) + len(str(prompt.schema))
    most_in = (20_000 + 8 * size) * max(1, call.attempts)
    told_in = credible(call.tokens_in, sent if text is not None else 0, most_in)
    written = 0 if text is None else tokens.count(text)
    told_out = credible(call.tokens_out, written, _MOST_OUT)
    lost = credible(call.undelivered, 0, _MOST_OUT) or 0
    if told_in is None or told_out is None:
        notes.append(f"the usage given for the {prompt.stage} call cannot be true: counted here")
    known = {
        "tokens_in": prompt.tokens if told_in is None else told_in,
        "tokens_out": written if told_out is None else told_out,
        "undelivered": lost,
        "estimated": call.estimated or told_in is None or told_out is None,
    }
    return call.model_copy(update=known)


def credible(told: Any, own: int, most: int) -> int | None:
    """What was told, if it can be a count of what we count as `own`."""
    if not isinstance(told, int) or isinstance(told, bool):
        return None
    return told if own * _LEAST_SHARE <= told <= most else None
