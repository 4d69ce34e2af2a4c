"""Recall and ask, at once or as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from justmem.domain import Answer, Evidence, Plan
from justmem.errors import JustMemError, TooSlow
from justmem.server.problems import problem_of
from justmem.server.routes.access import Grant, Reader, key_of, server_of
from justmem.server.schemas import (
    AnswerOut,
    EvidenceOut,
    Question,
    Recall,
    RecallSpaces,
    ReceiptOut,
    SpacesEvidenceOut,
)
from justmem.server.state import Inquiry, Step

router = APIRouter(prefix="/v1/spaces/{space}", tags=["questions"])
across = APIRouter(prefix="/v1", tags=["questions"])
EVENTS = ("plan", "evidence", "token", "answer", "receipt", "error")
_SILENCE = 15.0  # seconds after which a comment shows that the connection lives


@across.post("/recall", summary="Recall from several spaces")
async def recall_spaces(asked: RecallSpaces, request: Request) -> SpacesEvidenceOut:
    """One ranking over several spaces, each card with its space."""
    server, key = server_of(request), key_of(request)
    plan = None if asked.plan is None else asked.plan.model_dump(exclude_none=True)
    inquiry = Inquiry(key, "", asked.question, asked.at, asked.speaker, plan)
    evidence = await server.recall_spaces(inquiry, asked.spaces)
    return SpacesEvidenceOut.of(evidence, prompt=asked.prompt)


@router.post("/recall", summary="Recall")
async def recall(asked: Recall, grant: Reader) -> EvidenceOut:
    """What memory holds that bears on a question, without the answer call."""
    evidence = await grant.server.recall(_inquiry(asked, grant))
    return EvidenceOut.of(evidence, candidates=asked.candidates, prompt=asked.prompt)


@router.post(
    "/ask",
    summary="Ask",
    response_model=AnswerOut,
    responses={
        200: {
            "description": "The answer; or, with `Accept: text/event-stream`, the events "
            "plan, evidence, token (many), answer, receipt as they come, or error.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def ask(asked: Question, grant: Reader, request: Request) -> AnswerOut | StreamingResponse:
    """An answer from memory alone, with the exact words it rests on and what it cost."""
    if "text/event-stream" in request.headers.get("accept", ""):
        await _check(grant)
        return StreamingResponse(_events(asked, grant), media_type="text/event-stream")
    answer = await grant.server.ask(_inquiry(asked, grant))
    return AnswerOut.of(answer, candidates=asked.candidates)


def _inquiry(asked: Question, grant: Grant) -> Inquiry:
    plan = None if asked.plan is None else asked.plan.model_dump(exclude_none=True)
    return Inquiry(grant.key, grant.space, asked.question, asked.at, asked.speaker, plan)


async def _check(grant: Grant) -> None:
    """What can be refused is refused with a status of its own, before the stream begins."""
    with grant.server.limits.asking(grant.key.id):
        async with grant.memory():
            pass


class _Token(BaseModel):
    text: str


class _Spoken(BaseModel):
    answer: str
    sufficient: bool
    citations: list[object]


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

    # A task of its own: a client that reads slowly or leaves changes nothing about the work.
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
        return [_event("evidence", EvidenceOut.of(step, candidates=asked.candidates))]
    if isinstance(step, str):
        return [_event("token", _Token(text=step))]
    if isinstance(step, Answer):
        spoken = _Spoken(
            answer=step.text, sufficient=step.sufficient, citations=list(step.citations)
        )
        return [_event("answer", spoken), _event("receipt", ReceiptOut.of(step.receipt))]
    return [_event("error", problem_of(step, instance))]


def _planned(plan: Plan) -> str:
    return f'{{"access":"{plan.access.value}","plan":{plan.model_dump_json()}}}'


def _event(name: str, data: BaseModel) -> str:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n"
