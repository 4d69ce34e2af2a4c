"""append, note, correct and the like over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx
import pytest

import justmem
from justmem.domain import Session, Turn
from justmem.testing import HashEmbedder
from servers import Running, serve


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("living"), "") as running:
        yield running


@pytest.fixture
def ana(server: Running) -> Iterator[httpx.Client]:
    """A client with a space of its own."""
    global _number
    _number += 1
    space = f"ana{_number}"
    with server.client(server.key(space)) as client:
        client.base_url = client.base_url.join(f"/v1/spaces/{space}/")
        yield client


_number = 0


def test_turns_are_appended_once_and_found_by_the_next_question(ana: httpx.Client) -> None:
    turn = {"speaker": "Mira", "text": "I moved to Porto.", "key": "m1"}
    given = {"turns": [turn], "at": "2024-05-01"}
    kept = ana.post("sessions/chat/turns", json=given)
    assert (kept.status_code, kept.json()["session_id"]) == (202, "chat")
    found = ana.post("recall", json={"question": "Where did Mira move?"}).json()
    assert "Porto" in found["cards"][0]["fact"]
    more = {"turns": [turn, {"speaker": "Mira", "text": "I play the accordion.", "key": "m2"}]}
    done = ana.post("sessions/chat/turns", params={"wait": True}, json=more).json()
    assert [card["turns"] for card in done["cards"]] == [[1], [2]]
    assert ana.post("sessions/chat/turns", params={"wait": True}, json=more).json()["unchanged"]


def test_recall_gives_a_block_for_a_prompt(ana: httpx.Client) -> None:
    given = {"turns": [{"speaker": "Mira", "text": "I moved to Porto."}], "at": "2024-05-01"}
    ana.post("sessions/chat/turns", params={"wait": True}, json=given)
    asked = {"question": "Where did Mira move?", "at": "2024-06-01", "prompt": 300}
    prompt = ana.post("recall", json=asked).json()["prompt"]
    assert "Today is Saturday 2024-06-01." in prompt
    assert "2024-05-01 [chat]\n#1 Mira: I moved to Porto." in prompt


def test_several_spaces_are_recalled_in_one_ranking(server: Running) -> None:
    for space, text in (("a1", "I own a red boat."), ("b1", "The boat club has 900 euros.")):
        with server.client(server.key(space)) as client:
            given = {"turns": [{"speaker": "Mira", "text": text}], "at": "2024-05-01"}
            client.post(f"/v1/spaces/{space}/sessions/c/turns?wait=true", json=given)
    asked = {"question": "How much has the boat club?", "spaces": ["a1", "b1"], "prompt": 300}
    with server.client(server.key("*")) as client:
        found = client.post("/v1/recall", json=asked).json()
    assert [one["space"] for one in found["cards"]] == ["b1", "a1"]
    assert "b1: 2024-05-01 Mira: The boat club" in found["prompt"]
    with server.client(server.key("a1")) as client:
        assert client.post("/v1/recall", json=asked).status_code == 404


def test_notes_over_http(ana: httpx.Client) -> None:
    given = {
        "text": "Ana is allergic to walnuts.",
        "value": {"nut": ["walnut"]},
        "at": "2024-05-01",
    }
    card = ana.put("notes/food%2Fallergy", json={**given, "labels": {"topic": "food"}}).json()
    assert (card["fact"], card["kind"]) == (given["text"], "note")
    read = ana.get("notes/food%2Fallergy").json()
    assert (json.loads(read["value_json"]), read["key"]) == (given["value"], "food/allergy")
    exact = '{"b": 1e3,  "a": 1.0}'
    ana.put("notes/exact", json={"text": "Exact.", "value_json": exact})
    assert ana.get("notes/exact").json()["value_json"] == exact
    listed = ana.get("notes", params={"prefix": "food/"}).json()
    assert [each["key"] for each in listed] == ["food/allergy"]
    asked = {"question": "What is Ana allergic to?", "labels": {"topic": "food"}, "limit": 1}
    found = ana.post("recall", json=asked).json()
    assert [each["id"] for each in found["cards"]] == [card["id"]]
    assert ana.get("sessions").json() == []
    assert ana.post("forget", json={"key": "exact"}).json()["forgotten"]["cards"] == 1
    for wrong, status in (
        (ana.get("notes/exact"), 404),
        (ana.post("forget", json={"key": "exact"}), 404),
        (ana.post("forget", json={"subject": "Nobody"}), 404),
        (ana.post("forget", json={"until": "1999-01-01", "preview": True}), 404),
        (ana.put("notes/k", json={"text": "Late.", "until": "2020-01-01"}), 422),
        (ana.post("recall", json={**asked, "labels": {"topic": "x"}}), 404),
        (ana.post("recall", json={**asked, "sessions": ["x"]}), 404),
    ):
        assert wrong.status_code == status, wrong.text
        assert wrong.json()["detail"]


def test_history_and_profile_over_http(ana: httpx.Client) -> None:
    for day, text in (("2023-01-10", "I live in Graz."), ("2025-02-03", "I live in Vienna.")):
        given = {"turns": [{"speaker": "Mira", "text": text}], "at": day}
        ana.post(f"sessions/{day}/turns", params={"wait": True}, json=given)
    found = ana.get("history", params={"subject": "Mira"}).json()
    assert [(one["since"], one["until"]) for one in found] == [
        ("2025-02-03", None),
        ("2023-01-10", "2025-02-03"),
    ]
    linked = ana.get("history", params={"card": found[0]["card"]["id"]}).json()
    assert linked == found
    assert "Vienna" in ana.get("profile").json()["text"]
    assert ana.get("profile", params={"subject": "Jonas"}).status_code == 404
    assert ana.get("history").status_code == 422


def test_a_filter_by_day_reads_the_day_of_each_turn(ana: httpx.Client) -> None:
    for day, town in (("2023-01-10", "Graz"), ("2025-02-03", "Vienna")):
        given = {"turns": [{"speaker": "Mira", "text": f"I live in {town}."}], "at": day}
        ana.post("sessions/chat/turns", params={"wait": True}, json=given)
    asked = {"question": "Where does Mira live?", "since": "2025-01-01", "at": "2025-03-01"}
    found = ana.post("recall", json=asked).json()
    assert [each["fact"] for each in found["cards"]] == ["said: I live in Vienna."]


def test_a_dumped_session_can_be_sent(ana: httpx.Client) -> None:
    turn = Turn(speaker="Mira", text="I moved to Porto.")
    dumped = Session(id="chat", at=datetime(2024, 5, 1), turns=(turn,)).model_dump(mode="json")
    assert dumped["until"] is None
    done = ana.post("sessions", params={"wait": True}, json=dumped)
    assert (done.status_code, len(done.json()["cards"])) == (200, 1)
    assert ana.post("sessions", json=dumped | {"until": "2030-01-01"}).status_code == 422


def test_a_card_is_corrected_pinned_and_undone(ana: httpx.Client) -> None:
    given = {"turns": [{"speaker": "Mira", "text": "I live in Graz."}], "at": "2024-05-01"}
    done = ana.post("sessions/home/turns", params={"wait": True}, json=given).json()
    (old,) = done["cards"]
    place = f"cards/{old['id']}"
    new = ana.patch(place, json={"fact": "lives in Vienna", "event_date": "2024-02"}).json()
    assert (new["fact"], new["event_date"]["text"]) == ("lives in Vienna", "2024-02")
    now = f"cards/{new['id']}"
    assert ana.put(f"{now}/pin").json() == new
    assert ana.delete(f"{now}/pin").json() == new
    for answer, status in (
        (ana.patch(place, json={"fact": "x"}), 404),  # it has another id now
        (ana.put("cards/c0/pin"), 404),
        (ana.delete("cards/c0/pin"), 404),
        (ana.post("cards/c0/undo"), 404),
        (ana.patch(now, json={}), 422),
        (ana.patch(now, json={"kind": "note"}), 422),
        (ana.patch(now, json={"event_date": "soon"}), 422),
    ):
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"]
    assert [ana.post(f"{now}/undo").json() for _ in range(3)] == [new, new, old]
    assert ana.get("cards").json() == [old]


def test_a_wrong_call_says_why_and_changes_nothing(ana: httpx.Client) -> None:
    said = [{"speaker": "Mira", "text": text} for text in ("I live in Graz.", "I own a hat.")]
    given = {"turns": said, "at": "2024-05-01"}
    done = ana.post("sessions/home/turns", params={"wait": True}, json=given).json()
    card, gone = (each["id"] for each in done["cards"])
    ana.post("forget", json={"card": gone})
    before = ana.get("cards").json()
    wrong = [
        (ana.patch(f"cards/{gone}", json={"fact": "x"}), 404, "may have been forgotten"),
        (ana.post(f"cards/{card}/undo"), 404, "never corrected"),
        (ana.put("notes/k", json={"text": "x", "value": "x" * 1_000_001}), 422, "1,000,000"),
        (ana.put("notes/k", json={"text": "x", "value_json": "[NaN]"}), 422, "JSON"),
        (ana.post("rebuild", params={"session": "x"}), 404, "'x'"),
        (ana.post("recall", json={"question": "Where?", "as_of": "soon"}), 422, "as_of"),
        (ana.get("history", params={"card": "c0"}), 404, "'c0'"),
        (ana.get("profile", params={"prose": True}), 422, "needs a language model"),
    ]
    for answer, status, says in wrong:
        assert answer.status_code == status, answer.text
        assert says in answer.text
    assert (ana.get("cards").json(), ana.get("notes").json()) == (before, [])


def test_of_two_corrections_at_once_one_is_told_to_try_again(ana: httpx.Client) -> None:
    given = {"turns": [{"speaker": "Mira", "text": "I live in Graz."}], "at": "2024-05-01"}
    done = ana.post("sessions/home/turns", params={"wait": True}, json=given).json()
    place = f"cards/{done['cards'][0]['id']}"
    with ThreadPoolExecutor(4) as threads:
        facts = [{"fact": f"lives in City {n}"} for n in range(4)]
        answers = list(threads.map(lambda fact: ana.patch(place, json=fact), facts))
    (made,) = [answer.json() for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} <= {200, 404, 409, 503}
    assert ana.get("cards").json() == [made]
    assert len(ana.get("corrections").json()) == 1


def test_what_is_acknowledged_is_found_by_another_process(server: Running) -> None:
    light = {"embedder": HashEmbedder(), "reranker": "none", "folder": server.home}
    with server.client(server.key("both")) as http:
        http.base_url = http.base_url.join("/v1/spaces/both/")
        given = {"turns": [{"speaker": "Mira", "text": "I moved to Porto."}], "at": "2024-05-01"}
        assert http.post("sessions/chat/turns", json=given).status_code == 202
        with justmem.open("both", **light) as memory:
            assert "Porto" in memory.recall("Where did Mira move?").cards[0].fact
            memory.note("Mira eats no nuts.", key="nuts")
            assert http.get("notes/nuts").json()["text"] == "Mira eats no nuts."
            memory.append([{"speaker": "Mira", "text": "I own a red boat."}], id="boat")
            (boat,) = memory.cards(session="boat")
            found = http.post("recall", json={"question": "What colour is Mira's boat?"}).json()
            assert boat.id in [card["id"] for card in found["cards"]]
            made = http.patch(f"cards/{boat.id}", json={"fact": "owns a blue boat"}).json()
            assert memory.card(made["id"]).fact == "owns a blue boat"
            assert http.post("forget", json={"key": "nuts"}).is_success
            assert memory.notes() == []
