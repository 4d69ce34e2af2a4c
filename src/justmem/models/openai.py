"""Language models and embedding models behind any OpenAI-compatible URL."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Unpack

import numpy as np

from justmem.domain import Call
from justmem.errors import (
    InvalidSetting,
    ModelError,
    ModelNonsense,
    ModelRefused,
    ModelUnavailable,
)
from justmem.models.http_client import Declined, HttpClient, HttpOptions, Setback, count
from justmem.ports import Completion, Embedded, Prompt, Vectors
from justmem.runtime import tokens
from justmem.runtime.validation import clean

# Ways to ask, until the server accepts one: the format of the reply, the name of the limit, and the
# temperature, which models that think do not take. Without json_schema the schema is in the prompt.
_FORMS = (
    ("json_schema", "max_tokens", 0.0),
    ("json_schema", "max_completion_tokens", None),
    ("json_object", "max_tokens", 0.0),
    ("text", "max_tokens", 0.0),
)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
# Servers limit the texts of a request, and their length together.
_BATCH = 128  # texts that are embedded by one request
_LONGEST = 8_000  # characters of a text that are embedded


class OpenAIModel:
    """A chat model. It remembers the form of request that the server accepted."""

    def __init__(
        self, name: str, *, context: int = 128_000, **options: Unpack[HttpOptions]
    ) -> None:
        self.name = name
        self.context = context
        self._client = HttpClient(name, "/chat/completions", **options)
        self._form = 0

    async def complete(self, prompt: Prompt) -> Completion:
        exchange = _Exchange(prompt, self.name)
        try:
            sent = await self._client.retried(partial(self._attempt, exchange))
            reply = exchange.reply = _read(sent)
            text = self._text(reply)
        except ModelError as error:
            error.calls = (exchange.call(str(error)),)
            raise
        return Completion(text, exchange.call(), truncated=reply.reason == "length")

    async def close(self) -> None:
        await self._client.close()

    async def _attempt(self, exchange: _Exchange) -> Any:
        """One attempt. It is repeated at once in another form if the server does not accept it."""
        exchange.check_limit(str(self._client))
        form = self._form
        while True:
            exchange.body = self._body(exchange.prompt, form)
            exchange.requests += 1
            try:
                reply = await self._client.post(exchange.body)
            except Declined:
                form += 1
                if form == len(_FORMS):
                    raise
            except (Setback, ModelNonsense) as error:
                if isinstance(error, ModelNonsense) or error.sent:
                    exchange.lose()
                raise
            else:
                self._form = max(form, self._form)
                return reply

    def _body(self, prompt: Prompt, form: int) -> dict[str, Any]:
        kind, limit_by, temperature = _FORMS[form]
        system = prompt.system
        format: dict[str, Any] = {"type": kind}
        if kind == "json_schema":
            format[kind] = {"name": prompt.stage, "strict": True, "schema": prompt.schema}
        else:
            shape = json.dumps(prompt.schema, separators=(",", ":"), ensure_ascii=False)
            system += f"\n\nReply with one JSON object and nothing else. Its JSON schema:\n{shape}"
        messages = [("system", system), ("user", prompt.user)]
        body = {
            "model": self.name,
            "messages": [{"role": role, "content": content} for role, content in messages],
            "response_format": format if kind != "text" else None,
            "temperature": temperature,
            limit_by: prompt.max_tokens,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _text(self, reply: _Reply) -> str:
        if reply.text:
            return reply.text
        if reply.refusal or reply.reason == "content_filter":
            said = self._client.cleaned(reply.refusal or "its content filter stopped the reply")
            raise ModelRefused(
                f"{self._client} declined to answer ({said}). Another model may take this text."
            )
        why = "all of it went into thinking" if reply.reason == "length" else "no text in it"
        raise ModelNonsense(
            f"{self._client} sent an empty reply ({why}). Try again, allow a longer reply, "
            "or use another model."
        )


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str
    refusal: str
    reason: str
    usage: Mapping[str, Any]


@dataclass(slots=True)
class _Exchange:
    """One call with all its requests, also those that failed."""

    prompt: Prompt
    model: str
    started: float = field(default_factory=time.perf_counter)
    body: dict[str, Any] = field(default_factory=dict)  # of the last request
    reply: _Reply | None = None
    requests: int = 0
    lost_in: int = 0  # input that the server may have processed without a reply reaching us
    lost_out: int = 0  # the most that it may have replied

    def lose(self) -> None:
        """The last request may be billed although no reply arrived."""
        self.lost_in += self._estimate()
        self.lost_out += self.prompt.max_tokens

    def check_limit(self, server: str) -> None:
        """Stops if lost attempts and another one could pass the limit. The first attempt fits."""
        lost, limit = self.lost_in + self.lost_out, self.prompt.limit
        if limit and lost and lost + self.prompt.tokens + self.prompt.max_tokens > limit:
            raise ModelUnavailable(
                f"{server} did not reply. It was not asked again, because another attempt could "
                f"pass the limit of {limit} tokens. Try again later, or raise the limit."
            )

    def _estimate(self) -> int:
        """Tokens of the messages, with what the chat format adds around them."""
        return 3 + sum(4 + tokens.count(message["content"]) for message in self.body["messages"])

    def call(self, error: str = "") -> Call:
        """The price. What the server does not report is counted here."""
        tokens_in = tokens_out = cached = 0
        estimated = self.lost_in > 0
        if reply := self.reply:
            told_in = count(reply.usage.get("prompt_tokens"))
            told_out = count(reply.usage.get("completion_tokens"))
            tokens_in = told_in or self._estimate()
            tokens_out = told_out or tokens.count(reply.text)
            estimated |= not told_in or bool(reply.text and not told_out)
            details = _dict(reply.usage.get("prompt_tokens_details"))
            cached = count(details.get("cached_tokens")) or 0
        return Call(
            stage=self.prompt.stage,
            model=self.model,
            tokens_in=tokens_in + self.lost_in,
            tokens_out=tokens_out,
            cached=cached if cached <= tokens_in else 0,
            undelivered=self.lost_out,
            estimated=estimated,
            attempts=self.requests,
            seconds=time.perf_counter() - self.started,
            error=error,
        )


def _read(sent: Any) -> _Reply:
    """Servers do not always follow the protocol."""
    choices = _dict(sent).get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message = _dict(choice.get("message"))
    text = message.get("content")
    return _Reply(
        text=_THOUGHTS.sub("", clean(text)).strip() if isinstance(text, str) else "",
        refusal=str(message.get("refusal") or ""),
        reason=str(choice.get("finish_reason") or ""),
        usage=_dict(_dict(sent).get("usage")),
    )


# ---------------------------------------------------------------- embedding


class OpenAIEmbedder:
    """An embedding model. Vectors come back with unit length."""

    def __init__(self, name: str, *, dim: int, **options: Unpack[HttpOptions]) -> None:
        if dim < 1:
            raise InvalidSetting(f"{name!r}: dim must be at least 1.")
        self.name = name
        self.dim = dim
        self._client = HttpClient(name, "/embeddings", **options)
        self._dimensions: dict[str, int] = {}

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        # Some servers refuse empty texts.
        given = [text[:_LONGEST] if text.strip() else "." for text in texts]
        vectors, used = [np.zeros((0, self.dim), np.float32)], 0
        for start in range(0, len(given), _BATCH):
            batch = given[start : start + _BATCH]
            found, spent = await self._client.retried(partial(self._attempt, batch))
            vectors.append(found)
            used += spent
        return Embedded(vectors=np.concatenate(vectors), tokens=used)

    async def close(self) -> None:
        await self._client.close()

    async def _attempt(self, batch: list[str]) -> tuple[Vectors, int]:
        body = {"model": self.name, "input": batch}
        reply = await self._client.post(body | self._dimensions)
        vectors = self._vectors(reply, len(batch))
        if vectors.shape[1] > self.dim and not self._dimensions:
            self._dimensions = {"dimensions": self.dim}  # some models shorten vectors if asked
            return await self._attempt(batch)
        if vectors.shape[1] != self.dim:
            raise ModelNonsense(
                f"{self._client} makes vectors of {vectors.shape[1]} numbers, but "
                f"{self.dim} are expected. Set its dimension to {vectors.shape[1]}."
            )
        used = count(_dict(reply.get("usage")).get("prompt_tokens"))
        return vectors, used or sum(map(tokens.count, batch))

    def _vectors(self, reply: Any, expected: int) -> Vectors:
        """Of unit length."""
        try:
            rows = sorted(reply["data"], key=lambda row: row.get("index", 0))
            vectors = np.array([row["embedding"] for row in rows], np.float32)
            with np.errstate(invalid="ignore"):  # zeros, which become NaN
                unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            unit = np.zeros((0, 0), np.float32)
        if len(unit) != expected or unit.ndim != 2 or not np.isfinite(unit).all():
            raise ModelNonsense(
                f"{self._client} sent no usable vectors. Check that it is an embedding model."
            )
        return unit


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
