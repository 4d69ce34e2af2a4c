"""What memory adds to turns that need none: greetings, arithmetic, general knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import files

from justmem.domain import Value
from justmem_eval.benchmarks import History, Question
from justmem_eval.metrics import Figure, mean, percent
from justmem_eval.systems import System


class Harm(Value):
    nothing: Figure  # percent of the turns for which nothing is recalled
    tokens: Figure  # added to a turn, on average over all of them
    recalled: tuple[str, ...]  # turns for which something is recalled, in any history

    def __str__(self) -> str:
        figures = f"nothing recalled {self.nothing}   tokens added {self.tokens}"
        lines = [f"  something is recalled for: {text}" for text in self.recalled]
        return "\n".join([f"turns that need no memory: {figures}", *lines])


def no_memory_turns() -> list[str]:
    text = files("justmem_eval").joinpath("data", "no_memory.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]


async def harm(system: System, histories: Sequence[History]) -> Harm:
    added: list[tuple[str, int]] = []
    for history in histories:
        at = max(session.at for session in history.sessions) + timedelta(days=1)
        async with system.opened(history) as opened:
            for number, text in enumerate(no_memory_turns()):
                question = Question(id=f"{history.id}/harm-{number}", text=text, at=at)
                found = await opened.retrieve(question)
                read = found.chosen or found.read or found.sources
                added.append((text, found.evidence_tokens if read else 0))
    return Harm(
        nothing=percent(tokens == 0 for _, tokens in added),
        tokens=mean(tokens for _, tokens in added),
        recalled=tuple(dict.fromkeys(text for text, tokens in added if tokens)),
    )
