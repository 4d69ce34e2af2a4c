"""Models as a run uses them: each reply and each vector is kept, within a cap, and language models
are sampled anew for each run."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from justmem import config
from justmem.config import providers
from justmem.domain import Call
from justmem.errors import InvalidSetting, JustMemError, ModelUnavailable
from justmem.ports import Completion, Embedded, Embedder, LanguageModel, Prompt
from justmem_eval.records import Lines, Reply
from justmem_eval.text import prompt_tokens

RECORDED = "recorded:"
_BATCH = 256  # texts embedded between two writes, so that a kill loses little


def cache_folder(given: Path | None = None) -> Path:
    path = given or user_cache_path("justmem", appauthor=False) / "eval"
    path.mkdir(parents=True, exist_ok=True)
    return path


# ---------------------------------------------------------------- the cap


@dataclass(slots=True)
class Cap:
    """Tokens that a run may spend in all, killed and resumed or not: what was spent is in
    `ledger`, one line a call. A call that could pass the limit is not made."""

    limit: int | None
    ledger: Path | None = None
    spent: int = 0
    reserved: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.ledger is not None and self.ledger.exists():
            lines = self.ledger.read_text().split("\n")[:-1]  # the last may be cut by a kill
            self.spent = sum(int(line) for line in lines if line.isdigit())

    def reserve(self, most: int) -> None:
        with self._lock:
            left = None if self.limit is None else self.limit - self.spent - self.reserved
            if left is not None and most > left:
                raise CapReached(
                    f"The next call could take {most:,} tokens and {max(0, left):,} of the cap of "
                    f"{self.limit:,} are left. What is done is kept: raise --cap and run again."
                )
            self.reserved += most

    def settle(self, most: int, spent: int) -> None:
        with self._lock:
            self.reserved -= most
            self.spent += spent
            if spent and self.ledger is not None:
                self.ledger.parent.mkdir(parents=True, exist_ok=True)
                with self.ledger.open("a") as file:
                    file.write(f"{spent}\n")


class CapReached(JustMemError):
    """Stops the run: it is no failure of one session or question, and no stage may take it for
    one (so it is no BudgetExceeded)."""


# ---------------------------------------------------------------- language models


def prompt_key(model: str, prompt: Prompt, sample: int) -> str:
    schema = json.dumps(prompt.schema, sort_keys=True)
    parts = [model, prompt.stage, prompt.system, prompt.unmarked, schema, prompt.max_tokens, sample]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class KeptModel:
    """A language model that is asked once for each prompt and sample, whatever is killed
    meanwhile, and within the cap. Without `inner` only the replies that an earlier run kept are
    known. `sample` is the number of the run, as replies differ between runs."""

    attempts = 4  # each retry may be billed for its input again

    def __init__(
        self,
        name: str,
        context: int,
        replies: Lines[Reply],
        cap: Cap,
        inner: LanguageModel | None = None,
    ) -> None:
        self.name = name
        self.context = context
        self.cap = cap
        self._inner = inner
        self._replies = replies

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        key = prompt_key(self.name, prompt, sample)
        if known := self._replies.get(key):
            return known.completion
        most = self.attempts * prompt_tokens(prompt) + prompt.max_tokens
        self.cap.reserve(most)
        calls: Sequence[Call] = ()
        try:
            completion = await self._ask(key, prompt)
            calls = [completion.call]
        except JustMemError as error:
            calls = error.calls
            raise
        finally:
            self.cap.settle(most, sum(call.tokens_in + call.tokens_out for call in calls))
        self.keep(key, completion)
        return completion

    async def _ask(self, key: str, prompt: Prompt) -> Completion:
        if self._inner is None:
            raise ModelUnavailable(
                f"No reply is recorded for this {prompt.stage} call: the prompt was another one."
            )
        return await self._inner.complete(prompt)

    def keep(self, key: str, completion: Completion) -> None:
        """A batch may have kept a reply already."""
        if not self._replies.done(key):
            reply = Reply(
                id=key,
                calls=(completion.call,),
                model=completion.call.model,
                context=self.context,
                text=completion.text,
                truncated=completion.truncated,
            )
            self._replies.add(reply)


class SampledModel:
    """The model as one run of an evaluation asks it."""

    def __init__(self, inner: KeptModel, sample: int) -> None:
        self.name = inner.name
        self.context = inner.context
        self._inner = inner
        self._sample = sample

    async def complete(self, prompt: Prompt) -> Completion:
        return await self._inner.complete(prompt, sample=self._sample)


def model(spec: str, replies: Path, cap: Cap) -> KeptModel:
    """What `spec` names, each reply kept in `replies`. `recorded:FILE` replays the replies of an
    earlier run."""
    if spec.startswith(RECORDED):
        known = Lines(Path(spec.removeprefix(RECORDED)), Reply)
        if not known.items():
            raise InvalidSetting(f"There are no recorded replies: {spec}.")
        last = known.items()[-1]
        return KeptModel(last.model, last.context, known, cap)
    inner = providers.build_model(spec, config.load())
    assert inner is not None  # only for `rules`
    return KeptModel(inner.name, inner.context, Lines(replies, Reply), cap, inner)


# ---------------------------------------------------------------- the embedder


class CachedEmbedder:
    """Vectors that were computed once, in a file that several processes may share. The local
    models read one text at a time, so a text has one vector whatever its neighbours."""

    def __init__(self, inner: Embedder, path: Path) -> None:
        self.name = inner.name
        self.dim = inner.dim
        self.relevance_bound = getattr(inner, "relevance_bound", None)
        self._inner = inner
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=60, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS blobs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
        )

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        if not texts:
            return await self._inner.embed(texts, query=query)
        keys = [self._key(text, query=query) for text in texts]
        wanted = "SELECT value FROM blobs WHERE key = ?"
        with self._lock:
            found = {k: value for k in keys for (value,) in self._db.execute(wanted, (k,))}
        missing = {k: text for k, text in zip(keys, texts, strict=True) if k not in found}
        names, spent = list(missing), 0
        for start in range(0, len(names), _BATCH):
            part = names[start : start + _BATCH]
            made = await self._inner.embed([missing[k] for k in part], query=query)
            spent += made.tokens
            rows = [(k, v.tobytes()) for k, v in zip(part, made.vectors, strict=True)]
            with self._lock, self._db:
                self._db.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?)", rows)
            found.update(rows)
        vectors = np.stack([np.frombuffer(found[k], np.float32) for k in keys])
        return Embedded(vectors=vectors, tokens=spent)

    def _key(self, text: str, *, query: bool) -> bytes:
        parts = "\0".join([self.name, "query" if query else "text", text])
        return hashlib.blake2b(parts.encode("utf-8", "replace"), digest_size=16).digest()
