"""One client's texts, however they are made, do not stop the server for the others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from servers import Running, serve, until
from stories import BIKE, RUN

ASKED = {"question": "What did the gravel bike cost?", "at": "2024-06-01T12:00"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("availability")) as running:
        yield running


def states(client: httpx.Client, space: str) -> dict[str, str]:
    listed = client.get(f"/v1/spaces/{space}/sessions").json()
    return {each["id"]: each["state"] for each in listed}


def test_others_are_served_while_one_sends_texts_made_to_take_long(server: Running) -> None:
    """No request waits for the patience of its client, which is far longer than any takes."""
    marks = [
        {"id": f"m{n}", "at": "2024-05-20", "turns": [{"speaker": "Mal", "text": text}]}
        for n, text in enumerate(["I bought a kayak " + mark * 300_000 + "x" for mark in "?!.…"])
    ]
    hostile = {"question": "How many days " * 2_800, "at": "2024-06-01T12:00"}
    with (
        server.client(server.key("mal")) as mal,
        server.client(server.key("ana")) as ana,
        ThreadPoolExecutor(2) as threads,
    ):
        assert ana.post("/v1/spaces/ana/sessions?wait=true", json=BIKE).status_code == 200
        for session in marks:
            assert mal.post("/v1/spaces/mal/sessions", json=session).status_code == 202
        asked = threads.submit(mal.post, "/v1/spaces/mal/ask", json=hostile)
        assert ana.get("/health/live").status_code == 200
        answer = ana.post("/v1/spaces/ana/ask", json=ASKED)
        assert answer.status_code == 200
        assert ana.post("/v1/spaces/ana/sessions?wait=true", json=RUN).json()["state"] == "stored"
        assert asked.result().status_code == 200
        ended = {"stored", "empty", "failed"}
        until(lambda: len(found := states(mal, "mal")) == 4 and set(found.values()) <= ended, 60)


def test_a_question_of_the_greatest_length_is_answered_with_a_note(server: Running) -> None:
    with server.client(server.key("ana")) as ana:
        ana.post("/v1/spaces/ana/sessions?wait=true", json=BIKE)
        question = {"question": "between first last, " * 5_000, "at": "2024-06-01T12:00"}
        answer = ana.post("/v1/spaces/ana/ask", json=question)
        assert answer.status_code == 200
        assert any("the question is long" in note for note in answer.json()["receipt"]["notes"])
