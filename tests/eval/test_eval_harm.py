"""What memory adds to turns that need none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from eval_server import SWITCHES
from typer.testing import CliRunner

from justmem_eval import harm
from justmem_eval.benchmarks import History, Question, load
from justmem_eval.cli.app import app
from justmem_eval.rows import Row, Slot
from justmem_eval.systems.plain import FullText
from justmem_eval.systems.types import Retrieved


class OnlyGreetings(FullText):
    """Recalls one card of 30 tokens when greeted, and nothing otherwise."""

    def __init__(self) -> None:
        super().__init__(None)

    @asynccontextmanager
    async def opened(self, history: History) -> AsyncIterator[OnlyGreetings]:  # type: ignore[override]
        yield self

    async def retrieve(self, question: Question) -> Retrieved:
        slots = (Slot(place=("s", (1,))),) if question.text == "Hello!" else ()
        row = Row(id=question.id, history="h", slots=slots, evidence_tokens=30)
        return Retrieved(id=question.id, row=row)


async def test_harm_counts_turns_and_tokens(data: Path) -> None:
    found = await harm.measure(OnlyGreetings(), [load("locomo", data).history("conv-1")])
    count = len(harm.turns())
    assert count >= 40
    assert found.nothing.value == 100 * (count - 1) / count
    assert found.tokens.value == 30 / count
    assert found.recalled == ("Hello!",)


def test_the_command_prints_and_stores_it(data: Path, tmp_path: Path) -> None:
    switches = [word for switch in SWITCHES for word in ("--set", switch)]
    command = ["harm", "--data", str(data), "--cache", str(tmp_path), *switches]
    result = CliRunner().invoke(app, [*command, "--json", str(tmp_path / "harm.json")])
    assert result.exit_code == 0, result.output
    assert "nothing recalled" in result.output
    stored = harm.Harm.model_validate_json((tmp_path / "harm.json").read_text())
    assert stored.nothing.n == len(harm.turns())
