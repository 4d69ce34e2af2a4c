"""The `justmem` command, as people and programs use it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_runs import ANA, ENVIRONMENT, Run, written

from justmem import config
from justmem.cli import app
from justmem.cli.app import COMMANDS
from justmem.cli.context import EXIT_CODES, Exit
from justmem_eval.loopback import Respond, Served, chat_body, serve_openai
from replies import error_body

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
JUSTMEM = [sys.executable, "-c", "from justmem.cli import main; main()"]


@pytest.fixture
def refusing() -> Iterator[Served]:
    """A model server that takes no key."""
    with serve_openai(lambda _: Respond(error_body("Incorrect API key"), status=401)) as served:
        yield served


# ---------------------------------------------------------------- what people see, and exit codes

# In Ana's space: arguments, exit code, a part of what is printed
SHOWN: list[tuple[list[str], int, str]] = [
    (["remember", "ana.json"], 0, "known already"),
    (["ask", "Where did Ana move?"], 0, "session ana-1, turn 1"),
    (["ask", "Where did Ana move?"], 0, "the whole history is"),
    (["ask", "Which instrument does Zebediah play?"], 1, "not in memory"),
    (["ask", "Where did Ana move?", "--at", "2024-05-19"], 1, "not in memory"),
    (["ask", "Where did Ana move?", "--at", "2024-05-21"], 0, "Porto"),
    (["recall", "Where did Ana move?"], 0, "Porto"),
    (["cards"], 0, "Porto"),
    (["cards", "--session", "nobody"], 0, "0 cards"),
    (["show", "ana-1"], 0, "How is the new flat?"),
    (["sessions"], 0, "ana-1"),
    (["stats"], 0, "hash-64"),
    (["spaces"], 0, "default"),
    (["models", "list"], 0, "ms-marco-MiniLM-L-12-v2"),
    (["forget", "--turn", "ana-1#1", "--preview"], 0, "This would forget"),
    (["show", "c000000000000"], 1, "justmem cards"),
    (["cards", "--kind", "rumour"], 2, "preference"),
    (["ask", "  "], 2, "question is empty"),
    (["recall", "  "], 2, "question is empty"),
    (["add", " "], 2, "The text is empty"),
    (["add", "--help"], 0, "TEXT"),
    (["recall", "Where?", "--plan", '{"rewrites": ["a", "b", "c"]}'], 2, "up to two texts"),
    (["recall", "Where?", "--plan", '{"period": "May"}'], 2, "2023-05"),
    (["recall", "Where?", "--plan", '["a"]'], 2, "Write an object"),
    (["recall", "Where?", "--plan", "{"], 2, "not JSON"),
    (["forget", "--session", "ana-1"], 2, "--yes"),
    (["forget", "--yes"], 2, "what to forget"),
    (["forget", "--subject", "Nobody", "--yes"], 1, "nothing about 'Nobody'"),
    (["forget", "--subject", "Nobody", "--preview"], 1, "nothing about 'Nobody'"),
    (["forget", "--until", "1999-01-01", "--yes"], 1, "in this period"),
    (["forget", "--everything", "--card", "c1", "--yes"], 2, "forget"),
    (["forget", "--session", "ana-1", "--turns", "--yes"], 2, "turns"),
    (["forget", "--session", "ana-1", "--preview", "--verify", "--yes"], 2, "--verify"),
    (["serve", "--upstream", "nowhere"], 2, "not a server's address"),
    (["models", "pull", "nobody"], 2, "bge-small-en-v1.5"),
    (["stats", "--config", "wrong.toml"], 2, "did you mean 'model'"),
    (["stats", "--folder", "ana.json"], 8, "no space 'default' in ana.json"),
    (["fly"], 2, "No such command"),
    (["ask"], 2, "Missing argument"),
    (["cards", "--limit", "none"], 2, "--limit"),
    (["--wings"], 2, "No such option"),
    (["--debug", "--model", "nonsense", "stats"], 2, "Traceback"),
    *((["--space", "nobody", *command], 8, "These spaces exist: default.")
      for command in (["ask", "Who?"], ["cards"], ["stats"], ["sessions"], ["check"])),
]  # fmt: skip


@pytest.mark.parametrize(("args", "code", "part"), SHOWN, ids=lambda value: str(value)[:60])
def test_a_command_prints_this_and_exits_so(
    run: Run, ana: Path, tmp_path: Path, args: list[str], code: int, part: str
) -> None:
    written(tmp_path / "wrong.toml", 'modle = "rules"')
    result = run(*args, code=code)
    assert part in " ".join(result.output.split())
    assert ("Traceback" in result.output) == ("--debug" in args)
    assert [file.name for file in (tmp_path / "home").glob("*.db")] == ["default.db"]


# ---------------------------------------------------------------- remember


def test_the_same_session_is_not_remembered_twice(run: Run, ana: Path) -> None:
    again = run("remember", str(ana), "--json")
    assert [each["unchanged"] for each in again["sessions"]] == [True]


def test_exports_of_assistants_are_remembered(run: Run) -> None:
    exports = [str(EXPORTS / "chatgpt.json"), str(EXPORTS / "claude.json")]
    found = run("remember", *exports, "--json")
    assert (len(found["sessions"]), found["skipped"]["thought"]) == (6, 2)
    assert "2 blank conversations" in run("remember", *exports).stderr


def test_files_without_times_need_one(run: Run, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "I have a parrot called Kiwi."}]
    file = str(written(tmp_path / "chat.json", messages))
    assert "--at now" in run("remember", file, code=2).stderr
    run("remember", file, "--at", "tomorrowish", code=2)
    run("remember", file, "--at", "2024-05-20")
    read = run("remember", "-", "--at", "now", "--json", input=json.dumps(messages))
    assert read["sessions"][0]["state"] == "stored"


def test_one_unreadable_file_stops_all_before_anything_is_stored(run: Run, ana: Path) -> None:
    other = written(ana.with_name("b.json"), {**ANA, "id": "b"})
    wrong = written(ana.with_name("c.json"), "Dear diary")
    assert "c.json" in run("remember", str(other), str(wrong), code=2).stderr
    assert [record["id"] for record in run("sessions", "--json")] == ["ana-1"]


def test_a_broken_line_is_reported_and_the_rest_remembered(run: Run, tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", json.dumps(ANA) + '\n{"id": }\n')
    found = run("remember", str(file), "--json", code=5)
    assert len(found["sessions"]) == 1
    assert "line 2" in found["problems"][0]


def test_failed_sessions_are_kept_and_retried(run: Run, tmp_path: Path, refusing: Served) -> None:
    model = f"openai:m@{refusing.url}"
    file = written(tmp_path / "ana.json", ANA)
    failed = run("--model", model, "remember", str(file), "--json", code=5)
    assert failed["sessions"][0]["state"] == "failed"
    run("retry")
    assert run("sessions", "--json")[0]["state"] == "stored"
    asked = run("ask", "Where did Ana move?", "--model", model, code=3)
    assert asked.stderr.startswith("Error: ")
    assert len(asked.stderr.strip().splitlines()) == 1


def test_add_remembers_a_text(run: Run) -> None:
    assert (
        run("add", "My sister is called Ines.", "--speaker", "Ana", "--json")["state"] == "stored"
    )
    assert run("ask", "What is Ana's sister called?", "--json")["sufficient"]
    run("--space", "ben", "add", "-", "--at", "2024-05-20", input="I have a parrot called Kiwi.")
    assert run("cards", "--space", "ben", "--json")[0]["said_at"].startswith("2024-05-20")
    assert run("spaces", "--json") == ["ben", "default"]
    assert run("spaces").stdout.split() == ["ben", "default"]


# ---------------------------------------------------------------- ask, recall, show


def test_an_answer_has_the_exact_words_and_a_receipt(run: Run, ana: Path) -> None:
    answer = run("ask", "Where did Ana move?", "--json")
    assert "Porto" in answer["text"]
    assert answer["evidence"]["access"] == "LOOKUP"
    quoted = answer["citations"][0]
    text = ANA["turns"][quoted["turn"] - 1]["content"]  # type: ignore[index]
    assert text[quoted["start"] : quoted["end"]] == quoted["quote"]
    assert answer["receipt"]["tokens"] == 0
    assert answer["receipt"]["history_tokens"] > 0
    found = run("recall", "Where did Ana move?", "--json")
    chosen = {place["card"]["id"] for place in found["chosen"]}
    assert chosen <= {card["id"] for card in found["cards"]}
    assert found["candidates"] == []


@pytest.mark.parametrize("command", ["ask", "recall"])
def test_a_question_can_be_planned_by_the_caller(run: Run, ana: Path, command: str) -> None:
    plan = {"rewrites": ["Ana lives in Porto"], "needs_source": True, "entities": ["Ana"]}
    found = run(command, "Where did Ana move?", "--plan", json.dumps(plan), "--json")
    made = found.get("evidence", found)["plan"]
    assert {name: made[name] for name in plan} == plan


def test_a_card_is_shown_in_its_source(run: Run, ana: Path) -> None:
    everything = run("cards", "--json")
    (card,) = run("cards", "Porto", "--json")
    assert card in everything
    assert len(run("cards", "--limit", "1", "--json")) == 1
    shown = run("show", card["id"], "--json")
    assert shown["card"]["id"] == card["id"]
    assert "Porto" in shown["source"]["citations"][0]["quote"]
    assert "»I moved to Porto last week.«" in run("show", card["id"]).stdout
    said = run("show", "ana-1#1", "--json")
    assert said["card"]["fact"] == "said: I moved to Porto last week."
    assert len(run("show", "ana-1", "--json")["turns"]) == 3


# ---------------------------------------------------------------- forgetting


def test_forgetting_is_counted_and_certified(run: Run, ana: Path) -> None:
    (card,) = run("cards", "Porto", "--json")
    assert "remains    0" in run("forget", "--card", card["id"], "--verify", "--yes").stdout
    assert run("cards", "Porto", "--json") == []
    assert run("forget", "--turn", "ana-1#1", "--yes", "--json")["turns"] == 1
    assert "(forgotten)" in run("show", "ana-1").stdout
    run("forget", "--turn", "ana-1#1", "--yes", code=1)
    preview = run("forget", "--until", "2100-01-01", "--preview", "--json")["forgotten"]
    assert preview["sessions"] == len(run("sessions", "--json")) == 1
    proof = run("forget", "--session", "ana-1", "--verify", "--yes", "--json")["certificate"]
    assert (proof["target"], proof["remains"]) == ("session ana-1", 0)
    run("forget", "--everything", "--yes")
    run("ask", "Where did Ana move?", code=8)


def test_leftovers_have_their_own_exit_code(run: Run, ana: Path, tmp_path: Path) -> None:
    (space,) = (tmp_path / "home").glob("*.db")
    space.with_name("copy of it").write_bytes(space.read_bytes())
    result = run("forget", "--session", "ana-1", "--verify", "--yes", code=6)
    assert "copy of it" in result.stderr


def test_reembed_changes_the_embedder_of_a_space(
    run: Run, ana: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUSTMEM_EMBEDDER", f"{__name__}:wider")
    assert "justmem reembed" in run("ask", "Where did Ana move?", code=4).stderr
    assert run("reembed", "--json")["embedded"] > 0
    run("ask", "Where did Ana move?")


def wider() -> Any:
    from justmem.testing import HashEmbedder

    return HashEmbedder(128)


# ---------------------------------------------------------------- errors


def test_global_options_may_stand_anywhere(run: Run, ana: Path) -> None:
    run("remember", str(ana), "--space", "other")
    assert run("stats", "--space=other", "--json")["space"] == "other"
    assert run("--json", "--space", "other", "stats")["space"] == "other"


BROKEN = """
class Broken:
    name, dim = "broken", 3

    async def embed(self, texts, *, query=False):
        raise {raised}
"""


@pytest.mark.parametrize(
    ("raised", "code", "shown"),
    [
        ("KeyError('dim')", 9, "KeyError: 'dim'"),
        ("RecursionError('too deep')", 9, "RecursionError: too deep"),
        ("AssertionError()", 9, "AssertionError"),
        ("ExceptionGroup('several', [ValueError(1)])", 9, "ExceptionGroup: several"),
        ("PermissionError(13, 'Permission denied', 'a.bin')", 2, "a.bin: Permission denied."),
    ],
)
def test_an_unexpected_error_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, code: int, shown: str
) -> None:
    name = f"broken_{raised.partition('(')[0].lower()}"
    written(tmp_path / f"{name}.py", BROKEN.format(raised=raised))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("JUSTMEM_EMBEDDER", f"{name}:Broken")
    [line] = run("add", "I keep bees.", code=code).stderr.strip().splitlines()
    assert line.startswith(f"Error: {shown}")
    assert "Traceback" in run("--debug", "add", "I keep bees.", code=code).stderr


def test_a_damaged_store_exits_with_4(run: Run, ana: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "default.db").write_bytes(b"not a store" * 1000)
    for side in (tmp_path / "home").glob("default.db-*"):
        side.unlink()
    assert len(run("stats", code=4).stderr.strip().splitlines()) == 1


# ---------------------------------------------------------------- doctor


def checks(found: Any) -> dict[str, str]:
    return {check["what"]: check["state"] for check in found}


def test_doctor_says_what_is_missing_and_the_fix(
    run: Run, ana: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUSTMEM_EMBEDDER", "onnx:bge-small-en-v1.5")
    monkeypatch.setenv("JUSTMEM_MODELS_FOLDER", str(tmp_path / "no-weights"))
    args = ["doctor", "--model", "openai:gpt-4.1-mini", "--offline"]
    states = checks(run(*args, "--json", code=2))
    assert states["the model openai:gpt-4.1-mini cannot be used"] == "wrong"
    assert states["weights of bge-small-en-v1.5 are downloaded when first used"] == "note"
    assert any("opens" in what and state == "ok" for what, state in states.items())
    assert "set the environment variable OPENAI_API_KEY" in run(*args, code=2).stdout


def test_doctor_tries_the_model_and_never_prints_a_key(
    run: Run, monkeypatch: pytest.MonkeyPatch, refusing: Served
) -> None:
    with serve_openai(lambda _: chat_body({"ok": True})) as served:
        states = checks(run("doctor", "--model", f"openai:m@{served.url}", "--json"))
    assert states[f"the model openai:m@{served.url} answers"] == "ok"
    monkeypatch.setenv("JUSTMEM_API_KEY", "sk-very-secret")
    result = run("doctor", "--model", f"openai:m@{refusing.url}", code=2)
    assert "cannot be used" in result.stdout
    assert "sk-very-secret" not in result.output


def test_doctor_sees_a_folder_that_is_a_file(run: Run, tmp_path: Path) -> None:
    found = run("doctor", "--folder", str(written(tmp_path / "file", "x")), "--json", code=2)
    assert any("is a file" in what for what in checks(found))


# ---------------------------------------------------------------- demo


def test_the_demo_shows_each_access_and_the_exact_words(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real local models, whatever else is set."""
    monkeypatch.setenv("JUSTMEM_MODEL", "openai:never-called@http://127.0.0.1:1/v1")
    history = json.loads(files("justmem.demo").joinpath("history.json").read_text("utf-8"))
    turns = {session["id"]: session["turns"] for session in history["sessions"]}

    answers = run("demo", "--json")

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
    assert max(map(len, run("demo", "--keep").stdout.splitlines())) <= 80
    run("cards", "--space", "demo")


# ---------------------------------------------------------------- the terminal

NASTY = (
    "My name is Mallory \x1b[2J\x1b]0;owned\x07\x9b31m[bold red]markup[/] "
    "\u202eback\u202c \x08 end."
)


def test_control_sequences_and_markup_in_remembered_text_do_nothing(
    run: Run, tmp_path: Path
) -> None:
    session = {"id": "m", "at": "2024-05-20", "turns": [{"speaker": "Mal\x1blory", "text": NASTY}]}
    run("remember", str(written(tmp_path / "m.json", session)))
    card = run("cards", "--json")[0]["id"]
    commands = [["cards"], ["show", card], ["show", "m"], ["recall", "Mallory?"], ["sessions"]]
    for command in [*commands, ["ask", "Who is Mallory?"]]:
        printed = run(*command).output + json.dumps(run(*command, "--json"), ensure_ascii=True)
        assert not set(printed) & set("\x1b\x07\x08\x9b\u202e"), command
    assert "[bold red]markup[/]" in run("show", "m").stdout
    assert run("show", "m", "--json")["turns"][0]["text"] == NASTY


def test_piped_output_is_not_wrapped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = "I have a parrot called Kiwi, and " + "it sings every morning " * 10 + "in the kitchen."
    run("add", text)
    assert text in run("show", run("sessions", "--json")[0]["id"]).stdout
    printed = run("cards").stdout.splitlines()
    assert text in printed[2]
    assert all(line == line.rstrip() for line in printed)


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


def test_the_command_works_as_a_process_and_a_pipe_may_close_early(tmp_path: Path) -> None:
    own = environment(tmp_path)
    turns = [{"role": "user", "content": f"I own boat number {n}."} for n in range(3000)]
    file = written(tmp_path / "ana.json", {**ANA, "turns": turns})
    with file.open("rb") as stdin:
        command = [*JUSTMEM, "remember", "-", "--json"]
        done = subprocess.run(command, stdin=stdin, capture_output=True, env=own, check=True)
    assert json.loads(done.stdout)["sessions"][0]["session_id"] == "ana-1"
    pipe = subprocess.PIPE
    with subprocess.Popen([*JUSTMEM, "export"], stdout=pipe, stderr=pipe, env=own) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


def in_a_terminal(args: list[str], env: dict[str, str], typed: bytes = b"", code: int = 0) -> str:
    """What the command prints when a person looks at it."""
    mine, theirs = pty.openpty()
    command = [*JUSTMEM, *args]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        os.write(mine, typed)
        printed = b""
        try:
            while chunk := os.read(mine, 4096):
                printed += chunk
        except OSError:
            pass  # how a pseudo-terminal says that the other side is gone
        assert process.wait() == code
    os.close(mine)
    return printed.decode()


def test_forgetting_asks_and_takes_no_for_an_answer(run: Run, ana: Path, tmp_path: Path) -> None:
    args = ["forget", "--session", "ana-1"]
    printed = in_a_terminal(args, environment(tmp_path), typed=b"n\n", code=130)
    assert "for good?" in printed
    assert "Nothing was forgotten." in printed
    assert len(run("sessions", "--json")) == 1
    in_a_terminal(args, environment(tmp_path), typed=b"y\n")
    assert run("sessions", "--json") == []


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
        [*JUSTMEM, "sessions", "--json"], capture_output=True, env=environment(tmp_path), check=True
    )
    assert [record["state"] for record in json.loads(looked.stdout)] == ["pending"]
