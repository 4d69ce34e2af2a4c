"""The HTTP interface, over a real socket to a real process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from justmem_eval.loopback import serve_openai
from servers import Running, bike_model, serve, until
from stories import BIKE, HISTORY, RUN

PROBLEM = "application/problem+json"
ASKED = {"question": "What did the gravel bike cost?", "at": "2024-06-01T12:00"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve_openai(bike_model) as model:
        settings = f'answerer = "openai:m@{model.url}"'
        with serve(tmp_path_factory.mktemp("http"), settings) as running:
            yield running


@pytest.fixture
def ana(server: Running) -> Iterator[httpx.Client]:
    """A client that may write in the space `ana`, where the history is remembered."""
    with server.client(server.key("ana")) as client:
        for session in HISTORY:
            answer = client.post("/v1/spaces/ana/sessions?wait=true", json=session)
            assert answer.status_code == 200, answer.text
        yield client


# ---------------------------------------------------------------- remembering


def test_a_session_is_accepted_and_its_status_says_when_it_is_stored(server: Running) -> None:
    with server.client(server.key("new")) as client:
        answer = client.post("/v1/spaces/new/sessions", json=RUN)
        assert answer.status_code == 202
        assert answer.json()["state"] == "pending"
        url = f"/v1/spaces/new/sessions/{answer.json()['session_id']}/status"
        status = until(lambda: (s := client.get(url).json()) and s["state"] == "stored" and s)
        assert (status["id"], status["turns"]) == ("run", 3)
        assert status["cards"] > 0


def test_waiting_gives_the_cards_and_what_they_cost(ana: httpx.Client) -> None:
    changed = {**BIKE, "id": "waited"}
    done = ana.post("/v1/spaces/ana/sessions", params={"wait": True}, json=changed).json()
    assert done["state"] == "stored"
    assert any("gravel bike" in card["fact"] for card in done["cards"])
    assert done["receipt"]["tokens"] == 0
    again = ana.post("/v1/spaces/ana/sessions", params={"wait": True}, json=changed).json()
    assert again["unchanged"]


def test_a_session_that_says_nothing_of_its_time_takes_place_now(server: Running) -> None:
    undated = {"id": "undated", "turns": [{"role": "user", "text": "I have a parrot."}]}
    with server.owner() as client:
        assert client.post("/v1/spaces/now/sessions?wait=true", json=undated).status_code == 200
        at = client.get("/v1/spaces/now/sessions/undated").json()["at"]
    assert datetime.fromisoformat(at) > datetime(2026, 1, 1)


def test_a_text_and_a_list_of_messages_are_sessions_as_in_the_library(server: Running) -> None:
    with server.owner() as client:
        sent = {"json": "I moved to Ghent.", "params": {"wait": True}}
        (card,) = client.post("/v1/spaces/bare/sessions", **sent).json()["cards"]
        assert "Ghent" in card["fact"]
        session = f"/v1/spaces/bare/sessions/{card['session_id']}"
        for body in ("I own a kite.", [{"role": "user", "content": "I own a sled."}]):
            assert client.post(f"{session}/turns", json=body).is_success
        assert [turn["text"] for turn in client.get(session).json()["turns"]] == [
            "I moved to Ghent.",
            "I own a kite.",
            "I own a sled.",
        ]
        for wrong in (" ", 7, None, {"text": "I moved to Ghent."}):
            assert client.post("/v1/spaces/bare/sessions", json=wrong).status_code == 422


def test_turns_are_appended_with_the_arguments_of_the_library(server: Running) -> None:
    said = {"role": "user", "text": "I own a kite."}
    given = {"messages": [said], "labels": {"topic": "toys"}, "at": "2024-05-20T20:00"}
    with server.owner() as client:
        client.post("/v1/spaces/toys/sessions/s1/turns", json=given)
        session = client.get("/v1/spaces/toys/sessions/s1").json()
        assert (session["labels"], session["at"]) == (given["labels"], "2024-05-20T20:00:00")
        for wrong in ({}, {**given, "turns": [said]}, {**given, "id": "s2"}):
            refused = client.post("/v1/spaces/toys/sessions/s1/turns", json=wrong)
            assert refused.status_code == 422


def test_sessions_can_be_listed_page_by_page_and_read(ana: httpx.Client) -> None:
    page = ana.get("/v1/spaces/ana/sessions", params={"limit": 2}).json()
    assert [each["id"] for each in page] == ["run", "kyoto"]
    read = ana.get("/v1/spaces/ana/sessions/run").json()
    assert read["turns"][0]["text"] == RUN["turns"][0]["content"]
    assert ana.get("/v1/spaces/ana/sessions", params={"state": "failed"}).json() == []
    assert ana.get("/v1/spaces/ana/sessions/run/quarantined").json() == []


# ---------------------------------------------------------------- asking


def test_recall_gives_evidence_with_scores_and_candidates_on_request(ana: httpx.Client) -> None:
    found = ana.post("/v1/spaces/ana/recall", json=ASKED).json()
    assert any("1,450" in each["card"]["fact"] for each in found["chosen"])
    assert found["access"] == "LOOKUP"
    assert found["candidates"] == []
    more = ana.post("/v1/spaces/ana/recall", json={**ASKED, "candidates": True}).json()
    assert len(more["candidates"]) >= len(more["chosen"])
    assert "dense" in more["candidates"][0]["scores"]


@pytest.mark.parametrize("verb", ["recall", "ask"])
def test_a_question_can_come_with_a_plan(ana: httpx.Client, verb: str) -> None:
    given = {"rewrites": ["bought a bike"], "period": "2024-05", "entities": ["knee"]}
    found = ana.post(f"/v1/spaces/ana/{verb}", json={**ASKED, "plan": given}).json()
    made = found.get("evidence", found)["plan"]
    assert (made["rewrites"], made["entities"]) == (["bought a bike"], ["knee"])
    assert made["period"]["text"] == "2024-05"
    assert made["spans_sessions"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"rewrites": ["a", "b", "c"]}, "rewrites cannot be 3 texts. Other searches .*up to two"),
        ({"period": "May"}, "period cannot be 'May'. .*2023-05"),
        ({"rewrite": "a"}, "no part 'rewrite'. Its parts are rewrites"),
        ("COMPOSE", "A plan must be a Plan or a mapping"),
    ],
)
def test_a_plan_that_cannot_be_used_is_a_problem_that_names_the_part(
    ana: httpx.Client, given: Any, why: str
) -> None:
    asked = {**ASKED, "plan": given}
    answer = ana.post("/v1/spaces/ana/ask", json=asked)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == PROBLEM
    assert re.search(why, answer.json()["detail"])


def test_an_answer_cites_the_exact_words(ana: httpx.Client) -> None:
    answer = ana.post("/v1/spaces/ana/ask", json=ASKED).json()
    assert "1,450" in answer["text"]
    quoted = answer["citations"][0]
    session = ana.get(f"/v1/spaces/ana/sessions/{quoted['session_id']}").json()
    said = session["turns"][quoted["turn"] - 1]["text"]
    assert said[quoted["start"] : quoted["end"]] == quoted["quote"]


# ---------------------------------------------------------------- looking and forgetting


def test_cards_can_be_filtered_and_lead_to_their_source(ana: httpx.Client) -> None:
    found = ana.get("/v1/spaces/ana/cards", params={"text": "gravel", "session": "bike"}).json()
    card = found[0]
    shown = ana.get(f"/v1/spaces/ana/cards/{card['id']}").json()
    assert shown["card"] == card
    quote_of = shown["source"]["citations"][0]
    turns = dict(shown["source"]["turns"])
    text = turns[quote_of["turn"]]["text"]
    assert text[quote_of["start"] : quote_of["end"]] == quote_of["quote"]
    assert ana.get("/v1/spaces/ana/cards/nosuch").status_code == 404


def test_cards_come_in_pages(ana: httpx.Client) -> None:
    whole = ana.get("/v1/spaces/ana/cards", params={"limit": 1000}).json()
    pages: list[Any] = []
    while page := ana.get("/v1/spaces/ana/cards", params={"limit": 2, "offset": len(pages)}).json():
        pages += page
    assert pages == whole


def test_forgetting_shows_first_what_would_go(server: Running) -> None:
    with server.client(server.key("gone")) as client:
        client.post("/v1/spaces/gone/sessions?wait=true", json=BIKE)
        preview = client.post("/v1/spaces/gone/forget", json={"session": "bike", "preview": True})
        would = preview.json()
        counts = {name: would["forgotten"][name] for name in ("cards", "sessions", "turns")}
        assert counts == {"cards": len(would["cards"]), "sessions": 1, "turns": 3}
        assert [record["id"] for record in would["sessions"]] == ["bike"]
        assert client.get("/v1/spaces/gone/sessions/bike").status_code == 200
        gone = client.post("/v1/spaces/gone/forget", json={"session": "bike"}).json()
        entry = gone["forgotten"].pop("entry")
        assert {**gone["forgotten"], "entry": None} == would["forgotten"]
        assert (entry["actor"].partition(":")[0], entry["verb"]) == ("key", "forget")
        assert client.get("/v1/spaces/gone/sessions/bike").status_code == 404
        assert client.get("/v1/spaces/gone/cards").json() == []


def test_a_turn_and_a_period_can_be_forgotten_with_proof(server: Running) -> None:
    with server.client(server.key("proof", right="admin")) as client:
        client.post("/v1/spaces/proof/sessions?wait=true", json=BIKE)
        client.post("/v1/spaces/proof/sessions?wait=true", json=RUN)
        asked = {"turn": "bike#1", "verify": True}
        gone = client.post("/v1/spaces/proof/forget", json=asked).json()["forgotten"]
        assert (gone["turns"], gone["certificate"]["remains"]) == (1, 0)
        assert not [name for name in gone["certificate"]["files"] if "/" in name]
        first = client.get("/v1/spaces/proof/sessions/bike").json()["turns"][0]
        assert (first["text"], first["forgotten"]) == ("", True)
        client.post("/v1/spaces/proof/sessions?wait=true", json=BIKE)
        assert client.get("/v1/spaces/proof/sessions/bike").json()["turns"][0] == first
        period = {"since": "2024-03-01", "until": "2024-03-31"}
        gone = client.post("/v1/spaces/proof/forget", json=period).json()["forgotten"]
        assert (gone["sessions"], gone["certificate"]) == (1, None)
        proof = client.delete("/v1/spaces/proof", params={"verify": True}).json()["certificate"]
        assert (proof["target"], proof["remains"]) == ("everything", 0)


def test_forget_takes_exactly_one_target(ana: httpx.Client) -> None:
    for wrong in ({}, {"card": "a", "session": "b"}, {"cards": "a"}, {"since": "soon"}):
        assert ana.post("/v1/spaces/ana/forget", json=wrong).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("DELETE", "spaces/ana?verfy=true", 422, "query.verfy: there is no such parameter."),
        ("POST", "spaces/ana/recall?space=team", 422, "query.space: there is no such parameter."),
        ("GET", "spaces/ana/sessions/bike?id=run", 422, "query.id: there is no such parameter."),
        ("GET", "spaces/ana/sessions?limit=0", 422, "query.limit: it should be greater than"),
        ("GET", "spaces/ana/cards?kind=bogus", 422, "query.kind: it should be 'fact', 'event'"),
        ("GET", "spaces/%ff", 422, "'%ff' is not UTF-8, percent-encoded."),
        ("GET", "spaces/ana/sessions/nope", 404, "There is no session 'nope'"),
        ("GET", "spaces/ana/sessions/nope/status", 404, "There is no session 'nope'"),
        ("GET", "spaces/ana/sessions/nope/quarantined", 404, "There is no session 'nope'"),
        ("POST", "spaces/ana/retry?session=nope", 404, "There is no session 'nope'"),
        ("POST", "spaces/ana/rebuild?session=nope", 404, "There is no session 'nope'"),
        ("GET", "nothing", 404, "There is nothing at this path."),
        ("POST", "embeddings", 404, "There is nothing at this path."),
        ("PUT", "spaces/ana", 405, "This path does not allow this method."),
    ],
)
def test_a_request_that_cannot_be_served_says_why(
    server: Running, ana: httpx.Client, method: str, path: str, status: int, says: str
) -> None:
    with server.owner() as owner:
        answer = raw(owner, server)(method, f"/v1/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert answer.json()["detail"].startswith(says)
    assert ana.get("/v1/spaces/ana").status_code == 200


def test_a_request_that_takes_no_body_refuses_one(server: Running) -> None:
    with server.owner() as owner:
        owner.post("/v1/spaces/bodiless/sessions?wait=true", json=BIKE)
        for method, path, body in (
            ("POST", "/retry", {"session": "zz"}),
            ("DELETE", "", {"verify": True}),
            ("GET", "/cards", {"limit": 1}),
        ):
            answer = owner.request(method, f"/v1/spaces/bodiless{path}", json=body)
            assert answer.status_code == 422
            assert answer.json()["detail"].startswith("body: this request takes none.")
        assert owner.post("/v1/spaces/bodiless/retry", json={}).json() == {"sessions": 0}
        assert owner.delete("/v1/spaces/bodiless").json()["sessions"] == 1


def test_a_space_can_be_erased_and_begun_again(server: Running) -> None:
    with server.client(server.key("old", right="admin")) as client:
        client.post("/v1/spaces/old/sessions?wait=true", json=BIKE)
        assert client.delete("/v1/spaces/old").json()["sessions"] == 1
        assert client.get("/v1/spaces/old").status_code == 404
        assert "old" not in client.get("/v1/spaces").json()
        assert not list(server.home.glob("old*"))
        client.post("/v1/spaces/old/sessions?wait=true", json=RUN)
        assert client.get("/v1/spaces/old").json()["sessions"] == {"stored": 1}


def test_a_space_erased_by_another_process_is_gone_here_too(server: Running) -> None:
    from justmem import open

    with server.client(server.key("shared")) as client:
        client.post("/v1/spaces/shared/sessions?wait=true", json=BIKE)
        with open(
            "shared", folder=server.home, embedder="justmem.testing:HashEmbedder", reranker="none"
        ) as memory:
            memory.forget(everything=True)
        assert client.post("/v1/spaces/shared/recall", json=ASKED).status_code == 404


def test_the_export_holds_every_session_with_its_words(ana: httpx.Client) -> None:
    head, *rest = map(json.loads, ana.get("/v1/spaces/ana/export").text.splitlines())
    assert (head["justmem"], head["space"]) == (2, "ana")
    assert len([each for each in rest if each["is"] == "session"]) == head["sessions"]
    assert "Bought a gravel bike" in str(rest)


# ---------------------------------------------------------------- names


NAMES = [
    "a/b",
    "../../etc/passwd",
    "..",
    ".",
    "%2e%2e",
    "x/cards",
    "C:\\windows",
    "ana.db",
    "na me",
    "日本語 🙂",
    "keys.json",
    "~root",
    "a;b?c#d&e=f",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_text_is_the_name_of_a_space_of_its_own(server: Running, name: str) -> None:
    path = f"/v1/spaces/{quote(name, safe='')}"
    before = {
        file for file in server.home.parent.rglob("*") if not file.is_relative_to(server.home)
    }
    with server.client(server.key(name, right="admin")) as client:
        # httpx would tidy up dots: the URL is sent as it is.
        send = raw(client, server)
        assert send("GET", path).status_code == 404
        assert send("POST", f"{path}/sessions?wait=true", json=BIKE).status_code == 200
        assert send("GET", path).json()["space"] == name
        assert send("GET", f"{path}/sessions/bike").json()["id"] == "bike"
        assert client.get("/v1/spaces").json() == [name]
        assert send("DELETE", path).status_code == 200
    after = {file for file in server.home.parent.rglob("*") if not file.is_relative_to(server.home)}
    assert after == before
    assert all(file.suffix in (".db", ".db-wal", ".db-shm", ".json") for file in files(server.home))


def raw(client: httpx.Client, server: Running) -> Any:
    def send(method: str, target: str, **options: Any) -> httpx.Response:
        url = httpx.URL(server.url)
        request = client.build_request(method, url, **options)
        request.extensions = {**request.extensions, "target": target.encode("ascii")}
        return client.send(request)

    return send


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


@pytest.mark.parametrize("name", ["%00", "%0a", "%20", "%ff", "a%2", "x" * 201])
def test_an_invalid_space_name_is_refused(server: Running, name: str) -> None:
    with server.owner() as client:
        answer = raw(client, server)("POST", f"/v1/spaces/{name}/sessions", json=BIKE)
        assert answer.status_code in (202, 422)
        if name != "a%2":  # which is just the text it looks like
            assert answer.status_code == 422
            assert answer.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(
    "target",
    ["/../keys.json", "/%2e%2e/keys.json", "/..%2fkeys.json", "/inspector/../http.py", "/%2fetc/"],
)
def test_pages_are_served_from_their_folder_alone(server: Running, target: str) -> None:
    with server.client(None) as client:
        assert raw(client, server)("GET", target).status_code == 404


# ---------------------------------------------------------------- running it


def test_the_pages_and_the_description_need_no_key(server: Running) -> None:
    with server.client(None) as client:
        assert "JustMem" in client.get("/").text
        assert client.get("/health/live").json() == {"status": "alive"}
        described = client.get("/openapi.json").json()
        assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        bodies = [
            operation["requestBody"]["content"]["application/json"]["schema"]
            for operations in described["paths"].values()
            for operation in operations.values()
            if "requestBody" in operation
        ]
        for body in bodies:
            if "$ref" in body:  # the bodies of chats are described in place
                body = described["components"]["schemas"][body["$ref"].rpartition("/")[2]]
            assert body["examples"], body


def test_metrics_can_be_read_by_prometheus(server: Running, ana: httpx.Client) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    ana.post("/v1/spaces/ana/recall", json=ASKED)
    with server.owner() as owner:
        answer = owner.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {each.name: each for each in text_string_to_metric_families(answer.text)}
    assert {"justmem_sessions_waiting", "justmem_sessions_working"} <= set(families)
    requests = families["justmem_http_requests"].samples
    assert any(s.labels["route"] == "/v1/spaces/{space}/recall" for s in requests)
    stages = {s.labels["stage"] for s in families["justmem_stage_seconds"].samples}
    assert {"plan", "discover", "select", "extract"} <= stages
    assert "ana" not in answer.text


def test_metrics_are_for_the_owner_alone(server: Running) -> None:
    for key in (server.key("ana", right="admin"), server.key("*")):
        with server.client(key) as client:
            assert client.get("/metrics").status_code == 403


def test_the_log_holds_no_words_and_no_names(server: Running) -> None:
    with server.client(server.key("secret-name")) as client:
        said = {**BIKE, "id": "tell-nobody"}
        client.post("/v1/spaces/secret-name/sessions?wait=true", json=said)
        client.get("/v1/spaces/secret-name/cards", params={"text": "gravel"})
        client.get("/v1/spaces/secret-name/sessions/tell-nobody")
    with server.client("jm_wrong_token") as client:
        client.get("/v1/spaces")
    for word in ("secret-name", "gravel", "tell-nobody", "jm_", "token"):
        assert word not in server.log


def test_responses_have_security_headers(server: Running) -> None:
    with server.client(None) as client:
        for path in ("/", "/v1/spaces", "/health/live", "/nothing"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers
            assert "access-control-allow-origin" not in headers


# ---------------------------------------------------------------- yours to see and take


def test_the_log_names_the_key_and_only_an_administrator_sees_it(server: Running) -> None:
    with server.client(server.key("seen", name="phone")) as client:
        client.post("/v1/spaces/seen/sessions?wait=true", json=BIKE)
        client.post("/v1/spaces/seen/ask", json=ASKED)
        client.get("/v1/spaces/seen/about?subject=bike")
        client.get("/v1/spaces/seen/sessions/bike")
        assert client.get("/v1/spaces/seen/log").status_code == 403
    with server.client(server.key("seen", right="admin", name="auditor")) as admin:
        entries = admin.get("/v1/spaces/seen/log").json()
        assert [f"{entry['actor']} {entry['verb']}" for entry in entries] == [
            "key:phone keep",
            "key:phone settle",
        ]
        assert len(admin.get("/v1/spaces/seen/log?of=bike&limit=2").json()) == 2
        checked = admin.get("/v1/spaces/seen/log/check").json()
        assert (checked["whole"], checked["entries"]) == (True, 2)
        cut = admin.get("/v1/spaces/seen/log/check?last=abc").json()
        assert (cut["whole"], "abc" in cut["problem"]) == (False, True)


def test_everything_on_a_subject_is_paged(ana: httpx.Client) -> None:
    first = ana.get("/v1/spaces/ana/about?subject=bike&limit=1").json()
    assert first["turns"] >= len(first["said"]) == 1
    assert "bike" in first["said"][0]["quote"]
    assert ana.get("/v1/spaces/ana/about?subject=%20").status_code == 422
    assert ana.get("/v1/spaces/ana/about").status_code == 422


def test_a_session_may_be_messages_or_a_bare_list(server: Running) -> None:
    said = [{"role": "user", "content": "I have a parrot called Kiwi.", "refusal": None}]
    with server.owner() as client:
        for name, body in (("messages", {"messages": said}), ("list", said)):
            done = client.post(f"/v1/spaces/{name}/sessions?wait=true", json=body)
            assert done.status_code == 200, done.text
            assert "Kiwi" in done.json()["cards"][0]["fact"]
        wrong = client.post("/v1/spaces/wrong/sessions", json=[{"role": "bird", "text": "Tweet"}])
        assert wrong.json()["detail"].startswith("Turn 1: the role 'bird' is unknown")
