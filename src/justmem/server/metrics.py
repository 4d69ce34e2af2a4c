"""Metrics for Prometheus (extra `metrics`). They hold no names of spaces and no words.

Without the extra nothing is counted, and reading the metrics is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from justmem.domain import Receipt, Remembered
from justmem.runtime.extras import need

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
Values = Callable[[], Mapping[tuple[str, ...], float]]  # by the values of the labels


class _Nothing:
    """Stands in for a metric of a missing package."""

    def labels(self, *values: str) -> _Nothing:
        return self

    def inc(self, amount: float = 1) -> None: ...

    def observe(self, amount: float) -> None: ...


class Metrics:
    def __init__(self) -> None:
        self._registry: Any = None
        if find_spec("prometheus_client") is not None:
            from prometheus_client import CollectorRegistry

            self._registry = CollectorRegistry()
        route = ["method", "route", "status"]
        self._requests = self._counter("http_requests", "Requests by route and status.", route)
        self._request_seconds = self._histogram(
            "http_request_seconds", "Time to answer them.", ["route"]
        )
        self._tokens = self._counter(
            "tokens", "Language model tokens by stage.", ["stage", "direction"]
        )
        self._calls = self._counter(
            "model_calls", "Language model calls by outcome.", ["stage", "outcome"]
        )
        self._stage_seconds = self._histogram("stage_seconds", "Time in each stage.", ["stage"])
        self._settled = self._counter("sessions", "Sessions that reached a state.", ["state"])
        self._chats = self._counter(
            "proxy_chats", "Forwarded chats, and whether memory worked.", ["memory"]
        )

    def gauge(self, name: str, about: str, labels: list[str], read: Values) -> None:
        """A gauge whose values are read when the metrics are."""
        if self._registry is not None:
            self._registry.register(_Gauge(f"justmem_{name}", about, labels, read))

    def request(self, method: str, route: str, status: str, seconds: float) -> None:
        self._requests.labels(method, route, status).inc()
        self._request_seconds.labels(route).observe(seconds)

    def chat(self, *, failed: bool) -> None:
        self._chats.labels("failed" if failed else "ok").inc()

    def receipt(self, receipt: Receipt) -> None:
        for call in receipt.calls:
            self._tokens.labels(call.stage, "in").inc(call.tokens_in)
            self._tokens.labels(call.stage, "out").inc(call.tokens_out)
            self._calls.labels(call.stage, "error" if call.error else "ok").inc()
        for stage, seconds in receipt.seconds.items():
            self._stage_seconds.labels(stage).observe(seconds)

    def remembered(self, done: Remembered) -> None:
        self._settled.labels(done.state.value).inc()
        self.receipt(done.receipt)

    def text(self) -> str:
        need("metrics")
        from prometheus_client import generate_latest

        return generate_latest(self._registry).decode()

    def _counter(self, name: str, about: str, labels: list[str]) -> Any:
        if self._registry is None:
            return _Nothing()
        from prometheus_client import Counter

        return Counter(f"justmem_{name}", about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, labels: list[str]) -> Any:
        if self._registry is None:
            return _Nothing()
        from prometheus_client import Histogram

        return Histogram(f"justmem_{name}", about, labels, registry=self._registry, buckets=BUCKETS)


class _Gauge:
    """A collector, as prometheus_client calls it."""

    def __init__(self, name: str, about: str, labels: list[str], read: Values) -> None:
        self._name, self._about, self._labels, self._read = name, about, labels, read

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(self._name, self._about, labels=self._labels)
        for values, value in self._read().items():
            family.add_metric(values, value)
        yield family
