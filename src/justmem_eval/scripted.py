"""A scripted language model and real vectors behind one loopback server, the same for all systems.

Asked to extract, it returns the facts of exactly those turns that stand in the prompt, in the shape
that the system asks for. So all systems hold the same facts, and what differs is their machinery.
Its other replies are short. Nothing about the quality of answers can be learned from it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from justmem.domain import Session, Turn
from justmem.ports import Embedder
from justmem.testing import Request, Respond, chat_body
from justmem_eval.benchmarks import History
from justmem_eval.benchmarks.recorded import CardRows

NOT_JSON = "I am afraid I cannot do that."
Row = Mapping[str, Any]


@dataclass
class Scripted:
    """`cards` are recorded cards by (history, session); without them a fact is what was said.
    `plans` are recorded plans by the question's text."""

    histories: Sequence[History]
    embedder: Embedder
    cards: Mapping[tuple[str, str], CardRows] = field(default_factory=dict)
    plans: Mapping[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._said: list[tuple[str, list[Row]]] = []
        for history in self.histories:
            for session in history.sessions:
                known = self.cards.get((history.id, session.id))
                for number, turn in enumerate(session.turns, 1):
                    self._said.append((_line(turn.text), _facts(session, number, turn, known)))

    def __call__(self, request: Request) -> Respond:
        if request.path.endswith("/embeddings"):
            return self._vectors(request)
        reply = self._reply(request.body)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        if request.body.get("stream"):
            return Respond(_streamed(text), headers={"content-type": "text/event-stream"})
        return Respond(chat_body(text, usage=None))  # the meter counts the words

    def rows(self, prompt: str) -> list[Row]:
        shown = _line(prompt)
        return [row for said, rows in self._said if said and said in shown for row in rows]

    def facts(self, prompt: str) -> list[str]:
        return [f"{row['subject']} {row['fact']}" for row in self.rows(prompt)]

    def _reply(self, body: Mapping[str, Any]) -> Any:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        shape = body.get("response_format") or {}
        if "json_schema" in shape:  # JustMem, A-Mem
            return self._shaped(shape["json_schema"]["schema"], prompt)
        if "## New Messages" in prompt:  # mem0
            new = self.facts(prompt.rsplit("## New Messages", 1)[1])
            return {"memory": [{"id": str(n), "text": fact} for n, fact in enumerate(new)]}
        if '"memory list"' in prompt:  # MemOS
            found = [{"key": f[:20], "value": f, "tags": []} for f in self.facts(prompt)]
            return {"memory list": found, "summary": ""}
        if "lossless_restatement" in prompt:  # SimpleMem
            dialogues = prompt.split("[Current Window Dialogues]")[-1]
            return [
                {"lossless_restatement": fact, "keywords": []} for fact in self.facts(dialogues)
            ]
        if "source_id" in prompt:  # LightMem
            told = self.facts(prompt)
            return {"data": [{"source_id": n, "fact": fact} for n, fact in enumerate(told)]}
        return NOT_JSON

    def _shaped(self, schema: Mapping[str, Any], prompt: str) -> Any:
        parts = schema.get("properties", {})
        if "cards" in parts:
            return {"cards": [_written(row) for row in self.rows(prompt)]}
        if "rewrites" in parts:
            plain = {"operation": "lookup", "spans_sessions": False, "needs_source": False}
            known = [plan for text, plan in self.plans.items() if text in prompt]
            return {**plain, **dict(known[0] if known else {})}
        return _filled(schema, prompt)

    def _vectors(self, request: Request) -> Respond:
        given = request.body["input"]
        texts = [given] if isinstance(given, str) else list(given)
        made = asyncio.run(self.embedder.embed(texts)).vectors.tolist()
        data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(made)]
        usage = {"prompt_tokens": 5 * len(texts), "total_tokens": 5 * len(texts)}
        return Respond({"object": "list", "model": "scripted", "data": data, "usage": usage})


def _facts(session: Session, number: int, turn: Turn, known: CardRows | None) -> list[Row]:
    """A recorded card belongs to the first of its turns."""
    if known is not None:
        return [row for row in known if row["turns"] and min(row["turns"]) == number]
    return [{"subject": turn.speaker, "fact": f"said: {turn.text}", "turns": [number]}]


def _written(row: Row) -> str:
    """A card as JustMem asks for it: six fields in a line."""
    fields = (row.get(name, "") for name in ("event_date", "status", "kind"))
    turns = ",".join(map(str, row["turns"]))
    return " | ".join([row["subject"], row["fact"].replace("|", "/"), *fields, turns])


def _line(text: str) -> str:
    return " ".join(text.split())


def _filled(schema: Mapping[str, Any], prompt: str) -> Any:
    """Something of the shape: the prompt's own words for a text, nothing for the rest."""
    if schema.get("type") == "object":
        return {name: _filled(part, prompt) for name, part in schema["properties"].items()}
    return {"string": prompt[-300:], "boolean": False, "array": []}.get(schema.get("type", ""), 0)


def _streamed(text: str) -> bytes:
    parts = [{"choices": [{"index": 0, "delta": {"content": text}}]}]
    events = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return "".join([*events, "data: [DONE]\n\n"]).encode()
