"""append, note, correct and the like as commands."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from cli_runs import Run


def test_turns_are_appended_once(run: Run) -> None:
    turns = json.dumps([{"speaker": "Mira", "text": "I moved to Porto.", "key": "m1"}])
    command = ("append", "chat", "--at", "2024-05-01", "--json")
    (first,) = run(*command, input=turns)["sessions"]
    assert (first["state"], first["unchanged"], len(first["cards"])) == ("stored", False, 1)
    (again,) = run(*command, input=turns)["sessions"]
    assert again["unchanged"]
    assert run("sessions", "--json")[0]["turns"] == 1


def test_append_takes_the_labels_of_a_session(run: Run) -> None:
    said = {"speaker": "Mira", "text": "I moved to Porto."}
    session = json.dumps({"turns": [said], "labels": {"topic": "home"}})
    run("append", "chat", "--at", "2024-05-01", input=session)
    assert run("show", "chat", "--json")["labels"] == {"topic": "home"}


def test_append_takes_one_conversation(run: Run) -> None:
    two = [{"id": n, "at": "2024-05-01", "turns": [{"role": "user", "text": f"{n}"}]} for n in "ab"]
    assert "2 conversations" in run("append", "chat", input=json.dumps(two), code=2).stderr


def test_recall_prints_a_block_for_a_prompt(run: Run) -> None:
    turns = json.dumps([{"speaker": "Mira", "text": "I moved to Porto."}])
    run("append", "chat", "--at", "2024-05-01", input=turns)
    command = ("recall", "Where did Mira move?", "--at", "2024-06-01", "--prompt", "300")
    assert "#1 Mira: I moved to Porto." in run(*command).stdout


def test_recall_reads_several_spaces(run: Run) -> None:
    for space, text in (("ana", "I own a red boat."), ("team", "The boat club has 900 euros.")):
        turns = json.dumps([{"speaker": "Mira", "text": text}])
        run("--space", space, "append", "c", "--at", "2024-05-01", input=turns)
    command = ("recall", "How much has the boat club?", "--space", "ana", "--also", "team")
    found = run(*command, "--json")
    assert [one["space"] for one in found["cards"]] == ["team", "ana"]
    assert "team" in run(*command).stdout
    assert "'nobody'" in run("recall", "How?", "--space", "ana", "--also", "nobody", code=8).stderr


def test_notes_as_commands(run: Run) -> None:
    card = run(
        *("note", "Mira is allergic to walnuts.", "--key", "allergy", "--value", '{"a":  1.0}'),
        *("--at", "2024-05-01", "--until", "2090-01-01", "--label", "topic=food", "--json"),
    )
    assert card["fact"] == "Mira is allergic to walnuts."
    assert run("show", "allergy", "--json")["value_json"] == '{"a":  1.0}'
    assert "walnuts" in run("show", "allergy").stdout
    assert "allergy" in run("notes").stdout
    assert "Note" not in run("cards").stdout
    assert [note["key"] for note in run("notes", "all", "--json")] == ["allergy"]
    asked = ("recall", "What is Mira allergic to?", "--at", "2024-06-01", "--json")
    assert len(run(*asked, "--label", "topic=food", "--limit", "1")["cards"]) == 1
    run(*asked[:-1], "--label", "topic=x", code=1)
    run(*asked[:-1], "--label", "topic", code=2)
    run("note", "Late.", "--until", "2020-01-01", code=2)
    offset = run("note", "Now.", "--until", "2090-01-01T12:00+05:00", "--json")["until"]
    assert datetime.fromisoformat(offset).astimezone(UTC) == datetime(2090, 1, 1, 7, tzinfo=UTC)
    run("note", "Soon.", "--until", "soon", code=2)
    run("forget", "--key", "allergy", "--yes")
    run("show", "allergy", code=1)


def test_history_and_profile_as_commands(run: Run) -> None:
    for day, text in (("2023-01-10", "I live in Graz."), ("2025-02-03", "I live in Vienna.")):
        turns = json.dumps([{"speaker": "Mira", "text": text}])
        run("append", day, "--at", day, input=turns)
    found = run("history", "Mira", "--json")
    assert [(one["since"], one["until"]) for one in found] == [
        ("2025-02-03", None),
        ("2023-01-10", "2025-02-03"),
    ]
    assert "Graz" in run("history", "--card", found[0]["card"]["id"]).stdout
    assert "Vienna" in run("profile").stdout
    assert run("profile", "Mira", "--at", "2024-01-01", "--json")["text"].count("Graz") == 1
    run("profile", "Jonas", code=1)
    run("history", code=2)


def test_a_card_is_corrected_pinned_and_undone(run: Run) -> None:
    turns = json.dumps([{"speaker": "Mira", "text": "I live in Graz."}])
    (done,) = run("append", "home", "--at", "2024-05-01", "--json", input=turns)["sessions"]
    (old,) = done["cards"]
    changes = ("--fact", "lives in Vienna", "--event-date", "2024-02", "--status", "ongoing")
    new = run("correct", old["id"], *changes, "--kind", "state", "--subject", "Mira M", "--json")
    assert (new["fact"], new["subject"]) == ("lives in Vienna", "Mira M")
    assert (new["status"], new["kind"]) == ("ongoing", "state")
    assert new["event_date"]["text"] == "2024-02"
    for command in ("pin", "unpin", "undo", "undo"):
        assert run(command, new["id"], "--json") == new
    (again,) = run("rebuild", "home", "--json")["sessions"]
    assert again["cards"] == run("cards", "--json") == [new]
    assert "Graz" in run("undo", new["id"]).stdout
    assert run("cards", "--json") == [old]


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (("correct", "c0", "--fact", "x"), 1, "no card 'c0'"),
        (("pin", "c0"), 1, "no card 'c0'"),
        (("unpin", "c0"), 1, "no card 'c0'"),
        (("undo", "c0"), 1, "no card 'c0'"),
        (("rebuild", "c0"), 1, "'c0'"),
        (("correct", "CARD"), 2, "Say what to correct"),
        (("correct", "CARD", "--kind", "note"), 2, "kind"),
        (("correct", "CARD", "--event-date", "soon"), 2, "event_date"),
        (("undo", "CARD"), 1, "never corrected"),
        (("correct", "GONE", "--fact", "x"), 1, "may have been forgotten"),
        (("append", ""), 2, "id of a session"),
        (("note", "x", "--key", "k", "--value", "[NaN]"), 2, "JSON"),
        (("note", "x", "--key", "k", "--value", f'"{"x" * 1_000_000}"'), 2, "Nothing was stored"),
        (("note", "x", "--key", "k", "--at", "2019-01-01", "--until", "2020-01-01"), 2, "past"),
        (("forget", "--key", "k", "--yes"), 1, "no note with the key"),
        (("profile", "--prose"), 2, "needs a language model"),
    ],
)
def test_a_wrong_correction_is_one_sentence(
    run: Run, command: tuple[str, ...], code: int, says: str
) -> None:
    said = [{"speaker": "Mira", "text": text} for text in ("I live in Graz.", "I own a hat.")]
    turns = json.dumps(said)
    run("append", "home", "--at", "2024-05-01", input=turns)
    card, gone = run("cards", "--json")
    run("forget", "--card", gone["id"], "--yes")
    ids = {"CARD": card["id"], "GONE": gone["id"]}
    named = [ids.get(word, word) for word in command]
    assert says in run(*named, input=turns, code=code).stderr
    assert run("cards", "--json") == [card]
