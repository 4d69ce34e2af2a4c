"""Other systems by their own code: the protocol, the meter, and what goes wrong."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from eval_server import SPENT, played
from eval_server import described as settings

from justmem.domain import Session, Turn
from justmem_eval import runs, tables
from justmem_eval.benchmarks import Benchmark, Case, Gold, History, Question, load, recorded
from justmem_eval.cli.shared import show_run
from justmem_eval.loopback import Request, Respond, Served, serve_openai
from justmem_eval.records import Files, PeerCannotStart
from justmem_eval.results import Measured, measured, placed, with_words
from justmem_eval.settings import PeerSettings, Settings
from justmem_eval.systems.alignment import NOWHERE, Alignment
from justmem_eval.systems.peer import ADAPTERS, NAMES


def described(data: Path, url: str, **fields: Any) -> Settings:
    own = {"system": "template", "adapter": ADAPTERS / "template.py", "python": sys.executable}
    return settings(data, url, **{**own, **fields})


async def run(given: Settings, folder: Path) -> Measured:
    await runs.run(given, folder, folder.parent)
    return measured(folder, given.benchmark)


def shown_run(given: Settings, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    show_run(measured(folder, given.benchmark))
    return capsys.readouterr().out


DAY = datetime(2024, 3, 4)

ASKING = """
    import urllib.request
    from lines import settings
    for _ in sessions:
        schema = {"json_schema": {"schema": {"properties": {}}}}
        said = [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
        body = {"model": "small", "messages": said, "response_format": schema}
        url = settings["base_url"] + "/chat/completions"
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()
"""


def adapted(folder: Path, before: str, code: str) -> Path:
    """The template with more to do, in a folder without `lines.py`."""
    text = (ADAPTERS / "template.py").read_text()
    assert before in text
    path = folder / "adapter.py"
    path.write_text(text.replace(before, code + before, 1))
    return path


async def test_a_peer_runs_under_the_same_protocol_and_is_metered(
    data: Path, tmp_path: Path, server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """This one asks its model once for every session, as a memory system would."""
    adapter = adapted(tmp_path, "    notes = [", ASKING)
    given = described(data, server.url, adapter=adapter)
    found = await run(given, tmp_path / "run")
    assert found["accuracy"].n == 15
    assert found.errors == {}
    assert (found["turn.read.fraction"].value or 0) > 50  # the template names its sources
    assert found["tokens.answering"].value == SPENT  # by the plain reader
    assert found["tokens.construction"].value == 4 * SPENT
    said = shown_run(given, tmp_path / "run", capsys)  # each recall with what it counts
    headings, _, row = (
        line.split() for line in said.split("What recall counts")[1].splitlines()[2:5]
    )
    assert "Turn@10" in headings
    assert row.count("10.0") == 4  # cards and turns of the ten, and of everything read
    assert "Evidence tokens" in said
    assert "INCOMPLETE" not in said


async def test_the_peak_memory_of_a_peer_is_its_own(
    data: Path, tmp_path: Path, server: Served
) -> None:
    ours = b"x" * 200_000_000  # of the process that starts it
    found = await run(described(data, server.url, limit=1), tmp_path / "run")
    assert 1 < (found["process.peak_mb"].value or 0) < len(ours) / 2**20


async def test_histories_are_built_at_once_and_keep_their_own_counts(
    tmp_path: Path, server: Served
) -> None:
    """The adapter waits in `ingest` until the other history is being built too."""
    waiting = """
    import time
    from pathlib import Path
    Path(COMMON, folder.name).touch()
    for _ in range(200):
        if len(list(Path(COMMON).iterdir())) == 2:
            break
        time.sleep(0.1)
    else:
        raise TimeoutError("no other history is being built")
"""
    common = tmp_path / "common"
    common.mkdir()
    code = ASKING + waiting.replace("COMMON", repr(str(common)))
    adapter = adapted(tmp_path, "    notes = [", code)
    said = [Session(id=f"s{n}", at=DAY, turns=(Turn(speaker="N", text="Hi"),)) for n in range(3)]
    histories = {"short": History("short", said[:1]), "long": History("long", said)}
    asked = [
        Case(Question(id=name, text="Who?", at=DAY), Gold(answer="", category=""), name)
        for name in histories
    ]
    bench = Benchmark("two", asked, histories.__getitem__)
    peer = PeerSettings(python=sys.executable, adapter=adapter)
    model = f"openai:small@{server.url}"
    given = Settings(benchmark=bench, data=tmp_path, model=model, runs=0, parallel=2, peer=peer)
    await runs.run(given, tmp_path / "run", tmp_path)
    built = Files(tmp_path / "run").memory
    assert [built[name].error for name in histories] == ["", ""]
    assert [built[name].tokens for name in histories] == [SPENT, 3 * SPENT]


async def test_a_peer_is_refused_what_could_pass_the_cap(
    data: Path, tmp_path: Path, server: Served
) -> None:
    adapter = adapted(tmp_path, "    notes = [", ASKING)
    given = described(data, server.url, adapter=adapter, cap=4_000, planted=0)
    found = await run(given, tmp_path / "run")  # 4,096 tokens where a request sets no limit
    assert found.errors["memory"] == 1
    assert "429" in Files(tmp_path / "run").memory["conv-1"].error


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("import os; os._exit(3)", "it ended"),
        ("import time; time.sleep(60)", "no sign of life"),
        ("raise ValueError('no such luck')", "no such luck"),
    ],
)
async def test_a_peer_that_fails_on_one_question_loses_that_question_alone(
    data: Path,
    tmp_path: Path,
    server: Served,
    deed: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing = f"    if 'allergic to?' in question['text']:\n        {deed}\n"
    adapter = adapted(tmp_path, "    wanted = words(", failing)
    given = described(data, server.url, adapter=adapter, patience=5)
    found = await run(given, tmp_path / "run")
    assert found.errors == {"evidence": 1, "predictions": 1, "verdicts": 2}
    assert found["accuracy"].n == 14
    failed = [each for each in Files(tmp_path / "run").evidence.items() if each.error]
    assert said in failed[0].error
    headline = shown_run(given, tmp_path / "run", capsys).splitlines()[0]
    assert "INCOMPLETE: 16 of 17 questions" in headline


async def test_a_memory_that_was_not_built_is_not_asked(
    data: Path, tmp_path: Path, server: Served
) -> None:
    adapter = adapted(tmp_path, "    notes = [", ASKING + "    raise ValueError('disk full')\n")
    found = await run(described(data, server.url, adapter=adapter), tmp_path / "run")
    assert found.errors["memory"] == 1
    assert found.errors["evidence"] == 17
    assert found["turn.read.fraction"].n == 0
    assert "no memory: " in Files(tmp_path / "run").evidence["conv-1/1"].error
    assert found["tokens.construction"].value == 4 * SPENT  # a failed build is paid for too


async def test_a_peer_is_killed_and_reopened_before_the_first_question(
    data: Path, tmp_path: Path, server: Served
) -> None:
    """This one keeps the memory it built in its process, and opens an empty one."""
    text = (ADAPTERS / "template.py").read_text()
    text = text.replace(
        '(folder / "notes.json").write_text(json.dumps(notes))', "kept.extend(notes)"
    )
    text = text.replace('json.loads((folder / "notes.json").read_text())', "kept")
    text = text.replace("def start()", "kept = []\n\n\ndef start()")
    adapter = tmp_path / "adapter.py"
    adapter.write_text(text)
    found = await run(described(data, server.url, adapter=adapter), tmp_path / "run")
    assert found["turn.read.fraction"].value == 0.0


async def test_a_peer_that_cannot_start_ends_the_run(
    data: Path, tmp_path: Path, server: Served
) -> None:
    started = tmp_path / "started"
    count = f"    open({str(started)!r}, 'a').write('x')\n    import no_such_package\n"
    adapter = adapted(tmp_path, '    """Optional: prepare', count)
    with pytest.raises(PeerCannotStart, match="no_such_package"):
        await run(described(data, server.url, adapter=adapter), tmp_path / "run")
    assert started.read_text() == "x"


async def test_a_peer_that_works_is_not_taken_for_hung(data: Path, tmp_path: Path) -> None:
    """Each of its calls takes a third of the patience, all of them together longer."""

    def slowly(request: Request) -> Respond:
        return Respond(played(request), delay=1.0)

    adapter = adapted(tmp_path, "    notes = [", ASKING)
    with serve_openai(slowly) as served:
        given = described(data, served.url, adapter=adapter, patience=3, limit=1, judge="rules")
        found = await run(given, tmp_path / "run")
    assert found.errors == {}


async def test_all_that_a_peer_shows_is_kept_and_the_first_ten_count_apart(
    data: Path, tmp_path: Path, server: Served
) -> None:
    """This one shows thirty pieces; the question is answered by one beyond the tenth."""
    adapter = adapted(tmp_path, "    evidence = best[", "    best.reverse()\n")
    adapter.write_text(adapter.read_text().replace("best[:k]", "best"))
    found = await run(described(data, server.url, adapter=adapter), tmp_path / "run")
    assert found["turn.read.fraction"].value == 100.0
    assert (found["turn.ten.fraction"].value or 0) < 50
    assert (found["costs.cards_read"].value or 0) > 20
    assert len(Files(tmp_path / "run").evidence.items()[0].chosen) > 20
    assert found["costs.turns_claimed"].value == found["costs.cards_read"].value  # one turn each


async def test_pieces_shown_together_with_others_are_read_but_not_among_the_ten(
    data: Path, tmp_path: Path, server: Served
) -> None:
    code = """    for note in memory:
        note["also"] = [dict(memory[0], also=[])]
"""
    adapter = adapted(tmp_path, "    wanted = words(", code)
    await run(described(data, server.url, adapter=adapter, limit=1), tmp_path / "run")
    row = Files(tmp_path / "run").evidence.items()[0]
    assert len(row.chosen) == 10
    assert [piece.place for piece in row.read].count(("session_1", (1,))) >= 10


async def test_sessions_that_a_peer_could_not_build_are_counted(
    data: Path, tmp_path: Path, server: Served
) -> None:
    failing = '    return ["session_2: no JSON"]\n\n\n'
    adapter = adapted(tmp_path, "\n\ndef open_memory", failing)
    found = await run(described(data, server.url, adapter=adapter), tmp_path / "run")
    assert found.errors == {"sessions": 1}
    assert found["accuracy"].n == 15


async def test_a_peer_gets_an_embedder_that_its_server_knows(
    data: Path, tmp_path: Path, server: Served
) -> None:
    kept = tmp_path / "settings.json"
    code = (
        "    from pathlib import Path\n"
        "    from lines import settings\n"
        f"    Path({str(kept)!r}).write_text(json.dumps(settings))\n"
    )
    adapter = adapted(tmp_path, '    """Optional: prepare', code)
    await run(described(data, server.url, adapter=adapter, limit=1), tmp_path / "run")
    settings = json.loads(kept.read_text())
    assert settings["embedder"] == "text-embedding-3-small"
    assert settings["dimensions"] == 1536
    pinned = json.loads((tmp_path / "run" / "run.json").read_text())
    assert pinned["peer"]["embedder"] == "text-embedding-3-small"
    assert "embedder" not in pinned["switches"]


# ---------------------------------------------------------------- what is shown of it


async def test_beside_a_peer_without_sources_ours_is_shown_under_the_same_rule(
    data: Path, tmp_path: Path, server: Served
) -> None:
    text = (ADAPTERS / "template.py").read_text()
    adapter = tmp_path / "adapter.py"
    adapter.write_text(text.replace(', "session": session["id"], "turns": [number]', ""))
    peer = await run(described(data, server.url, adapter=adapter), tmp_path / "peer")
    assert peer["costs.aligned"].value == 100.0
    given = settings(data, server.url, label="JustMem")
    ours = await run(given, tmp_path / "ours")
    ours = with_words(ours, tmp_path / "ours", given.benchmark)
    assert ours["by_words.costs.aligned"].value == 100.0
    given = settings(data, server.url, system="fulltext", label="FullText")  # chooses nothing
    whole = with_words(await run(given, tmp_path / "whole"), tmp_path / "whole", given.benchmark)
    titles = [row[1] for row in tables.recalls([whole, peer, ours]).rows]
    assert titles == ["FullText", "template", "JustMem", "JustMem, placed by words"]
    assert [row[1] for row in tables.recalls([ours]).rows] == ["JustMem"]


# ---------------------------------------------------------------- alignment


def history_of(*turns: tuple[str, str]) -> History:
    said = tuple(Turn(speaker=name, text=text) for name, text in turns)
    return History("h", [Session(id="s1", at=datetime(2024, 3, 4), turns=said)])


def test_text_without_a_source_is_aligned_to_the_turn_that_shares_most_words(data: Path) -> None:
    history = load("locomo", data).history("conv-1")
    assert Alignment(history).place("Nora's grandfather ran a bakery in Ghent for forty years") == (
        "session_2",
        (6,),
    )
    assert Alignment(history).place("Quantum chromodynamics") == NOWHERE
    assert Alignment(history).place("") == NOWHERE


def test_rare_words_decide_where_a_text_comes_from() -> None:
    often = [("Nora", "The shop will open in summer")] * 6
    history = history_of(*often, ("Ines", "A saxophone and a cello"))
    text = "A saxophone and a cello in the shop, open in summer"
    assert 7 in Alignment(history).place(text)[1]  # three common words against two rare ones


def test_the_speakers_name_counts_as_said() -> None:
    history = history_of(
        ("Nora", "I adopted a greyhound"),
        ("Tomas", "Lovely"),
        ("Ines", "No way"),
        ("Ines", "Really"),
        ("Ines", "Well well"),
        ("Tomas", "I adopted a greyhound"),
    )
    assert Alignment(history).place("Tomas adopted a greyhound") == ("s1", (6,))


def test_a_text_from_neighbouring_turns_is_placed_in_all_of_them() -> None:
    history = history_of(
        ("Nora", "Which instrument do you play in the orchestra?"),
        ("Tomas", "Mostly saxophone, since kindergarten."),
        ("Nora", "Nice weather today."),
        ("Nora", "Yes it is."),
        ("Nora", "Bye."),
        ("Tomas", "I never tried the saxophone case lock."),
    )
    text = "Tomas plays the saxophone in the orchestra since kindergarten"
    assert Alignment(history).place(text) == ("s1", (1, 2))


def test_a_known_session_is_kept_and_only_the_turn_is_looked_for(data: Path) -> None:
    history = load("locomo", data).history("conv-1")
    session, turns = Alignment(history).place("Biscuit and the bakery in Ghent", within="session_1")
    assert session == "session_1"
    assert turns


def test_the_rule_is_measured_on_cards_whose_source_is_known(data: Path) -> None:
    found = placed(load("locomo", data), recorded.read("locomo", data))
    assert found["right_turn"].n > 10
    assert 75 < (found["right_turn"].value or 0) <= (found["right_session"].value or 0)


# ---------------------------------------------------------------- shipped adapters


@pytest.mark.parametrize("name", NAMES)
def test_every_adapter_is_a_script_that_needs_nothing_of_ours(name: str) -> None:
    text = (ADAPTERS / f"{name}_adapter.py").read_text()
    compile(text, name, "exec")
    assert "justmem" not in text.replace("justmem-eval", "")
