"""Metrics for Prometheus (extra `metrics`). They hold no names of spaces and no words.

Without the extra nothing is counted, and reading the metrics is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from justmem.domain import Receipt, Remembered
from justmem.runtime.process import need

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_COUNTERS = {
    "http_requests": ("Requests by route and status.", ["method", "route", "status"]),
    "tokens": ("Language model tokens by stage.", ["stage", "direction"]),
    "model_calls": ("Language model calls by outcome.", ["stage", "outcome"]),
    "sessions": ("Sessions that reached a state.", ["state"]),
    "proxy_chats": ("Forwarded chats, and whether memory worked.", ["memory"]),
}
_HISTOGRAMS = {
    "http_request_seconds": ("Time to answer requests.", ["route"]),
    "stage_seconds": ("Time in each stage.", ["stage"]),
}


class Metrics:
    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        if find_spec("prometheus_client") is None:
            return
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._registry = CollectorRegistry()
        named: dict[str, Any] = {"namespace": "justmem", "registry": self._registry}
        for name, (about, labels) in _COUNTERS.items():
            self._known[name] = Counter(name, about, labels, **named)
        for name, (about, labels) in _HISTOGRAMS.items():
            self._known[name] = Histogram(name, about, labels, buckets=_BUCKETS, **named)

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """`read` is called when the metrics are read."""
        if self._known:
            from prometheus_client import Gauge

            Gauge(name, about, namespace="justmem", registry=self._registry).set_function(read)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        if self._known:
            self._known[name].labels(*labels).inc(by)

    def observe(self, name: str, label: str, seconds: float) -> None:
        if self._known:
            self._known[name].labels(label).observe(seconds)

    def receipt(self, receipt: Receipt) -> None:
        for call in receipt.calls:
            self.count("tokens", call.stage, "in", by=call.tokens_in)
            self.count("tokens", call.stage, "out", by=call.tokens_out)
            self.count("model_calls", call.stage, "error" if call.error else "ok")
        for stage, seconds in receipt.seconds.items():
            self.observe("stage_seconds", stage, seconds)

    def remembered(self, done: Remembered) -> None:
        self.count("sessions", done.state.value)
        self.receipt(done.receipt)

    def text(self) -> str:
        need("metrics")
        from prometheus_client import generate_latest

        return generate_latest(self._registry).decode()
