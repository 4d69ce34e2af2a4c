"""The `justmem` command, as people and programs use it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from justmem import config
from justmem.cli import app
from justmem.cli.app import COMMANDS
from justmem.cli.context import EXIT_CODES, Exit
from justmem_eval.loopback import Respond, Served, chat_body, serve_openai
from replies import error_body

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
JUSTMEM = [sys.executable, "-c", "from justmem.cli import main; main()"]
ENVIRONMENT = {
    "JUSTMEM_EMBEDDER": "justmem.testing:HashEmbedder",
    "JUSTMEM_RERANKER": "none",
}
ANA = {
    "id": "ana-1",
    "at": "2024-05-20T14:30",
    "turns": [
        {"role": "user", "name": "Ana", "content": "I moved to Porto last week."},
        {"role": "assistant", "content": "How is the new flat?"},
        {"role": "user", "name": "Ana", "content": "My sister is called Ines."},
    ],
}

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """run("ask", "...") in a home of the test's own."""
    for name in [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"]:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)

    def run(*args: str, input: str | bytes | None = None) -> Any:
        return CliRunner().invoke(app, list(args), input=input)

    return run


@pytest.fixture
def ana(run: Run, tmp_path: Path) -> Path:
    """Ana's session, remembered."""
    file = written(tmp_path / "ana.json", ANA)
    assert run("remember", str(file)).exit_code == 0
    return file


@pytest.fixture
def refusing() -> Iterator[Served]:
    """A model server that takes no key."""
    with serve_openai(lambda _: Respond(error_body("Incorrect API key"), status=401)) as served:
        yield served


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def data(result: Any) -> Any:
    """What was printed with --json; stdout must hold nothing else."""
    return json.loads(result.stdout)


# ---------------------------------------------------------------- remember


def test_remember_reads_files_and_sums_up(run: Run, tmp_path: Path) -> None:
    result = run("remember", str(written(tmp_path / "ana.json", ANA)))

    assert result.exit_code == 0
    assert "ana-1" in result.stdout
    assert "1 session: 1 stored" in result.stdout


def test_remembering_again_costs_nothing_and_says_so(run: Run, ana: Path) -> None:
    again = data(run("remember", str(ana), "--json"))

    assert [each["unchanged"] for each in again["sessions"]] == [True]
    assert "known already" in run("remember", str(ana)).stdout


def test_exports_of_assistants_are_remembered(run: Run) -> None:
    result = run("remember", str(EXPORTS / "chatgpt.json"), str(EXPORTS / "claude.json"), "--json")

    assert result.exit_code == 0
    assert len(data(result)["sessions"]) == 6
    assert "2 blank conversations" in result.stderr
    assert data(result)["skipped"]["thought"] == 2


def test_standard_input_is_read(run: Run) -> None:
    messages = json.dumps([{"role": "user", "content": "I have a parrot called Kiwi."}])

    result = run("remember", "-", "--at", "now", "--json", input=messages)

    assert result.exit_code == 0
    assert data(result)["sessions"][0]["state"] == "stored"


def test_a_file_without_times_needs_one(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "chat.json", [{"role": "user", "content": "Hi, I am Bo."}])

    assert run("remember", str(file)).exit_code == 2
    assert run("remember", str(file), "--at", "tomorrowish").exit_code == 2
    assert run("remember", str(file), "--at", "2024-05-20").exit_code == 0


def test_one_unreadable_file_stops_all_before_anything_is_stored(run: Run, ana: Path) -> None:
    other = written(ana.with_name("b.json"), {**ANA, "id": "b"})
    wrong = written(ana.with_name("c.json"), "Dear diary")

    result = run("remember", str(other), str(wrong))

    assert result.exit_code == 2
    assert "c.json" in result.stderr
    assert [record["id"] for record in data(run("sessions", "--json"))] == ["ana-1"]


def test_a_broken_line_is_reported_and_the_rest_remembered(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", json.dumps(ANA) + '\n{"id": }\n')

    result = run("remember", str(file), "--json")

    assert result.exit_code == 5
    assert len(data(result)["sessions"]) == 1
    assert "line 2" in data(result)["problems"][0]


def test_failed_sessions_are_kept_and_retried(run: Run, tmp_path: Path, refusing: Served) -> None:
    file = written(tmp_path / "ana.json", ANA)
    model = f"openai:m@{refusing.url}"

    failed = run("--model", model, "remember", str(file), "--json")

    assert failed.exit_code == 5
    assert data(failed)["sessions"][0]["state"] == "failed"
    assert run("retry", "--json").exit_code == 0
    assert data(run("sessions", "--json"))[0]["state"] == "stored"


def test_add_remembers_a_text(run: Run) -> None:
    added = data(run("add", "My sister is called Ines.", "--speaker", "Ana", "--json"))

    assert added["state"] == "stored"
    assert "Ines" in run("add", "My brother is called Rui, Ines knows him.").stdout
    assert data(run("ask", "What is Ana's sister called?", "--json"))["sufficient"]
    assert (
        run("add", "-", "--at", "2024-05-20", input="I have a parrot called Kiwi.").exit_code == 0
    )
    assert data(run("cards", "Kiwi", "--json"))[0]["said_at"].startswith("2024-05-20")


def test_spaces_are_listed(run: Run, ana: Path) -> None:
    run("--space", "ben", "add", "I have a parrot called Kiwi.")

    assert data(run("spaces", "--json")) == ["ben", "default"]
    assert run("spaces").stdout.split() == ["ben", "default"]


# ---------------------------------------------------------------- ask and recall


def test_ask_answers_with_the_exact_words_and_a_receipt(run: Run, ana: Path) -> None:
    answer = data(run("ask", "Where did Ana move?", "--json"))

    assert "Porto" in answer["text"]
    assert answer["evidence"]["access"] == "LOOKUP"
    quoted = answer["citations"][0]
    text = ANA["turns"][quoted["turn"] - 1]["content"]  # type: ignore[index]
    assert text[quoted["start"] : quoted["end"]] == quoted["quote"]
    assert answer["receipt"]["tokens"] == 0
    assert answer["receipt"]["history_tokens"] > 0


def test_ask_shows_the_same_to_people(run: Run, ana: Path) -> None:
    result = run("ask", "Where did Ana move?")

    assert result.exit_code == 0
    for part in ("LOOKUP", "Porto", "session ana-1, turn 1", "the whole history is"):
        assert part in result.stdout


def test_ask_exits_with_1_when_it_is_not_in_memory(run: Run, ana: Path) -> None:
    result = run("ask", "Which instrument does Zebediah play?", "--json")

    assert result.exit_code == 1
    assert data(result)["sufficient"] is False


def test_a_question_asked_earlier_does_not_see_what_was_said_later(run: Run, ana: Path) -> None:
    assert run("ask", "Where did Ana move?", "--at", "2024-05-19").exit_code == 1
    assert run("ask", "Where did Ana move?", "--at", "2024-05-21").exit_code == 0


def test_recall_shows_the_evidence_without_answering(run: Run, ana: Path) -> None:
    found = data(run("recall", "Where did Ana move?", "--json"))

    assert "answer" not in found
    assert any("Porto" in card["fact"] for card in found["cards"])
    chosen = {place["card"]["id"] for place in found["chosen"]}
    assert chosen <= {card["id"] for card in found["cards"]}
    assert found["candidates"] == []
    assert "Porto" in run("recall", "Where did Ana move?").stdout


@pytest.mark.parametrize("command", ["ask", "recall"])
def test_a_question_can_be_planned_by_the_caller(run: Run, ana: Path, command: str) -> None:
    plan = {"rewrites": ["Ana lives in Porto"], "needs_source": True, "entities": ["Ana"]}
    found = data(run(command, "Where is home?", "--plan", json.dumps(plan), "--json"))
    made = found.get("evidence", found)["plan"]
    assert {name: made[name] for name in plan} == plan


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ('{"rewrites": ["a", "b", "c"]}', "up to two texts"),
        ('{"period": "May"}', "2023-05"),
        ('{"entities": [""]}', "entities"),
        ('["a"]', "Write an object"),
        ("{", "not JSON"),
    ],
)
def test_a_plan_that_cannot_be_used_is_an_input_error(
    run: Run, ana: Path, plan: str, why: str
) -> None:
    result = run("recall", "Where did Ana move?", "--plan", plan)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["ask", "recall"])
def test_an_empty_question_is_an_input_error(run: Run, ana: Path, command: str) -> None:
    result = run(command, "  ")

    assert result.exit_code == 2
    assert "question is empty" in result.stderr


def test_a_model_that_fails_exits_with_3(run: Run, ana: Path, refusing: Served) -> None:
    result = run("ask", "Where did Ana move?", "--model", f"openai:m@{refusing.url}")

    assert result.exit_code == 3
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1


# ---------------------------------------------------------------- looking


def test_cards_are_listed_and_filtered(run: Run, ana: Path) -> None:
    everything = data(run("cards", "--json"))

    assert any("Porto" in card["fact"] for card in everything)
    assert [c["fact"] for c in data(run("cards", "Porto", "--json"))] == [
        card["fact"] for card in everything if "Porto" in card["fact"]
    ]
    assert data(run("cards", "--session", "nobody", "--json")) == []
    assert len(data(run("cards", "--limit", "1", "--json"))) == 1
    assert "Porto" in run("cards").stdout


def test_an_unknown_kind_is_refused(run: Run, ana: Path) -> None:
    result = run("cards", "--kind", "rumour")

    assert result.exit_code == 2
    assert "preference" in result.stderr


def test_show_gives_a_card_its_turns_and_exact_words(run: Run, ana: Path) -> None:
    card = data(run("cards", "Porto", "--json"))[0]

    shown = data(run("show", card["id"], "--json"))

    assert shown["card"]["id"] == card["id"]
    assert "Porto" in shown["source"]["citations"][0]["quote"]
    assert "»I moved to Porto last week.«" in run("show", card["id"]).stdout


def test_show_gives_a_quote_its_turn(run: Run, ana: Path) -> None:
    shown = data(run("show", "ana-1#1", "--json"))

    assert shown["card"]["fact"] == "said: I moved to Porto last week."
    assert shown["source"]["citations"][0]["quote"] == "I moved to Porto last week."


def test_an_invalid_upstream_address_exits_with_2(run: Run) -> None:
    result = run("serve", "--upstream", "nowhere")

    assert result.exit_code == 2
    assert "not a server's address" in result.stderr


def test_show_gives_a_session_whole(run: Run, ana: Path) -> None:
    assert "How is the new flat?" in run("show", "ana-1").stdout
    assert len(data(run("show", "ana-1", "--json"))["turns"]) == 3


def test_showing_an_unknown_id_exits_with_1(run: Run, ana: Path) -> None:
    result = run("show", "c000000000000")

    assert result.exit_code == 1
    assert "justmem cards" in result.stderr


def test_sessions_and_stats_are_shown(run: Run, ana: Path) -> None:
    assert data(run("sessions", "--json"))[0]["turns"] == 3
    assert "ana-1" in run("sessions").stdout
    assert data(run("stats", "--json"))["turns"] == 3
    assert "hash-64" in run("stats").stdout


@pytest.mark.parametrize("command", [["ask", "Who?"], ["cards"], ["stats"], ["sessions"]])
def test_reading_does_not_make_a_space(
    run: Run, ana: Path, tmp_path: Path, command: list[str]
) -> None:
    result = run("--space", "nobody", *command)

    assert result.exit_code == 8
    assert "'nobody'" in result.stderr
    assert not list((tmp_path / "home").glob("nobody*"))


# ---------------------------------------------------------------- forgetting


def test_forget_a_card(run: Run, ana: Path) -> None:
    card = data(run("cards", "Porto", "--json"))[0]

    assert data(run("forget", "--card", card["id"], "--yes", "--json"))["cards"] == 1
    assert data(run("cards", "Porto", "--json")) == []


def test_forget_everything(run: Run, ana: Path) -> None:
    assert data(run("forget", "--everything", "--yes", "--json"))["sessions"] == 1
    assert run("ask", "Where did Ana move?").exit_code == 8


def test_a_preview_forgets_nothing(run: Run, ana: Path) -> None:
    shown = run("forget", "--turn", "ana-1#1", "--preview")
    assert "This would forget" in shown.stdout
    assert "ana-1#1" in shown.stdout
    counts = data(run("forget", "--until", "2100-01-01", "--preview", "--json"))["forgotten"]
    assert counts["sessions"] == len(data(run("sessions", "--json"))) == 1


def test_a_forgotten_turn_is_shown_as_such(run: Run, ana: Path) -> None:
    assert data(run("forget", "--turn", "ana-1#1", "--yes", "--json"))["turns"] == 1
    assert "(forgotten)" in run("show", "ana-1").stdout
    assert run("forget", "--turn", "ana-1#1", "--yes").exit_code == 1


def test_the_certificate_is_printed_and_in_the_json(run: Run, ana: Path) -> None:
    card = data(run("cards", "Porto", "--json"))[0]
    printed = run("forget", "--card", card["id"], "--verify", "--yes").stdout
    assert "remains    0" in printed
    proof = data(run("forget", "--session", "ana-1", "--verify", "--yes", "--json"))["certificate"]
    assert (proof["target"], proof["remains"]) == ("session ana-1", 0)


def test_leftovers_have_their_own_exit_code(run: Run, ana: Path, tmp_path: Path) -> None:
    (space,) = (tmp_path / "home").glob("*.db")
    space.with_name("copy of it").write_bytes(space.read_bytes())
    result = run("forget", "--session", "ana-1", "--verify", "--yes")
    assert result.exit_code == 6
    assert "copy of it" in result.stderr


def test_forgetting_asks_for_confirmation(run: Run, ana: Path) -> None:
    result = run("forget", "--session", "ana-1")

    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert len(data(run("sessions", "--json"))) == 1


@pytest.mark.parametrize(
    "what",
    [
        [],
        ["--everything", "--card", "c1"],
        ["--session", "ana-1", "--turns"],
        ["--session", "ana-1", "--preview", "--verify"],
    ],
)
def test_forget_needs_exactly_one_target(run: Run, ana: Path, what: list[str]) -> None:
    assert run("forget", *what, "--yes").exit_code == 2


def test_reembed_changes_the_embedder_of_a_space(
    run: Run, ana: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUSTMEM_EMBEDDER", f"{__name__}:wider")

    refused = run("ask", "Where did Ana move?")
    assert refused.exit_code == 4
    assert "justmem reembed" in refused.stderr
    assert data(run("reembed", "--json"))["embedded"] > 0
    assert run("ask", "Where did Ana move?").exit_code == 0


def wider() -> Any:
    from justmem.testing import HashEmbedder

    return HashEmbedder(128)


# ---------------------------------------------------------------- settings, errors, doctor


def test_global_options_may_stand_anywhere(run: Run, ana: Path) -> None:
    run("remember", str(ana), "--space", "other")

    assert data(run("stats", "--space=other", "--json"))["space"] == "other"
    assert data(run("--space", "other", "stats", "--json"))["space"] == "other"
    assert data(run("stats", "--json"))["space"] == "default"


def test_a_wrong_setting_is_one_line_and_exits_with_2(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "my.toml", 'modle = "rules"')

    result = run("stats", "--config", str(file))

    assert result.exit_code == 2
    assert "did you mean 'model'" in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_where_an_error_arose(run: Run) -> None:
    assert "Traceback" in run("--debug", "--model", "nonsense", "stats").stderr


BROKEN = """
class Broken:
    name, dim = "broken", 3

    async def embed(self, texts, *, query=False):
        raise {raised}
"""


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        ("KeyError('dim')", "KeyError: 'dim'"),
        ("RuntimeError('no such device')", "RuntimeError: no such device"),
        ("RecursionError('too deep')", "RecursionError: too deep"),
        ("MemoryError()", "MemoryError"),
        ("AssertionError()", "AssertionError"),
        ("UnicodeDecodeError('utf-8', b'x', 0, 1, 'invalid')", "UnicodeDecodeError"),
        ("ExceptionGroup('several', [ValueError(1)])", "ExceptionGroup: several"),
    ],
)
def test_an_unexpected_error_is_one_line_and_exits_with_9(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, shown: str
) -> None:
    name = f"broken_{shown.partition(':')[0].lower()}"
    written(tmp_path / f"{name}.py", BROKEN.format(raised=raised))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("JUSTMEM_EMBEDDER", f"{name}:Broken")

    result = run("add", "I keep bees.")

    assert result.exit_code == 9
    [line] = result.stderr.strip().splitlines()
    assert line.startswith(f"Error: {shown}")
    assert "--debug" in line
    assert "Traceback" in run("--debug", "add", "I keep bees.").stderr


def test_an_error_of_the_system_is_one_line_and_exits_with_2(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = "PermissionError(13, 'Permission denied', 'model.bin')"
    written(tmp_path / "broken_file.py", BROKEN.format(raised=raised))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("JUSTMEM_EMBEDDER", "broken_file:Broken")

    result = run("add", "I keep bees.")

    assert result.exit_code == 2
    assert result.stderr.strip() == "Error: model.bin: Permission denied."


def test_a_damaged_store_exits_with_4(run: Run, ana: Path, tmp_path: Path) -> None:
    next((tmp_path / "home").glob("default.db")).write_bytes(b"not a store" * 1000)
    for side in (tmp_path / "home").glob("default.db-*"):
        side.unlink()

    result = run("stats")

    assert result.exit_code == 4
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("args", [["fly"], ["ask"], ["cards", "--limit", "none"], ["--wings"]])
def test_wrong_usage_exits_with_2(run: Run, args: list[str]) -> None:
    assert run(*args).exit_code == 2


def checks(result: Any) -> dict[str, str]:
    return {check["what"]: check["state"] for check in data(result)}


def test_doctor_says_what_is_missing_and_the_fix(
    run: Run, ana: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUSTMEM_EMBEDDER", "onnx:bge-small-en-v1.5")
    monkeypatch.setenv("JUSTMEM_MODELS_FOLDER", str(tmp_path / "no-weights"))

    result = run("doctor", "--model", "openai:gpt-4.1-mini", "--offline", "--json")
    states = checks(result)

    assert result.exit_code == 2
    assert states["the model openai:gpt-4.1-mini cannot be used"] == "wrong"
    assert states["weights of bge-small-en-v1.5 are downloaded when first used"] == "note"
    assert any("opens" in what and state == "ok" for what, state in states.items())
    assert (
        "set the environment variable OPENAI_API_KEY"
        in run("doctor", "--model", "openai:gpt-4.1-mini", "--offline").stdout
    )


def test_doctor_never_prints_a_key(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusing: Served
) -> None:
    monkeypatch.setenv("JUSTMEM_API_KEY", "sk-very-secret")

    result = run("doctor", "--model", f"openai:m@{refusing.url}")

    assert result.exit_code == 2
    assert "cannot be used" in result.stdout
    assert "sk-very-secret" not in result.output


def test_doctor_tries_the_model(run: Run) -> None:
    with serve_openai(lambda _: chat_body({"ok": True})) as served:
        states = checks(run("doctor", "--model", f"openai:m@{served.url}", "--json"))

    assert states[f"the model openai:m@{served.url} answers"] == "ok"


def test_doctor_sees_a_folder_that_is_a_file(run: Run, tmp_path: Path) -> None:
    result = run("doctor", "--folder", str(written(tmp_path / "file", "x")), "--json")

    assert result.exit_code == 2
    assert any("is a file" in what for what in checks(result))


def test_models_are_listed(run: Run) -> None:
    names = [row["name"] for row in data(run("models", "list", "--json"))]

    assert "bge-small-en-v1.5" in names
    assert "ms-marco-MiniLM-L-12-v2" in run("models", "list").stdout


def test_a_model_that_does_not_exist_cannot_be_pulled(run: Run) -> None:
    assert run("models", "pull", "nobody").exit_code == 2


# ---------------------------------------------------------------- demo


def test_the_demo_shows_each_access_and_the_exact_words(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real local models, whatever else is set."""
    monkeypatch.setenv("JUSTMEM_MODEL", "openai:never-called@http://127.0.0.1:1/v1")
    history = json.loads(files("justmem.demo").joinpath("history.json").read_text("utf-8"))
    turns = {session["id"]: session["turns"] for session in history["sessions"]}

    answers = data(run("demo", "--json"))

    assert [answer["evidence"]["access"] for answer in answers] == ["LOOKUP", "COMPOSE", "REPLAY"]
    assert all(answer["sufficient"] and answer["citations"] for answer in answers)
    for cited in (cited for answer in answers for cited in answer["citations"]):
        turn = turns[cited["session_id"]][cited["turn"] - 1]
        assert cited["quote"] in turn.get("content", turn.get("text"))
    assert "Dr. Nunes" in answers[0]["text"]
    assert all(name in answers[1]["text"] for name in ("Lisbon", "Sintra", "Porto"))
    assert "Saihō-ji" in answers[2]["text"]


def test_the_demo_fits_80_columns_and_can_be_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("demo", "--keep")

    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert run("cards", "--space", "demo").exit_code == 0


# ---------------------------------------------------------------- the terminal

NASTY = (
    "My name is Mallory \x1b[2J\x1b]0;owned\x07\x9b31m[bold red]markup[/] "
    "\u202eback\u202c \x08 end."
)


@pytest.fixture
def mallory(run: Run, tmp_path: Path) -> str:
    session = {"id": "m", "at": "2024-05-20", "turns": [{"speaker": "Mal\x1blory", "text": NASTY}]}
    run("remember", str(written(tmp_path / "m.json", session)))
    return str(data(run("cards", "--json"))[0]["id"])


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_control_sequences_in_remembered_text_are_removed(
    run: Run, mallory: str, form: list[str]
) -> None:
    commands = [["cards"], ["show", mallory], ["show", "m"], ["recall", "Mallory?"], ["sessions"]]
    for command in [*commands, ["ask", "Who is Mallory?"]]:
        printed = run(*command, *form).output
        assert not set(printed) & set("\x1b\x07\x08\x9b\u202e"), command


def test_remembered_text_is_never_read_as_markup(run: Run, mallory: str) -> None:
    assert "[bold red]markup[/]" in run("show", "m").stdout


def test_json_keeps_every_character(run: Run, mallory: str) -> None:
    assert data(run("show", "m", "--json"))["turns"][0]["text"] == NASTY


def test_piped_output_is_not_wrapped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = "I have a parrot called Kiwi, and " + "it sings every morning " * 10 + "in the kitchen."
    run("add", text)
    session = data(run("sessions", "--json"))[0]["id"]

    assert text in run("show", session).stdout
    assert all(line == line.rstrip() for line in run("sessions").stdout.splitlines())


# ---------------------------------------------------------------- help


def test_the_help_lists_every_command_with_a_summary_of_its_help() -> None:
    commands: Any = typer.main.get_command(app)
    for group in COMMANDS.values():
        for name, (_, summary) in group.items():
            first_word = str(commands.get_command(None, name).help).split()[0]
            assert summary.startswith(first_word), name


def test_the_help_and_the_docs_name_every_exit_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for code in Exit:
        assert f"{code.value} " in EXIT_CODES
        assert f"| {code.value} |" in page


def test_the_help_imports_no_command() -> None:
    code = "import sys; from justmem.cli import app; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pydantic", "rich.console", "httpx", "asyncio", "justmem.memory"}
    assert not heavy & set(done.stdout.split())


# ---------------------------------------------------------------- true processes


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if k not in config.ENVIRONMENT and k != "NO_COLOR"}
    return {**clean, **ENVIRONMENT, "JUSTMEM_FOLDER": str(tmp_path / "home"), **more}


def test_the_command_works_as_a_process(tmp_path: Path) -> None:
    file = written(tmp_path / "ana.json", ANA)
    with file.open("rb") as stdin:
        done = subprocess.run(
            [*JUSTMEM, "remember", "-", "--json"],
            stdin=stdin,
            capture_output=True,
            env=environment(tmp_path),
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sessions"][0]["session_id"] == "ana-1"


def in_a_terminal(args: list[str], env: dict[str, str]) -> str:
    """What the command prints when a person looks at it."""
    mine, theirs = pty.openpty()
    with subprocess.Popen([*JUSTMEM, *args], stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        printed = b""
        try:
            while chunk := os.read(mine, 4096):
                printed += chunk
        except OSError:
            pass  # how a pseudo-terminal says that the other side is gone
        process.wait()
    os.close(mine)
    return printed.decode()


def test_colours_are_for_terminals_that_want_them(run: Run, ana: Path, tmp_path: Path) -> None:
    args = ["ask", "Where did Ana move?"]
    own = environment(tmp_path, TERM="xterm-256color")

    assert "36m" in in_a_terminal(args, own)
    assert "36m" not in in_a_terminal(args, {**own, "NO_COLOR": "1"})
    piped = subprocess.run([*JUSTMEM, *args], capture_output=True, env=own, check=True)
    assert b"\x1b" not in piped.stdout


# A shell that runs the tests in the background has them ignore interrupts, and whatever they
# start would inherit that.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from justmem.cli import main
main()
"""


def test_an_interrupted_run_keeps_what_was_said_and_exits_with_130(tmp_path: Path) -> None:
    file = written(tmp_path / "ana.json", ANA)
    with serve_openai(lambda _: Respond(chat_body({}), delay=60)) as served:
        env = environment(tmp_path, JUSTMEM_MODEL=f"openai:m@{served.url}")
        command = [sys.executable, "-c", INTERRUPTIBLE, "remember", str(file)]
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
            while not served.requests and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()

    assert process.returncode == 130
    assert "justmem retry" in said
    assert "Traceback" not in said
    looked = subprocess.run(
        [*JUSTMEM, "sessions", "--json"],
        capture_output=True,
        env=environment(tmp_path),
        check=True,
    )
    assert [record["state"] for record in json.loads(looked.stdout)] == ["pending"]
