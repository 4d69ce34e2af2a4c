"""Pydantic AI: a capability that recalls before a run and remembers after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from justmem.integrations.safe import MemoryFor, SafeMemory, memory_for, text_of, turn


@dataclass
class JustMemCapability(AbstractCapability[Any]):
    """`memory` is a SafeMemory, or a function from the run context to one, so that one agent can
    serve many users."""

    memory: SafeMemory | MemoryFor

    def get_instructions(self) -> Any:
        async def evidence(context: RunContext[Any]) -> str:
            return await memory_for(self.memory, context).prompt(text_of(context.prompt))

        return evidence

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        turns = [t for each in result.new_messages() for t in _turns(each)]
        await memory_for(self.memory, ctx).append(f"pydantic-ai-{ctx.conversation_id}", turns)
        return result


def _turns(message: ModelRequest | ModelResponse) -> list[dict[str, str]]:
    if isinstance(message, ModelResponse):
        said = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        return [turn("assistant", said)]
    prompts = [part for part in message.parts if isinstance(part, UserPromptPart)]
    return [turn("user", text_of(prompt.content)) for prompt in prompts]
