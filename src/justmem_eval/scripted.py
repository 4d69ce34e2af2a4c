"""A scripted language model and real vectors behind one loopback server, the same for all systems.

Asked to extract, it returns the facts of exactly those turns that stand in the prompt, in the shape
that the system asks for. So all systems hold the same facts, and what differs is their machinery.
Its other replies are short. Nothing about the quality of answers can be learned from it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from justmem.domain import Session, Turn
from justmem.ports import Embedder
from justmem_eval.benchmarks import History
from justmem_eval.benchmarks.recorded import CardRows, operation
from justmem_eval.loopback import Request, Respond, chat_body
from justmem_eval.text import count, keywords

_WORDS = 6  # in a list of keywords
_NUMBERED = re.compile(r"\[[^\]]*\] (\d+)\.")  # a turn in LightMem's prompt
NOT_JSON = "I am afraid I cannot do that."
Row = Mapping[str, Any]


@dataclass
class Scripted:
    """`cards` are recorded cards by (history, session); without them a fact is what was said.
    `plans` has every question's text, with its recorded plan where there is one."""

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
        usage = count(_prompt(request.body)), count(text)
        if request.body.get("stream"):
            return Respond(_streamed(text, *usage), headers={"content-type": "text/event-stream"})
        body = chat_body(text, usage=usage)
        body["usage"]["total_tokens"] = sum(usage)  # LightMem reads it
        return Respond(body)

    def rows(self, prompt: str) -> list[Row]:
        shown = _line(prompt)
        return [row for said, rows in self._said if said and said in shown for row in rows]

    def facts(self, prompt: str) -> list[str]:
        return [f"{row['subject']} {row['fact']}" for row in self.rows(prompt)]

    def _reply(self, body: Mapping[str, Any]) -> Any:
        prompt = _prompt(body)
        shape = body.get("response_format") or {}
        if "json_schema" in shape:  # JustMem, A-Mem
            return self._shaped(shape["json_schema"]["schema"], prompt)
        if "## New Messages" in prompt:  # mem0
            new = self.facts(prompt.rsplit("## New Messages", 1)[1])
            return {"memory": [{"id": str(n), "text": fact} for n, fact in enumerate(new)]}
        if '"memory list"' in prompt:  # MemOS
            found = [{"key": f[:20], "value": f, "tags": []} for f in self.facts(prompt)]
            return {"memory list": found, "summary": ""}
        if '"assessment"' in prompt or '"question_type"' in prompt or '"queries"' in prompt:
            return self._search_plan(prompt)  # SimpleMem
        if '"time_expression"' in prompt:  # SimpleMem
            asked = self._question(prompt) or prompt.rpartition("Query:")[2].splitlines()[0]
            return {"keywords": keywords(asked), "persons": [], "entities": []}
        if "lossless_restatement" in prompt:  # SimpleMem
            dialogues = prompt.split("[Current Window Dialogues]")[-1]
            return [
                {"lossless_restatement": fact, "keywords": []} for fact in self.facts(dialogues)
            ]
        if "source_id" in prompt:  # LightMem
            lines = ((_NUMBERED.match(line), line) for line in prompt.splitlines())
            told = [(int(n[1]), fact) for n, line in lines if n for fact in self.facts(line)]
            return {"data": [{"source_id": number, "fact": fact} for number, fact in told]}
        return self._memoryos(prompt) or NOT_JSON

    def _memoryos(self, prompt: str) -> Any:
        if "conversation continuity" in prompt:
            return "true"
        told = self.facts(prompt)
        if "subtopic summaries" in prompt:
            words = keywords(" ".join(told))[:_WORDS]
            summary = {"theme": told[0] if told else "", "keywords": words}
            return [{**summary, "content": ". ".join(told)}]
        if "knowledge extraction assistant" in prompt:
            return "\n".join(["【User Private Data】", *told, "【Assistant Knowledge】", "None"])
        return ". ".join(told) if "meta-summary" in prompt else None

    def _shaped(self, schema: Mapping[str, Any], prompt: str) -> Any:
        parts = schema.get("properties", {})
        if "cards" in parts:
            return {"cards": [_written(row) for row in self.rows(prompt)]}
        asked = self._question(prompt)
        if "rewrites" in parts:
            known = self.plans.get(asked, {})
            plain = {"spans_sessions": False, "needs_source": False}
            return {**plain, **known, "operation": operation(known)}
        if asked:  # A-Mem: keywords of a question
            return {"keywords": ", ".join(keywords(asked))}
        return _filled(schema, self._said_in(prompt) or prompt[-300:])

    def _search_plan(self, prompt: str) -> Row:
        """The question and the rewrites of its recorded plan, which JustMem searches with too."""
        asked = self._question(prompt)
        return {
            "question_type": "factual",
            "key_entities": [],
            "required_info": [],
            "relationships": [],
            "minimal_queries_needed": 1,
            "queries": [asked, *self.plans.get(asked, {}).get("rewrites", ())],
            "assessment": "sufficient",
        }

    def _question(self, prompt: str) -> str:
        """The longest known question that stands in the prompt."""
        return max((text for text in self.plans if text in prompt), key=len, default="")

    def _said_in(self, prompt: str) -> str:
        """The longest turn that stands in the prompt."""
        shown = _line(prompt)
        return max((said for said, _ in self._said if said in shown), key=len, default="")

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


def _prompt(body: Mapping[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def _line(text: str) -> str:
    return " ".join(text.split())


def _filled(schema: Mapping[str, Any], text: str) -> Any:
    """Something of the shape: `text` for a string, some of its words for a list."""
    if schema.get("type") == "object":
        return {name: _filled(part, text) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return keywords(text)[:_WORDS] if schema.get("items", {}).get("type") == "string" else []
    return {"string": text, "boolean": False}.get(schema.get("type", ""), 0)


def _streamed(text: str, tokens_in: int, tokens_out: int) -> bytes:
    parts: list[Any] = [{"choices": [{"index": 0, "delta": {"content": text}}]}]
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    parts.append({"choices": [], "usage": usage})
    events = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return "".join([*events, "data: [DONE]\n\n"]).encode()
