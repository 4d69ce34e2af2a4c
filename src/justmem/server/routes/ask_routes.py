"""recall and ask. An answer comes as JSON or as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from justmem.domain import Answer, Evidence, Plan
from justmem.errors import JustMemError, TooSlow
from justmem.server.problems import problem_of
from justmem.server.routes.access import Grant, Reader, key_of, server_of
from justmem.server.schemas import (
    EvidenceView,
    Question,
    Recall,
    RecallSpaces,
    SpacesEvidenceView,
    brief,
)
from justmem.server.state import Inquiry, Step

router = APIRouter(prefix="/v1/spaces/{space}", tags=["questions"])
across = APIRouter(prefix="/v1", tags=["questions"])
EVENTS = ("plan", "evidence", "token", "answer", "receipt", "error")
_SILENCE = 15.0  # seconds between comments that keep the connection alive


@across.post("/recall", summary="Recall from several spaces")
async def recall_spaces(asked: RecallSpaces, request: Request) -> SpacesEvidenceView:
    """One ranking over several spaces, each card with its space."""
    server, key = server_of(request), key_of(request)
    inquiry = _inquiry(asked, Grant(server, key, ""))
    evidence = await server.recall_spaces(inquiry, asked.spaces)
    text = None if asked.prompt is None else evidence.prompt(asked.prompt)
    return SpacesEvidenceView.trusted(**dict(evidence), prompt_text=text)


@router.post("/recall", summary="Recall")
async def recall(asked: Recall, grant: Reader) -> EvidenceView:
    """The evidence for a question, without an answer."""
    inquiry = replace(_inquiry(asked, grant), filters=asked.filters)
    evidence = await grant.server.recall(inquiry)
    text = None if asked.prompt is None else evidence.prompt(asked.prompt)
    fields = dict(brief(evidence, candidates=asked.candidates))
    return EvidenceView.trusted(**fields, prompt_text=text)


@router.post(
    "/ask",
    summary="Ask",
    response_model=Answer,
    responses={
        200: {
            "description": "The answer; or, with `Accept: text/event-stream`, the events "
            "plan, evidence, token (many), answer, receipt as they come, or error.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def ask(asked: Question, grant: Reader, request: Request) -> Answer | StreamingResponse:
    """An answer from memory, with citations and a receipt."""
    if "text/event-stream" in request.headers.get("accept", ""):
        await _check(grant)
        return StreamingResponse(_events(asked, grant), media_type="text/event-stream")
    answer = await grant.server.ask(_inquiry(asked, grant))
    return answer.model_copy(
        update={"evidence": brief(answer.evidence, candidates=asked.candidates)}
    )


def _inquiry(asked: Question, grant: Grant) -> Inquiry:
    plan = None if asked.plan is None else asked.plan.model_dump(exclude_none=True)
    return Inquiry(grant.key, grant.space, asked.question, asked.at, asked.speaker, plan)


async def _check(grant: Grant) -> None:
    """Refuse with a proper status before the stream begins."""
    with grant.server.limits.asking(grant.key.id):
        async with grant.memory():
            pass


class _Token(BaseModel):
    text: str


async def _events(asked: Question, grant: Grant) -> AsyncIterator[str]:
    steps: asyncio.Queue[Step | JustMemError | None] = asyncio.Queue()
    listening = True

    def tell(step: Step) -> bool:
        steps.put_nowait(step)
        return listening

    async def work() -> None:
        try:
            await grant.server.follow(_inquiry(asked, grant), tell)
        except JustMemError as error:
            steps.put_nowait(error)
        finally:
            steps.put_nowait(None)

    # A separate task: a client that reads slowly or leaves does not affect the work.
    grant.server.background(work())
    instance = "/v1/spaces/{space}/ask"
    loop = asyncio.get_running_loop()
    ends = loop.time() + grant.server.serving.request_seconds
    try:
        while loop.time() < ends:
            try:
                async with asyncio.timeout(min(_SILENCE, ends - loop.time())):
                    step = await steps.get()
            except TimeoutError:
                yield ": still there\n\n"
                continue
            if step is None:
                return
            for event in _told(step, asked, instance):
                yield event
        late = TooSlow("The answer took too long: try again, or ask for less.")
        yield _event("error", problem_of(late, instance))
    finally:
        listening = False


def _told(step: Step | JustMemError, asked: Question, instance: str) -> list[str]:
    if isinstance(step, Plan):
        return [f"event: plan\ndata: {_planned(step)}\n\n"]
    if isinstance(step, Evidence):
        return [_event("evidence", brief(step, candidates=asked.candidates))]
    if isinstance(step, str):
        return [_event("token", _Token(text=step))]
    if isinstance(step, Answer):
        told = step.model_dump_json(include={"text", "sufficient", "citations"})
        return [f"event: answer\ndata: {told}\n\n", _event("receipt", step.receipt)]
    return [_event("error", problem_of(step, instance))]


def _planned(plan: Plan) -> str:
    return f'{{"access":"{plan.access.value}","plan":{plan.model_dump_json()}}}'


def _event(name: str, data: BaseModel) -> str:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n"
