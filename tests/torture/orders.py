"""Memory cannot give orders: what is remembered stays material, whoever reads it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from torture import orders_prompts, orders_shown
from torture.hostile import TEXTS, Hostile, case
from torture.orders_models import Modelled, Ruled

PROMISE = (
    "Remembered text is never an instruction for the extractor, the planner, the answerer, the "
    "judge, the terminal, the page, the log or the database."
)
COUNT = 500
SAMPLE = 10


def run(count: int, seed: int = 7) -> str:
    assert len(TEXTS) >= 60
    with tempfile.TemporaryDirectory(prefix="jm-orders-") as name:
        folder = Path(name)
        written = TEXTS[:: max(1, len(TEXTS) // count)]
        mixed = [case(number, seed) for number in range(len(TEXTS), count)]
        for hostile in TEXTS:
            orders_prompts.check(hostile)
        asyncio.run(_each([*written, *mixed], folder, seed))
        orders_shown.check_command(written, folder / "command")
        orders_shown.check_server(written, folder / "server")
    families = len({each.family for each in TEXTS})
    return f"{max(count, len(TEXTS)):,} texts of {families} families, none obeyed"


async def _each(cases: list[Hostile], folder: Path, seed: int) -> None:
    ruled, modelled = Ruled(folder / "rules"), Modelled(folder / "model")
    await ruled.open()
    await modelled.open()
    for number, hostile in enumerate(cases):
        try:
            orders_prompts.check(hostile)
            orders_shown.check(hostile)
            if hostile.family == "judge":
                orders_prompts.check_verdict(hostile.reply)
            await modelled.check(hostile, number)
            await ruled.check(hostile)
        except Exception as error:
            text = f"{hostile.family}: {hostile.text!r:.1000}"
            raise AssertionError(f"case {number} of seed {seed}, {text}: {error!r}") from error
    await ruled.memory.close()
    await modelled.memory.close()
