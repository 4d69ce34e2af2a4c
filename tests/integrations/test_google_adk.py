"""Google ADK with a scripted model."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, preload_memory
from google.genai.types import Content, Part
from integration_chats import ARGUMENTS, ASKED, REPLY, SAID, run_page

import justmem
from justmem.errors import InputError
from justmem.integrations.google_adk import JustMemMemoryService

APP = "app"


class Scripted(BaseLlm):
    seen: list[str] = []  # noqa: RUF012  pydantic copies it

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append(llm_request.model_dump_json())
        yield LlmResponse(content=Content(role="model", parts=[Part(text=REPLY)]))


class Chat:
    def __init__(self, service: JustMemMemoryService) -> None:
        self.model = Scripted(model="scripted")
        agent = LlmAgent(name="helper", model=self.model, tools=[preload_memory])
        self.sessions = InMemorySessionService()
        self.service = service
        self.runner = Runner(
            app_name=APP, agent=agent, session_service=self.sessions, memory_service=service
        )

    async def say(self, text: str, user: str = "ana") -> Any:
        session = await self.sessions.create_session(app_name=APP, user_id=user)
        message = Content(role="user", parts=[Part(text=text)])
        answered = [
            event.content.parts[0].text
            async for event in self.runner.run_async(
                user_id=user, session_id=session.id, new_message=message
            )
        ]
        assert answered == [REPLY]
        whole = await self.sessions.get_session(app_name=APP, user_id=user, session_id=session.id)
        await self.service.add_session_to_memory(whole)
        return whole


async def test_a_second_session_knows_what_the_first_said(settings: dict[str, Any]) -> None:
    async with justmem.Spaces(**settings) as spaces:
        service = JustMemMemoryService(spaces)
        chat = Chat(service)
        first = await chat.say(SAID)
        await service.add_session_to_memory(first)  # again
        await spaces.drain()
        await chat.say(ASKED)
        assert "allergic to walnuts" in chat.model.seen[-1]
        await chat.say(ASKED, user="ben")
        assert "walnuts" not in chat.model.seen[-1]
        async with spaces.use(f"{APP}/ana") as memory:
            session = await memory.session(f"adk-{first.id}")
        assert len(session.turns) == 2  # nothing twice


async def test_a_found_memory_can_be_deleted(settings: dict[str, Any]) -> None:
    async with justmem.Spaces(**settings) as spaces:
        service = JustMemMemoryService(spaces)
        await Chat(service).say(SAID)
        await spaces.drain()
        who = {"app_name": APP, "user_id": "ana"}
        (entry,) = (await service.search_memory(**who, query=ASKED)).memories
        session, number = re.findall(r"\[(.+)\]\n#(\d+) .*walnuts", entry.content.parts[0].text)[0]
        with pytest.raises(InputError):
            await service.delete_memory(**who)
        await service.delete_memory(**who, memory_id=f"{session}#{number}")
        assert (await service.search_memory(**who, query=ASKED)).memories == []


async def test_a_chat_goes_on_without_memory(settings: dict[str, Any], tmp_path: Any) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    broken = settings | {"folder": tmp_path / "blocked"}
    async with justmem.Spaces(**broken) as spaces:
        errors: list[BaseException] = []
        service = JustMemMemoryService(spaces, on_error=errors.append)
        await Chat(service).say(SAID)
        assert len(errors) == 2  # not recalled, not remembered


async def test_the_tool_takes_the_callers_plan(settings: dict[str, Any]) -> None:
    async with justmem.Spaces(**settings) as spaces:
        memory = JustMemMemoryService(spaces).memory(APP, "ana")
        recall = FunctionTool(memory.recall)
        declared = recall._get_declaration().model_dump()
        given = declared["parameters_json_schema"] or declared["parameters"]
        assert set(given["properties"]) == ARGUMENTS


@pytest.mark.usefixtures("quiet_settings")
def test_the_page_runs() -> None:
    made = run_page("google-adk.md", model=Scripted(model="scripted"))
    assert made["answer"] == REPLY
    assert "allergic to walnuts" in made["model"].seen[-1]
