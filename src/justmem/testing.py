"""Test doubles, also for your own tests. They need no network, no download and no key.

ScriptedModel   a language model that returns scripted replies
HashEmbedder    an embedder: texts with common words have similar vectors
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from justmem.domain import Call
from justmem.errors import ModelError, ModelUnavailable
from justmem.ports import Completion, Embedded, Prompt
from justmem.runtime import tokens

# ---------------------------------------------------------------- models

Scripted = str | Mapping[str, Any] | Sequence[Any] | Completion | Exception


class ScriptedModel:
    """Replies from a list, in order, or from a function of the prompt. A string is returned
    unchanged, a mapping as JSON, and an exception is raised. `prompts` holds all prompts."""

    def __init__(
        self,
        replies: Sequence[Scripted] | Callable[[Prompt], Scripted] = (),
        *,
        name: str = "scripted",
        context: int = 128_000,
    ) -> None:
        self.name = name
        self.context = context
        self.prompts: list[Prompt] = []
        self._reply = replies if callable(replies) else _in_order(replies)

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        reply = self._reply(prompt)
        if isinstance(reply, Completion):
            return reply
        if isinstance(reply, ModelError) and not reply.calls:
            reply.calls = (self._call(prompt, "", error=str(reply)),)
        if isinstance(reply, Exception):
            raise reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return Completion(text=text, call=self._call(prompt, text))

    def _call(self, prompt: Prompt, text: str, error: str = "") -> Call:
        return Call(
            stage=prompt.stage,
            model=self.name,
            tokens_in=tokens.count(prompt.system) + tokens.count(prompt.user),
            tokens_out=tokens.count(text),
            estimated=True,
            error=error,
        )


def _in_order(replies: Sequence[Scripted]) -> Callable[[Prompt], Scripted]:
    left = iter(replies)

    def reply(prompt: Prompt) -> Scripted:
        silence = ModelUnavailable(f"The script has no reply left for this {prompt.stage} call.")
        return next(left, silence)

    return reply


_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Each word has a place in the vector, so texts with common words have similar vectors."""

    def __init__(self, dim: int = 64) -> None:
        self.name = f"hash-{dim}"
        self.dim = dim

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        used = 0
        for row, text in zip(vectors, texts, strict=True):
            words = _WORD.findall(text.lower()) or [""]
            used += len(words)
            for word in words:
                place = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
                row[place % self.dim] += 1.0
            row /= np.linalg.norm(row)
        return Embedded(vectors=vectors, tokens=used)
