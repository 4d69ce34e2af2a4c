"""Limits for each key."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from justmem.config import ServerSettings
from justmem.errors import TooMany


class Limits:
    """`clock` counts seconds from any start."""

    def __init__(
        self, serving: ServerSettings, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._serving = serving
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # requests left, at this time
        self._asking: Counter[str] = Counter()

    def admit(self, key: str) -> None:
        """Counts one request. A bucket of `burst` refills by `rate` per second."""
        now, burst, rate = self._clock(), float(self._serving.burst), self._serving.rate
        left, at = self._buckets.get(key, (burst, now))
        left = min(burst, left + (now - at) * rate)
        if left < 1:
            error = TooMany(f"This key sends more than {rate:g} requests per second: send fewer.")
            error.after = (1 - left) / rate
            raise error
        self._buckets[key] = (left - 1, now)

    @contextmanager
    def asking(self, key: str) -> Iterator[None]:
        if self._asking[key] >= self._serving.asks:
            error = TooMany(
                f"This key already has {self._serving.asks} questions in progress, the most it may "
                "have: wait for an answer first."
            )
            error.after = 1.0
            raise error
        self._asking[key] += 1
        try:
            yield
        finally:
            self._asking[key] -= 1
