"""A model server that plays every part: extractor, planner, answerer and judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from justmem_eval.loopback import Request, chat_body
from justmem_eval.settings import PeerSettings, Settings, select

USAGE = (700, 150)  # tokens in and out that each reply reports: believable for each stage
SPENT = sum(USAGE)
SWITCHES = ("embedder=justmem.testing:HashEmbedder", "reranker=none")


def part(request: Request) -> str:
    """Which stage a request belongs to, by the shape it asks for."""
    schema = request.body["response_format"]["json_schema"]["schema"]["properties"]
    if "cards" in schema:
        return "extract"
    if "rewrites" in schema:
        return "plan"
    return "judge" if "verdict" in schema else "answer"


def played(request: Request) -> dict[str, Any]:
    """A model of little wit: a card of every turn, a plain plan, a fixed answer, and a judge
    that accepts answers about Biscuit."""
    said = request.body["messages"][1]["content"]
    replies: dict[str, Callable[[], Any]] = {
        "extract": lambda: {"cards": _cards(said)},
        "plan": lambda: {
            "operation": "lookup",
            "entities": [],
            "period": "",
            "spans_sessions": "bakery" in said,
            "needs_source": "you gave me" in said,
            "rewrites": ["people at the bakery"] if "bakery" in said else [],
        },
        "answer": lambda: {"answer": "Biscuit", "used": ["1"], "sufficient": True},
        "judge": lambda: {"verdict": "correct" if said.count("Biscuit") > 1 else "wrong"},
    }
    return chat_body(replies[part(request)](), usage=USAGE)


def _cards(said: str) -> list[str]:
    rows = []
    for line in said.splitlines():
        number, _, rest = line.partition(" ")
        speaker, colon, text = rest.partition(": ")
        if number.isdigit() and colon:
            rows.append(f"{speaker} | said: {text[:80]} | unknown | stable | fact | {number}")
    return rows


def described(data: Path, url: str = "", *, benchmark: str = "locomo", **fields: Any) -> Settings:
    """Settings of a small run. Model and judge are at `url`; without it, rules reply."""
    own = {"python", "adapter", "patience"}
    peer = PeerSettings(**{name: value for name, value in fields.items() if name in own})
    rest = {name: value for name, value in fields.items() if name not in own}
    models = dict.fromkeys(("model", "judge"), f"openai:small@{url}") if url else {}
    given = {"switches": SWITCHES, "runs": 1, "planted": 2, **models, **rest}
    bench = select(benchmark, data, limit=rest.get("limit"))
    return Settings(benchmark=bench, data=data, peer=peer, **given)
