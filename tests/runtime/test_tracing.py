"""Spans of a real SDK: what they hold, and that they hold no words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

import justmem
from justmem.config import load
from justmem.errors import JustMemError
from justmem.intake.sessions import as_time
from justmem.server.application import application
from justmem.server.mcp import mcp_server
from justmem.server.state import Server
from justmem.testing import HashEmbedder, ScriptedModel

SAID = "I am allergic to walnuts."
ASKED = "What am I allergic to?"
EXPORTER = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
trace.set_tracer_provider(_provider)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    EXPORTER.clear()
    yield EXPORTER
    EXPORTER.clear()


def ours(spans: InMemorySpanExporter) -> list[ReadableSpan]:
    found = spans.get_finished_spans()
    return [
        span
        for span in found
        if span.instrumentation_scope and span.instrumentation_scope.name == "justmem"
    ]


def given(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def memory(folder: Path, **more: Any) -> justmem.Memory:
    return justmem.open("ana", folder=folder, embedder=HashEmbedder(), reranker="none", **more)


def test_each_verb_is_a_span_without_words(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    with memory(tmp_path) as m:
        m.remember([{"role": "user", "content": SAID}], id="s1", at="2024-05-20")
        m.append([{"role": "user", "content": "I like tea."}], id="s1")
        found = m.recall(ASKED)
        m.ask(ASKED)
        m.forget(card=found.cards[0].id)
        m.forget(subject="tea")
        m.forget(everything=True)
    made = ours(spans)
    operations = [given(span)["gen_ai.operation.name"] for span in made]
    assert operations == [
        *("upsert_memory", "upsert_memory", "search_memory", "search_memory"),
        *("delete_memory", "delete_memory", "delete_memory_store"),
    ]
    assert given(made[0])["gen_ai.conversation.id"] == "s1"
    assert given(made[2])["gen_ai.memory.record.count"] >= 1
    assert given(made[4])["gen_ai.memory.record.id"] == found.cards[0].id
    assert given(made[5])["gen_ai.memory.record.id"].startswith("subject:")
    assert len({given(span)["gen_ai.memory.store.id"] for span in made}) == 1
    told = json.dumps([given(span) for span in made])
    for word in ("walnuts", "allergic", "tea", "Rocha", '"ana"'):
        assert word not in told


def test_a_model_call_is_a_child_with_its_tokens(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    reply = {"answer": "Walnuts.", "used": [], "sufficient": True}
    with memory(tmp_path, answerer=ScriptedModel([json.dumps(reply)])) as m:
        m.remember([{"role": "user", "content": SAID}], id="s1", at="2024-05-20")
        answer = m.ask(ASKED)
    chat, asked = ours(spans)[-2:]
    assert chat.parent is not None
    assert asked.context is not None
    assert chat.parent.span_id == asked.context.span_id
    assert given(chat)["gen_ai.operation.name"] == "chat"
    assert given(chat)["gen_ai.usage.input_tokens"] == answer.receipt.tokens_in
    assert given(asked)["gen_ai.usage.output_tokens"] == answer.receipt.tokens_out


def test_an_error_tells_its_kind_alone(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    with memory(tmp_path) as m, pytest.raises(JustMemError):
        m.forget(card="walnuts")
    (span,) = ours(spans)
    assert given(span)["error.type"] == "NotInMemory"
    assert not span.status.is_ok
    assert "walnuts" not in span.to_json()


@pytest.fixture
def server(tmp_path: Path) -> Server:
    settings = load(folder=tmp_path, embedder="justmem.testing:HashEmbedder", reranker="none")
    return Server(settings, clock=lambda: as_time("2024-06-01"), keys=None)


def test_a_request_over_http_goes_on_with_the_callers_trace(
    server: Server, spans: InMemorySpanExporter
) -> None:
    caller = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{caller}-b7ad6b7169203331-01"}
    with TestClient(application(server), base_url="http://127.0.0.1") as http:
        body = {"id": "s1", "at": "2024-05-20", "turns": [{"role": "user", "content": SAID}]}
        http.post("/v1/spaces/ana/sessions?wait=true", json=body).raise_for_status()
        asked = http.post("/v1/spaces/ana/recall", json={"question": ASKED}, headers=headers)
        assert asked.status_code == 200, asked.text
    (span,) = [each for each in ours(spans) if each.name == "search_memory"]
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == caller


async def test_a_tool_call_goes_on_with_the_callers_trace(
    server: Server, spans: InMemorySpanExporter
) -> None:
    async with server.running(only="ana"), Client(mcp_server(server, space="ana")) as client:
        await client.call_tool("remember", {"text": SAID})
        with trace.get_tracer("test").start_as_current_span("caller") as caller:
            await client.call_tool("recall", {"question": ASKED})
    (span,) = [each for each in ours(spans) if each.name == "search_memory"]
    assert span.context is not None
    assert span.context.trace_id == caller.get_span_context().trace_id


def test_the_page_runs(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "integrations" / "opentelemetry.md"
    code = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)[0]
    settings = {"JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder", "JUSTMEM_RERANKER": "none"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "JUSTMEM_FOLDER": str(tmp_path), **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "upsert_memory" in done.stdout
    assert "search_memory" in done.stdout
    assert "walnuts" not in done.stdout
