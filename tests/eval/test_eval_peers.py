"""Other systems by their own code: the protocol, the meter, and what goes wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from eval_server import SPENT, SWITCHES

from justmem.testing import Served
from justmem_eval import runs
from justmem_eval.benchmarks import load
from justmem_eval.protocol import Files
from justmem_eval.results import figures
from justmem_eval.runs import Description
from justmem_eval.systems.alignment import NOWHERE, aligned
from justmem_eval.systems.peer import ADAPTERS, NAMES


def described(data: Path, url: str, **fields: Any) -> Description:
    given = {
        "data": data,
        "benchmark": "locomo",
        "system": "template",
        "model": f"openai:small@{url}",
        "judge": f"openai:small@{url}",
        "switches": SWITCHES,
        "runs": 1,
        "planted": 2,
        "python": sys.executable,
        "adapter": ADAPTERS / "template.py",
        **fields,
    }
    return Description(**given)


async def run(given: Description, folder: Path) -> Any:
    prepared = runs.prepare(given)
    await runs.run(prepared, folder, folder.parent, lambda *_: None)
    return figures(folder, prepared.benchmark)


ASKING = """
    import urllib.request
    for _ in message["sessions"]:
        schema = {"json_schema": {"schema": {"properties": {}}}}
        said = [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
        body = {"model": "small", "messages": said, "response_format": schema}
        url = memory["settings"]["base_url"] + "/chat/completions"
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()
"""


def adapted(folder: Path, before: str, code: str) -> Path:
    """The template with more to do."""
    text = (ADAPTERS / "template.py").read_text().replace(before, code + before, 1)
    found = f"import sys\n\nsys.path.append({str(ADAPTERS)!r})\n"
    path = folder / "adapter.py"
    path.write_text(text.replace("from lines import", found + "from lines import", 1))
    return path


async def test_a_peer_runs_under_the_same_protocol(
    data: Path, tmp_path: Path, server: Served
) -> None:
    found = await run(described(data, server.url), tmp_path / "run")
    assert found.judged == 15
    assert found.errors == {}
    assert (found.turn.fraction.value or 0) > 50  # the template names its sources
    assert found.tokens.answering.value == SPENT  # by the plain reader


async def test_what_a_peer_spends_is_metered_at_the_server(
    data: Path, tmp_path: Path, server: Served
) -> None:
    """This one asks its model once for every session, as a memory system would."""
    adapter = adapted(tmp_path, "    notes = [", ASKING)
    found = await run(described(data, server.url, adapter=adapter), tmp_path / "run")
    assert found.tokens.construction.value == 4 * SPENT


async def test_a_peer_is_refused_what_could_pass_the_cap(
    data: Path, tmp_path: Path, server: Served
) -> None:
    adapter = adapted(tmp_path, "    notes = [", ASKING)
    given = described(data, server.url, adapter=adapter, cap=4_000)
    found = await run(given, tmp_path / "run")  # 4,096 tokens where a request sets no limit
    assert found.errors["memory"] == 1
    assert "429" in Files(tmp_path / "run").memory["conv-1"].error


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("import os; os._exit(3)", "The peer ended"),
        ("import time; time.sleep(60)", "did not finish"),
        ("raise ValueError('no such luck')", "no such luck"),
    ],
)
async def test_a_peer_that_fails_on_one_question_loses_that_question_alone(
    data: Path, tmp_path: Path, server: Served, deed: str, said: str
) -> None:
    failing = f"    if 'allergic to?' in message['question']['text']:\n        {deed}\n"
    adapter = adapted(tmp_path, "    wanted = words(", failing)
    found = await run(described(data, server.url, adapter=adapter, patience=5), tmp_path / "run")
    assert found.errors == {"evidence": 1, "predictions": 1, "verdicts": 1}
    assert found.judged == 14
    failed = [each for each in Files(tmp_path / "run").evidence.items() if each.error]
    assert said in failed[0].error


def test_text_without_a_source_is_aligned_to_the_turn_that_shares_most_words(data: Path) -> None:
    history = load("locomo", data).history("conv-1")
    assert aligned("Nora's grandfather ran a bakery in Ghent for forty years", history) == (
        "session_2",
        (6,),
    )
    assert aligned("Quantum chromodynamics", history) == NOWHERE
    assert aligned("", history) == NOWHERE


@pytest.mark.parametrize("name", NAMES)
def test_every_adapter_is_a_script_that_needs_nothing_of_ours(name: str) -> None:
    text = (ADAPTERS / f"{name}_adapter.py").read_text()
    compile(text, name, "exec")
    assert "justmem" not in text.replace("justmem-eval", "")


@pytest.mark.parametrize("name", NAMES)
async def test_a_peer_that_is_installed_gets_through_a_small_history(
    data: Path, tmp_path: Path, server: Served, name: str
) -> None:
    python = os.environ.get(f"JUSTMEM_PEER_{name.upper()}")
    if not python:
        pytest.skip(f"{name} is not installed: JUSTMEM_PEER_{name.upper()} names its Python")
    given = described(data, server.url, system=name, adapter=None, python=python, limit=3)
    found = await run(given, tmp_path / "run")
    assert "memory" not in found.errors
