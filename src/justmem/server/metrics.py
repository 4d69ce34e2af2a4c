"""Counts and durations in Prometheus' text format. They hold no names of spaces and no words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from justmem.domain import Receipt, Remembered

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Labels = tuple[tuple[str, str], ...]
Gauge = Callable[[], Mapping[Labels, float]]


class Counter:
    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        at = tuple(labels.items())
        self._values[at] = self._values.get(at, 0) + amount

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, self.about, "counter")
        for labels, value in self._values.items():
            yield _line(self.name, labels, value)


class Histogram:
    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, seconds: float, **labels: str) -> None:
        at = tuple(labels.items())
        self._counts.setdefault(at, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
        self._sums[at] = self._sums.get(at, 0.0) + seconds

    def lines(self) -> Iterable[str]:
        yield from _head(self.name, self.about, "histogram")
        for labels, counts in self._counts.items():
            so_far = 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                so_far += count
                yield _line(f"{self.name}_bucket", (*labels, ("le", bound)), so_far)
            yield _line(f"{self.name}_sum", labels, self._sums[labels])
            yield _line(f"{self.name}_count", labels, so_far)


class Metrics:
    def __init__(self) -> None:
        self.requests = Counter("justmem_http_requests_total", "Requests by route and status.")
        self.request_seconds = Histogram("justmem_http_request_seconds", "Time to answer them.")
        self.tokens = Counter("justmem_tokens_total", "Language model tokens by stage.")
        self.calls = Counter("justmem_model_calls_total", "Language model calls by outcome.")
        self.stage_seconds = Histogram("justmem_stage_seconds", "Time in each stage.")
        self.sessions = Counter("justmem_sessions_total", "Sessions that reached a state.")
        self.proxied = Counter("justmem_proxy_chats_total", "Chats that passed, by memory's part.")
        self._gauges: dict[str, tuple[str, Gauge]] = {}

    def gauge(self, name: str, about: str, read: Gauge) -> None:
        self._gauges[name] = (about, read)

    def receipt(self, receipt: Receipt) -> None:
        for call in receipt.calls:
            self.tokens.add(call.tokens_in, stage=call.stage, direction="in")
            self.tokens.add(call.tokens_out, stage=call.stage, direction="out")
            self.calls.add(stage=call.stage, outcome="error" if call.error else "ok")
        for stage, seconds in receipt.seconds.items():
            self.stage_seconds.observe(seconds, stage=stage)

    def remembered(self, done: Remembered) -> None:
        self.sessions.add(state=done.state.value)
        self.receipt(done.receipt)

    def text(self) -> str:
        lines: list[str] = []
        for metric in vars(self).values():
            if isinstance(metric, Counter | Histogram):
                lines += metric.lines()
        for name, (about, read) in self._gauges.items():
            lines += _head(name, about, "gauge")
            lines += [_line(name, labels, value) for labels, value in read().items()]
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}"


def _escaped(text: str) -> str:
    return re.sub(r'([\\"])', r"\\\1", text).replace("\n", r"\n")
