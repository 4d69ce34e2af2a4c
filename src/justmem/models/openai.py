"""Language models behind any OpenAI-compatible URL."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from justmem import tokens
from justmem.domain import Call
from justmem.errors import ModelError, ModelNonsense, ModelRefused, ModelUnavailable
from justmem.models.chat_reply import ChatReply, StreamedReply, estimate
from justmem.models.embeddings import OpenAIEmbedder, openai_client
from justmem.models.http_client import Declined
from justmem.models.retry import Retry, Setback, Sleep, too_long
from justmem.ports import Completion, Prompt

__all__ = ["OpenAIEmbedder", "OpenAIModel"]

T = TypeVar("T")

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


@dataclass(slots=True)
class _Tally:
    """The cost of one call so far, with the requests that failed."""

    requests: int = 0
    lost_in: int = 0  # input that the server may have processed without a reply reaching us
    lost_out: int = 0  # the most that it may have replied

    def lose(self, body: Mapping[str, Any], prompt: Prompt) -> None:
        self.lost_in += estimate(body)
        self.lost_out += prompt.max_tokens


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
        timeout: float = 60.0,
        attempts: int = 4,
        temperature: float | None = 0.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self.context = context
        self._client = openai_client(name, "/chat/completions", base_url, api_key, timeout)
        self._retry = Retry(attempts=attempts, sleep=sleep)
        self._format: Format = "schema"
        self._temperature = temperature
        self._limit_by = "max_tokens"
        self._usage_in_stream = True

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r}, base_url={self._client.server.url!r})"

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        """`sample` has no effect: every call is a new one."""
        tally = _Tally()
        started = time.perf_counter()

        async def sent(body: dict[str, Any]) -> ChatReply:
            return ChatReply.read(await self._client.post(body), body)

        try:
            reply, body = await self._retry.run(
                lambda: self._attempt(prompt, tally, sent), self._client.server
            )
        except ModelError as error:
            error.calls = (self._call(prompt, tally, started, error=str(error)),)
            raise
        return self._completion(reply, self._paid(prompt, tally, started, reply, body))

    async def stream(self, prompt: Prompt, *, sample: int = 0) -> AsyncGenerator[str | Completion]:
        """As `complete`, with the text as it arrives. After the first text there is no retry."""
        tally = _Tally()
        started = time.perf_counter()
        streamed_reply = StreamedReply()

        async def opened(body: dict[str, Any]) -> tuple[str, AsyncGenerator[Any]]:
            chunks = self._client.stream(body)
            return streamed_reply.add(await anext(chunks, None)), chunks

        try:
            (first, chunks), body = await self._retry.run(
                lambda: self._attempt(prompt, tally, opened, streamed=True), self._client.server
            )
            if first:
                yield first
            async with aclosing(chunks):
                async for chunk in chunks:
                    if text := streamed_reply.add(chunk):
                        yield text
        except ModelError as error:
            error.calls = (self._call(prompt, tally, started, error=str(error)),)
            raise
        except Setback as setback:
            raise self._broken_off(setback, prompt, tally, started, streamed_reply, body) from None
        reply = ChatReply.read(streamed_reply.whole, body)
        yield self._completion(reply, self._paid(prompt, tally, started, reply, body))

    async def close(self) -> None:
        await self._client.close()

    # ------------------------------------------------------------ one attempt

    async def _attempt(
        self,
        prompt: Prompt,
        tally: _Tally,
        send: Callable[[dict[str, Any]], Awaitable[T]],
        *,
        streamed: bool = False,
    ) -> tuple[T, dict[str, Any]]:
        """One attempt. It is repeated at once in another form if the server does not support the
        first form; each repetition removes one feature for good, so there are few."""
        self._check_limit(prompt, tally)
        while True:
            form = self._format
            body = self._body(prompt, form) | (self._streaming() if streamed else {})
            tally.requests += 1
            try:
                return await send(body), body
            except Setback as setback:
                if setback.sent:
                    tally.lose(body, prompt)
                raise
            except ModelNonsense:
                tally.lose(body, prompt)
                raise
            except Declined as declined:
                if not self._adapts(declined, form, body):
                    raise declined.failure from None

    def _check_limit(self, prompt: Prompt, tally: _Tally) -> None:
        """Stops if lost attempts and another one could pass the limit. The first attempt fits."""
        lost = tally.lost_in + tally.lost_out
        if prompt.limit is None or not lost:
            return
        if lost + prompt.tokens + prompt.max_tokens > prompt.limit:
            raise ModelUnavailable(
                f"{self._client.server} did not reply, and was not asked again: another attempt "
                f"could pass the limit of {prompt.limit} tokens. Try again later, or raise it."
            )

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
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if form == "schema":
            shape_of = {"name": prompt.stage, "strict": True, "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape_of}
        elif form == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def _streaming(self) -> dict[str, Any]:
        wish = {"stream_options": {"include_usage": True}} if self._usage_in_stream else {}
        return {"stream": True, **wish}

    def _adapts(self, declined: Declined, form: Format, body: Mapping[str, Any]) -> bool:
        """Whether the request can be changed after this refusal. Changes it for all calls."""
        if declined.status not in (400, 404, 415, 422, 501) or too_long(declined.text):
            return False
        if "stream_options" in body and declined.names("stream_options", "include_usage"):
            self._usage_in_stream = False
            return True
        if form != "text" and declined.names(*_FORMAT_WORDS):
            if self._format == form:  # unless another call has changed it
                self._format = _LOOSER[form]
            return True
        if "max_tokens" in body and declined.names("max_completion_tokens", "max_tokens"):
            self._limit_by = "max_completion_tokens"
            return True
        if "temperature" in body and declined.names("temperature"):
            self._temperature = None
            return True
        return False

    # ------------------------------------------------------------ what came of it

    def _call(self, prompt: Prompt, tally: _Tally, started: float, **known: Any) -> Call:
        counts = {
            "tokens_in": tally.lost_in,
            "tokens_out": 0,
            "undelivered": tally.lost_out,
            "estimated": tally.lost_in > 0,
        }
        return Call(
            stage=prompt.stage,
            model=self.name,
            attempts=tally.requests,
            seconds=time.perf_counter() - started,
            **counts | known,
        )

    def _paid(
        self,
        prompt: Prompt,
        tally: _Tally,
        started: float,
        reply: ChatReply,
        body: Mapping[str, Any],
        **known: Any,
    ) -> Call:
        tokens_out = reply.tokens_out
        return self._call(
            prompt,
            tally,
            started,
            tokens_in=(reply.tokens_in or estimate(body)) + tally.lost_in,
            tokens_out=tokens.count(reply.text) if tokens_out is None else tokens_out,
            cached=reply.cached,
            estimated=reply.tokens_in is None or tokens_out is None or tally.lost_in > 0,
            **known,
        )

    def _broken_off(
        self,
        setback: Setback,
        prompt: Prompt,
        tally: _Tally,
        started: float,
        streamed_reply: StreamedReply,
        body: Mapping[str, Any],
    ) -> ModelUnavailable:
        message = (
            f"{self._client.server} broke off in the middle of its reply ({setback}). Ask again."
        )
        reply = ChatReply.read(streamed_reply.whole, body)
        call = self._paid(prompt, tally, started, reply, body, error=message)
        rest = max(0, prompt.max_tokens - call.tokens_out)  # it may have continued
        call = call.model_copy(update={"undelivered": call.undelivered + rest})
        return ModelUnavailable(message, call)

    def _completion(self, reply: ChatReply, call: Call) -> Completion:
        if reply.bare:
            return Completion(text=reply.bare, call=call, truncated=reply.reason == "length")
        server = self._client.server
        if reply.refusal or reply.reason == "content_filter":
            said = server.clean(reply.refusal or "its content filter stopped the reply")
            message = f"{server} declined to answer ({said}). Another model may take this text."
            raise ModelRefused(message, call.model_copy(update={"error": message}))
        why = "all of it went into thinking" if reply.reason == "length" else "no text in it"
        message = (
            f"{server} sent an empty reply ({why}). Try again, allow a longer reply, "
            "or use another model."
        )
        raise ModelNonsense(message, call.model_copy(update={"error": message}))
