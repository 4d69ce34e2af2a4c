"""How much one key may do at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from justmem.errors import TooMany
from justmem.server_settings import ServerSettings


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Limits:
    """`clock` counts seconds; it need not tell the time."""

    def __init__(
        self, serving: ServerSettings, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._serving = serving
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._asking: Counter[str] = Counter()

    def admit(self, key: str) -> None:
        """One request. A bucket of `burst` fills again by `rate` a second."""
        now, burst, rate = self._clock(), float(self._serving.burst), self._serving.rate
        bucket = self._buckets.setdefault(key, _Bucket(burst, now))
        bucket.left = min(burst, bucket.left + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.left < 1:
            error = TooMany(
                f"This key makes more than {rate:g} requests a second: slow down a little."
            )
            error.after = (1 - bucket.left) / rate
            raise error
        bucket.left -= 1

    @contextmanager
    def asking(self, key: str) -> Iterator[None]:
        if self._asking[key] >= self._serving.asks:
            error = TooMany(
                f"This key has {self._serving.asks} questions under way, as many as it may: "
                "wait for an answer before you ask the next."
            )
            error.after = 1.0
            raise error
        self._asking[key] += 1
        try:
            yield
        finally:
            self._asking[key] -= 1
