"""Whatever the OpenAPI description allows, and much that it does not, gets an orderly answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import booleans
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from justmem.config import load
from justmem.server import application
from justmem.server.state import Server
from justmem_eval.loopback import Request, Respond, chat_body, serve_openai
from servers import Running, serve
from stories import HISTORY


def _routes() -> list[tuple[str, str]]:
    """As a server describes them that serves nothing."""
    settings = load(embedder="justmem.testing:HashEmbedder", reranker="none")
    paths = application.api(Server(settings, clock=datetime.now, keys=None)).openapi()["paths"]
    return [(path, method.upper()) for path, methods in paths.items() for method in methods]


CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    def upstream(request: Request) -> Respond:
        return Respond(chat_body("Hello!") if request.body else {"object": "list", "data": []})

    with serve_openai(upstream) as behind:
        folder = tmp_path_factory.mktemp("schema")
        loose = f'upstream = "{behind.url}"\nrate = 100000\nburst = 100000'
        with serve(folder, server=loose) as running:
            yield running


@pytest.fixture(scope="module")
def key(server: Running) -> str:
    return server.key("*", right="admin")


@pytest.fixture(scope="module")
def api(server: Running, key: str) -> Any:
    with server.client(key) as client:
        for session in HISTORY:
            client.post("/v1/spaces/ana/sessions?wait=true", json=session)
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), _routes())
def test_no_request_causes_a_server_error(
    server: Running, key: str, api: Any, path: str, method: str, mode: GenerationMode
) -> None:
    headers = {"authorization": f"Bearer {key}"}
    operation = api[path][method]

    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=booleans())
    def sent(case: Any, known: bool) -> None:
        if known and "space" in (case.path_parameters or {}):
            case.path_parameters = {**case.path_parameters, "space": "ana"}
        more = headers | ({"x-justmem-space": "ana"} if known else {})
        case.call_and_validate(headers=more, checks=CHECKS, timeout=30)

    try:
        sent()
    except Unsatisfiable:
        pytest.skip("nothing can be wrong about it")
    assert "Traceback" not in server.log


def test_spaces_made_by_wild_names_lie_in_their_folder(server: Running, key: str) -> None:
    inside = {path.suffix for path in Path(server.home).iterdir()}
    assert inside <= {".db", ".db-wal", ".db-shm", ".json"}
