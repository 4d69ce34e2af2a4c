"""Language models as a run uses them: recorded, within a cap, sampled anew for each run."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from justmem import config, providers, tokens
from justmem.domain import Call
from justmem.errors import InvalidSetting, JustMemError
from justmem.models.recorded import RecordedModel
from justmem.ports import Completion, LanguageModel, Prompt


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


class CappedModel:
    def __init__(self, inner: LanguageModel, cap: Cap, attempts: int = 4) -> None:
        self.name = inner.name
        self.context = inner.context
        self._inner = inner
        self._cap = cap
        self._attempts = attempts

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        # Each retry may be billed for its input again.
        most = self._attempts * tokens.prompt_tokens(prompt) + prompt.max_tokens
        self._cap.reserve(most)
        spent = 0
        try:
            completion = await self._inner.complete(prompt, sample=sample)
            spent = _of(completion.call)
            return completion
        except JustMemError as error:
            spent = sum(map(_of, error.calls))
            raise
        finally:
            self._cap.settle(most, spent)


def _of(call: Call) -> int:
    return call.tokens_in + call.tokens_out


class SampledModel:
    """The same model in its `sample`th run: stages that know of no samples ask it anew."""

    def __init__(self, inner: LanguageModel, sample: int) -> None:
        self.name = inner.name
        self.context = inner.context
        self._inner = inner
        self._sample = sample

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        return await self._inner.complete(prompt, sample=self._sample)


def model(spec: str, replies: Path, cap: Cap, *, base_url: str | None = None) -> LanguageModel:
    """What `spec` names, each reply kept in `replies`: a call is made once, whatever is killed.
    `base_url` sends it through the meter."""
    name, _, _ = spec.partition("@")
    settings = config.load()
    if base_url:  # the meter passes the key on to the server that `spec` names
        settings = config.load(api_key=providers.key_for(providers.parse(spec, "model"), settings))
    inner = providers.build_model(f"{name}@{base_url}" if base_url else spec, settings)
    if inner is None:
        raise InvalidSetting("`rules` is no model that could be asked: name one for this stage.")
    return RecordedModel(replies, CappedModel(inner, cap))
