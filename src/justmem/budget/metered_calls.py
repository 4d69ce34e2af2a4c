"""One call of a language model, with a plausible count of its tokens.

The provider's count is used if it is plausible, even if it is more than the limit: then a note says
so, and the next call has less left. Any other count is replaced by our own. A call that was
interrupted may still be billed, so it counts with its longest reply.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from justmem.domain import Call
from justmem.errors import JustMemError, ModelError, ModelNonsense
from justmem.ports import Completion, LanguageModel, Prompt
from justmem.runtime import tokens

_LEAST_SHARE = 0.5  # a reported count below this share of our own is replaced by our own
_MOST_OUT = 10_000_000
_CHARACTERS_PER_TOKEN = 16  # a reply with more characters for its tokens is not text
_LEAST_LENGTH = 20_000  # characters that any reply may have


async def complete(model: LanguageModel, prompt: Prompt, notes: list[str]) -> Completion:
    """Adds to `notes` what is unusual about the cost."""
    with _count_failures(model.name, prompt, notes):
        completion = await model.complete(prompt)
    return _check_completion(completion, prompt, notes)


@contextmanager
def carrying(calls: Sequence[Call]) -> Iterator[None]:
    """An error raised inside also carries the calls made before."""
    try:
        yield
    except BaseException as error:
        _attach(error, before=calls)
        raise


@contextmanager
def _count_failures(model: str, prompt: Prompt, notes: list[str]) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        error.calls = tuple(check_usage(call, prompt, None, notes) for call in error.calls)
        raise
    except JustMemError:
        raise
    except BaseException as error:  # a cancellation, or an error of another library
        reason = f"broken off ({type(error).__name__})"
        _attach(error, after=[_interrupted(model, prompt, reason)])
        raise


def _attach(error: BaseException, before: Sequence[Call] = (), after: Sequence[Call] = ()) -> None:
    error.calls = (*before, *getattr(error, "calls", ()), *after)  # type: ignore[attr-defined]


def _interrupted(model: str, prompt: Prompt, error: str) -> Call:
    return Call(
        stage=prompt.stage,
        model=model,
        tokens_in=prompt.tokens,
        tokens_out=0,
        undelivered=prompt.max_tokens,
        estimated=True,
        error=error,
    )


def _longest_reply(prompt: Prompt) -> int:
    """In characters."""
    return max(_LEAST_LENGTH, _CHARACTERS_PER_TOKEN * prompt.max_tokens)


def _too_long(prompt: Prompt, call: Call) -> ModelNonsense:
    return ModelNonsense(
        f"The model's reply to the {prompt.stage} call is longer than {_longest_reply(prompt):,} "
        f"characters, where {prompt.max_tokens:,} tokens were allowed: it was not read. "
        "Try again, or use another model.",
        call,
    )


def _check_completion(completion: Completion, prompt: Prompt, notes: list[str]) -> Completion:
    text = completion.text[: _longest_reply(prompt)]
    call = check_usage(completion.call, prompt, text, notes)
    if len(text) < len(completion.text):
        raise _too_long(prompt, call)
    if prompt.limit is not None and call.counted > prompt.limit:
        notes.append(
            f"the {prompt.stage} call used {call.counted} tokens, {prompt.limit} were allowed"
        )
    return dataclasses.replace(completion, call=call)


def check_usage(call: Call, prompt: Prompt, text: str | None, notes: list[str]) -> Call:
    """The call with plausible counts. `text` is the reply, if there is one."""
    own_in = tokens.count(prompt.system) + tokens.count(prompt.user)  # not all bill the schema
    own_out = 0 if text is None else tokens.count(text)
    size = len(prompt.system) + len(prompt.user) + len(str(prompt.schema))
    most_in = (20_000 + 8 * size) * max(1, call.attempts)
    tokens_in = plausible(call.tokens_in, own_in if text is not None else 0, most_in)
    tokens_out = plausible(call.tokens_out, own_out, _MOST_OUT)
    replaced = tokens_in is None or tokens_out is None
    if replaced:
        notes.append(f"impossible usage reported for the {prompt.stage} call: counted here")
    return call.model_copy(
        update={
            "tokens_in": prompt.tokens if tokens_in is None else tokens_in,
            "tokens_out": own_out if tokens_out is None else tokens_out,
            "undelivered": plausible(call.undelivered, 0, _MOST_OUT) or 0,
            "estimated": call.estimated or replaced,
        }
    )


def plausible(reported: Any, own: int, most: int) -> int | None:
    """The reported count, if it can be right for what we count as `own`."""
    if not isinstance(reported, int) or isinstance(reported, bool):
        return None
    return reported if own * _LEAST_SHARE <= reported <= most else None
