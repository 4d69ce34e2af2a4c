"""recall and ask."""

from __future__ import annotations

from datetime import date
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from justmem.domain import Answer, Evidence, SpacesEvidence
from justmem.plan import PlanParts
from justmem.server.routes.shared import (
    Body,
    Labels,
    ReadAccess,
    Time,
    key_of,
    server_of,
    with_examples,
)

router = APIRouter(prefix="/v1", tags=["questions"])


class Question(Body):
    """`at` is the time of the question (default: now). "Last week" is relative to it, and later
    sessions are left out. `speaker` is who asks: "my" refers to them. With `plan`, a plan or parts
    of one, no model is called to plan. `candidates` adds everything that discovery found."""

    model_config = with_examples(
        {"question": "What did my bike cost?", "at": "2024-06-01T12:00"},
        {
            "question": "Which sports have I taken up?",
            "plan": {"rewrites": ["ran a race", "joined a riding group"]},
        },
    )

    question: str = Field(min_length=1, max_length=100_000)
    at: Time | None = None
    speaker: str | None = Field(None, min_length=1, max_length=200)
    plan: PlanParts | None = None
    candidates: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `AsyncMemory.ask` besides the question."""
        plan = None if self.plan is None else self.plan.model_dump(exclude_none=True)
        return {"at": self.at, "speaker": self.speaker, "plan": plan}

    def shown(self, evidence: Evidence) -> Evidence:
        """Discovery finds hundreds of candidates. They are sent only on request."""
        return evidence if self.candidates else evidence.model_copy(update={"candidates": ()})


class Recall(Question):
    """`prompt` adds a block for a model's prompt, of at most this many tokens. The others are
    filters: at most `limit` places; only sessions and notes with all these `labels`; only these
    `sessions`; only what was said from `since` to `until`, inclusive; memory `as_of` a day."""

    prompt: int | None = Field(None, ge=1, le=100_000)
    limit: int | None = Field(None, ge=1, le=1000)
    labels: Labels = None
    sessions: list[str] | None = Field(None, max_length=1000)
    since: date | None = None
    until: date | None = None
    as_of: date | None = None

    @property
    def options(self) -> dict[str, Any]:
        names = {"limit", "labels", "sessions", "since", "until", "as_of"}
        return super().options | self.model_dump(include=names)


class RecallSpaces(Question):
    """`spaces`: the names of those to recall from. The rest as for one space."""

    model_config = with_examples({"question": "When do we meet?", "spaces": ["ana", "team"]})

    spaces: list[str] = Field(min_length=1, max_length=20)
    prompt: int | None = Field(None, ge=1, le=100_000)


class EvidenceView(Evidence):
    """The evidence, and on request a block for a model's prompt."""

    prompt_text: str | None = Field(None, serialization_alias="prompt")


class SpacesEvidenceView(SpacesEvidence):
    """The cards of several spaces, and on request a block for a model's prompt."""

    prompt_text: str | None = Field(None, serialization_alias="prompt")


@router.post("/recall", summary="Recall from several spaces")
async def recall_spaces(body: RecallSpaces, request: Request) -> SpacesEvidenceView:
    """One ranking over several spaces, each card with its space. The key must open all of them."""
    server, key = server_of(request), key_of(request)
    for space in body.spaces:
        server.check(key, space, "read")
    with server.limits.asking(key.id):
        found = await server.spaces.recall(body.question, body.spaces, **body.options)
    server.metrics.receipt(found.receipt)
    text = None if body.prompt is None else found.prompt(body.prompt)
    return SpacesEvidenceView.trusted(**dict(found), prompt_text=text)


@router.post("/spaces/{space}/recall", summary="Recall")
async def recall(body: Recall, access: ReadAccess) -> EvidenceView:
    """The evidence for a question, without an answer."""
    async with access.server.asking(access.key, access.space) as memory:
        found = await memory.recall(body.question, **body.options)
    access.server.metrics.receipt(found.receipt)
    text = None if body.prompt is None else found.prompt(body.prompt)
    return EvidenceView.trusted(**dict(body.shown(found)), prompt_text=text)


@router.post("/spaces/{space}/ask", summary="Ask")
async def ask(body: Question, access: ReadAccess) -> Answer:
    """An answer from memory, with citations and a receipt."""
    async with access.server.asking(access.key, access.space) as memory:
        answer = await memory.ask(body.question, **body.options)
    access.server.metrics.receipt(answer.receipt)
    return answer.model_copy(update={"evidence": body.shown(answer.evidence)})
