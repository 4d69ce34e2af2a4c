"""A model server that plays the prompts of the peers: whoever asks it to extract facts gets one
fact for each turn of the trial conversation that stands in the prompt, in the shape asked for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from justmem.testing import HashEmbedder, Request, Respond, chat_body
from justmem_eval.peer_check import HISTORY

DIMENSIONS = 64
NOT_JSON = "I am afraid I cannot do that."


def facts(text: str) -> list[str]:
    said = [turn for session in HISTORY.sessions for turn in session.turns]
    return [f"{turn.speaker} said: {turn.text}" for turn in said if turn.text in text]


def played(request: Request) -> Respond:
    if request.path.endswith("/embeddings"):
        return _vectors(request)
    reply = _reply(request)
    text = reply if isinstance(reply, str) else json.dumps(reply)
    if request.body.get("stream"):
        return Respond(_streamed(text), headers={"content-type": "text/event-stream"})
    return Respond(chat_body(text, usage=(100, 20)))


def _reply(request: Request) -> Any:
    prompt = "\n".join(str(message["content"]) for message in request.body["messages"])
    shape = request.body.get("response_format") or {}
    if "json_schema" in shape:  # A-Mem
        return _filled(shape["json_schema"]["schema"], prompt)
    if "## New Messages" in prompt:  # mem0
        new = prompt.rsplit("## New Messages", 1)[1]
        return {"memory": [{"id": str(n), "text": fact} for n, fact in enumerate(facts(new))]}
    if '"memory list"' in prompt:  # MemOS
        rows = [{"key": fact[:20], "value": fact, "tags": []} for fact in facts(prompt)]
        return {"memory list": rows, "summary": ""}
    if "lossless_restatement" in prompt:  # SimpleMem
        dialogues = prompt.split("[Current Window Dialogues]")[-1]
        return [{"lossless_restatement": fact, "keywords": []} for fact in facts(dialogues)]
    if "source_id" in prompt:  # LightMem
        rows = [{"source_id": n, "fact": fact} for n, fact in enumerate(facts(prompt))]
        return {"data": rows}
    return NOT_JSON


def _filled(schema: dict[str, Any], prompt: str) -> Any:
    """Something of the shape: the prompt's own words for a text, nothing for the rest."""
    if schema["type"] == "object":
        return {name: _filled(part, prompt) for name, part in schema["properties"].items()}
    return {"string": prompt[-300:], "boolean": False, "array": []}.get(schema["type"], 0)


def _vectors(request: Request) -> Respond:
    given = request.body["input"]
    texts = [given] if isinstance(given, str) else given
    made = asyncio.run(HashEmbedder(DIMENSIONS).embed(texts)).vectors.tolist()
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(made)]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return Respond({"object": "list", "model": "m", "data": data, "usage": usage})


def _streamed(text: str) -> bytes:
    parts = [{"choices": [{"index": 0, "delta": {"content": text}}]}]
    events = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return "".join([*events, "data: [DONE]\n\n"]).encode()
