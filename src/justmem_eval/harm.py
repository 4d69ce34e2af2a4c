"""What memory adds to turns that need none: greetings, arithmetic, general knowledge.

An assistant that recalls before every turn pays for each of these too, and whatever is recalled
can only mislead it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import files

from justmem.domain import Value
from justmem_eval.benchmarks import History, Question
from justmem_eval.metrics import Figure, mean, percent
from justmem_eval.systems.types import System


class Harm(Value):
    nothing: Figure  # percent of the turns for which nothing is recalled
    tokens: Figure  # added to a turn, on average over all of them
    recalled: tuple[str, ...]  # turns for which something is recalled, in any history


def turns() -> list[str]:
    text = files("justmem_eval").joinpath("data", "no_memory.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]


async def measure(system: System, histories: Sequence[History]) -> Harm:
    added: list[tuple[str, int]] = []
    for history in histories:
        at = max(session.at for session in history.sessions) + timedelta(days=1)
        await system.build(history)
        async with system.opened(history) as opened:
            for number, text in enumerate(turns()):
                question = Question(id=f"{history.id}/harm-{number}", text=text, at=at)
                row = (await opened.retrieve(question)).row
                read = row.slots or row.read or row.sources
                added.append((text, row.evidence_tokens if read else 0))
    return Harm(
        nothing=percent(tokens == 0 for _, tokens in added),
        tokens=mean(tokens for _, tokens in added),
        recalled=tuple(dict.fromkeys(text for text, tokens in added if tokens)),
    )


def shown(harm: Harm) -> str:
    lines = [
        f"turns that need no memory: nothing recalled {harm.nothing}   tokens added {harm.tokens}",
        *(f"  something is recalled for: {text}" for text in harm.recalled),
    ]
    return "\n".join(lines)
