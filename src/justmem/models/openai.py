"""Language models behind any OpenAI-compatible URL."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack

from justmem.domain import Call
from justmem.errors import (
    InvalidSetting,
    ModelError,
    ModelNonsense,
    ModelRefused,
    ModelUnavailable,
)
from justmem.models.http_client import Declined, HttpClient, HttpOptions, Setback, count, too_long
from justmem.ports import Completion, Prompt
from justmem.runtime import tokens
from justmem.runtime.addresses import OPENAI_URL, checked_url
from justmem.runtime.validation import clean

# Ways to ask for JSON, from the strictest to the loosest.
Format = Literal["schema", "object", "text"]
_LOOSER: dict[Format, Format] = {"schema": "object", "object": "text"}

_FORMAT_WORDS = (
    "response_format",
    "json_schema",
    "json_object",
    "json mode",
    "structured output",
    "guided",
    "grammar",
    "requested parameters",
)
_FENCE = re.compile(r"```(?:json)?(\s*+)")


def openai_client(
    model: str,
    path: str,
    base_url: str | None,
    api_key: str | None,
    **options: Unpack[HttpOptions],
) -> HttpClient:
    """A client for one path of an OpenAI-compatible server. `base_url` may include the path."""
    url = checked_url(base_url or OPENAI_URL).removesuffix(path)
    if not api_key and url == OPENAI_URL:
        raise InvalidSetting(
            f"{model!r} at {url} needs an API key. Set one, or give the base URL of a server "
            "that needs none."
        )
    return HttpClient(model, url + path, api_key, **options)


class OpenAIModel:
    """A chat model. Asks for JSON by schema, then by JSON mode, then in the prompt, depending on
    what the server supports. The result is remembered for later calls."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        context: int = 128_000,
        **options: Unpack[HttpOptions],
    ) -> None:
        self.name = name
        self.context = context
        self._client = openai_client(name, "/chat/completions", base_url, api_key, **options)
        self._format: Format = "schema"
        self._temperature = {"temperature": 0.0}
        self._limit_by = "max_tokens"

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r}, base_url={self._client.shown_url!r})"

    async def complete(self, prompt: Prompt) -> Completion:
        exchange = _Exchange(prompt, self.name)
        try:
            sent = await self._client.retried(lambda: self._attempt(exchange))
        except ModelError as error:
            error.calls = (exchange.call(error=str(error)),)
            raise
        return self._completion(_read(sent), exchange)

    async def close(self) -> None:
        await self._client.close()

    # ------------------------------------------------------------ one attempt

    async def _attempt(self, exchange: _Exchange) -> Any:
        """One attempt. It is repeated at once in another form if the server does not support the
        first form; each repetition removes one feature for good, so there are few."""
        exchange.check_limit(str(self._client))
        while True:
            form = self._format
            exchange.body = self._body(exchange.prompt, form)
            exchange.requests += 1
            try:
                return await self._client.post(exchange.body)
            except Setback as setback:
                if setback.sent:
                    exchange.lose()
                raise
            except ModelNonsense:
                exchange.lose()
                raise
            except Declined as declined:
                if not self._adapts(declined, form, exchange.body):
                    raise declined.failure from None

    def _body(self, prompt: Prompt, form: Format) -> dict[str, Any]:
        system = prompt.system
        if form != "schema":
            shape = json.dumps(prompt.schema, separators=(",", ":"), ensure_ascii=False)
            system += f"\n\nReply with one JSON object and nothing else. Its JSON schema:\n{shape}"
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": prompt.user},
            ],
            self._limit_by: prompt.max_tokens,
            **self._temperature,
        }
        if form == "schema":
            shape_of = {"name": prompt.stage, "strict": True, "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape_of}
        elif form == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def _adapts(self, declined: Declined, form: Format, body: Mapping[str, Any]) -> bool:
        """Whether the request can be changed after this refusal. Changes it for all calls."""
        if declined.status not in (400, 404, 415, 422, 501) or too_long(declined.text):
            return False
        if form != "text" and declined.names(*_FORMAT_WORDS):
            if self._format == form:  # unless another call has changed it
                self._format = _LOOSER[form]
        elif "max_tokens" in body and declined.names("max_completion_tokens", "max_tokens"):
            self._limit_by = "max_completion_tokens"
        elif "temperature" in body and declined.names("temperature"):
            self._temperature = {}
        else:
            return False
        return True

    def _completion(self, reply: _Reply, exchange: _Exchange) -> Completion:
        if text := bare(reply.text):
            return Completion(text, exchange.call(reply), truncated=reply.reason == "length")
        if reply.refusal or reply.reason == "content_filter":
            said = self._client.cleaned(reply.refusal or "its content filter stopped the reply")
            message = (
                f"{self._client} declined to answer ({said}). Another model may take this text."
            )
            raise ModelRefused(message, exchange.call(reply, error=message))
        why = "all of it went into thinking" if reply.reason == "length" else "no text in it"
        message = (
            f"{self._client} sent an empty reply ({why}). Try again, allow a longer reply, "
            "or use another model."
        )
        raise ModelNonsense(message, exchange.call(reply, error=message))


@dataclass(slots=True)
class _Exchange:
    """One call with all its requests, also those that failed."""

    prompt: Prompt
    model: str
    started: float = field(default_factory=time.perf_counter)
    body: dict[str, Any] = field(default_factory=dict)  # of the last request
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
        if (
            limit is not None
            and lost
            and lost + self.prompt.tokens + self.prompt.max_tokens > limit
        ):
            raise ModelUnavailable(
                f"{server} did not reply. It was not asked again, because another attempt could "
                f"pass the limit of {limit} tokens. Try again later, or raise the limit."
            )

    def _estimate(self) -> int:
        """Tokens of the messages, with what the chat format adds around them."""
        return 3 + sum(4 + tokens.count(message["content"]) for message in self.body["messages"])

    def call(self, reply: _Reply | None = None, *, error: str = "") -> Call:
        tokens_in = tokens_out = cached = 0
        estimated = self.lost_in > 0
        if reply is not None:
            told_in = count(reply.usage.get("prompt_tokens"))
            told_out = count(reply.usage.get("completion_tokens"))
            tokens_in = told_in or self._estimate()
            tokens_out = told_out or tokens.count(reply.text)
            details = reply.usage.get("prompt_tokens_details")
            cached = count(details.get("cached_tokens")) or 0 if isinstance(details, dict) else 0
            estimated = estimated or told_in is None or (told_out is None and bool(reply.text))
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


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str
    refusal: str
    reason: str
    usage: Mapping[str, Any]


def _read(sent: Any) -> _Reply:
    """Servers do not always follow the protocol."""
    body = _dict(sent)
    choices = body.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message = _dict(choice.get("message"))
    text = message.get("content")
    return _Reply(
        text=clean(text) if isinstance(text, str) else "",
        refusal=str(message.get("refusal") or ""),
        reason=str(choice.get("finish_reason") or ""),
        usage=_dict(body.get("usage")),
    )


def bare(text: str) -> str:
    """A reply without the thoughts and code fences that some models put around their JSON."""
    text = text.strip()
    if text.startswith("<think>"):
        _, ended, rest = text.partition("</think>")
        text = rest.strip() if ended else text
    opening = _FENCE.match(text)
    if opening and "\n" in opening[1] and text.endswith("```", opening.end()):
        text = text[opening.end() : -3].strip()
    return text


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
