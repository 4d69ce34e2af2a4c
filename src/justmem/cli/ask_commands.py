"""ask, recall."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from justmem.cli import render
from justmem.cli.context import Exit, Json, moment, now, run_of
from justmem.cli.note_commands import Label, labels_of
from justmem.cli.terminal import out, plain, print_json, show
from justmem.config import Settings
from justmem.domain import Answer, Evidence, SpacesEvidence, dump
from justmem.integrations.arguments import plan_arguments
from justmem.spaces import Spaces

Question = Annotated[str, typer.Argument(help="A question, or a message to reply to.")]
At = Annotated[
    str | None,
    typer.Option(help="When it is asked: 2024-05-20T14:30. Default: now."),
]
Speaker = Annotated[
    str | None,
    typer.Option(help='Who asks: "my" refers to them. Default: the person most cards are about.'),
]
Rewrite = Annotated[
    list[str] | None,
    typer.Option(help="Another wording to search for. Up to two."),
]
NeedsSource = Annotated[
    bool | None,
    typer.Option(
        "--needs-source/--no-needs-source", help="Whether the answer needs the original words."
    ),
]
SpansSessions = Annotated[
    bool | None,
    typer.Option(
        "--spans-sessions/--no-spans-sessions",
        help="Whether the evidence may be in several sessions.",
    ),
]
Period = Annotated[
    str | None,
    typer.Option(help="The time asked about: 2023-05, 2023-05-07 or 2023-05-01/2023-05-31."),
]
Entity = Annotated[
    list[str] | None,
    typer.Option(help="A person or thing it is about. May be repeated."),
]
PLAN = plan_arguments(
    rewrite=("rewrites", Rewrite),
    needs_source=("needs_source", NeedsSource),
    spans_sessions=("spans_sessions", SpansSessions),
    period=("period", Period),
    entity=("entities", Entity),
)


@PLAN
def ask(
    context: typer.Context,
    question: Question,
    at: At = None,
    speaker: Speaker = None,
    plan: dict[str, Any] | None = None,
    json: Json = False,
) -> None:
    """Answer a question from memory, with citations and a receipt.

    Exits with 1 if memory does not hold the answer.
    """
    asked: dict[str, Any] = {"at": moment(at) or now(), "speaker": speaker, "plan": plan}
    answer = run_of(context).memory(lambda memory: memory.ask(question, **asked))
    if json:
        print_json(short(answer))
    else:
        out().print(render.answer(answer))
    if not answer.sufficient:
        raise typer.Exit(Exit.NOT_IN_MEMORY)


@PLAN
def recall(
    context: typer.Context,
    question: Question,
    at: At = None,
    speaker: Speaker = None,
    plan: dict[str, Any] | None = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many cards.")] = None,
    label: Label = None,
    session: Annotated[
        list[str] | None, typer.Option(help="Only this session. May be repeated.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only what was said from this day on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only what was said up to this day.")] = None,
    as_of: Annotated[str | None, typer.Option(help="Memory as it was on this day.")] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="Another space to recall from. May be repeated.")
    ] = None,
    prompt: Annotated[
        int | None,
        typer.Option(
            min=1, help="Print a block for a model's prompt, of at most this many tokens."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the evidence for a question, without an answer.

    Exits with 1 if there is none.
    """
    run = run_of(context)
    asked: dict[str, Any] = {"at": moment(at) or now(), "speaker": speaker, "plan": plan}
    filters: dict[str, Any] = {"limit": limit, "labels": labels_of(label), "as_of": as_of}
    filters |= {"sessions": session or None, "since": since, "until": until}
    evidence: Evidence | SpacesEvidence
    if also:
        if any(filters.values()):
            raise typer.BadParameter("--also cannot be combined with filters.", param_hint="--also")
        evidence = asyncio.run(_recall_spaces(run.settings(), question, also, asked))
    else:
        evidence = without_candidates(
            run.memory(lambda memory: memory.recall(question, **asked, **filters))
        )
    if prompt is not None:
        typer.echo(plain(evidence.prompt(prompt)))
    else:
        show(evidence, json, render.spaces_evidence if also else render.evidence)
    if not evidence.cards and not (isinstance(evidence, Evidence) and evidence.sources):
        raise typer.Exit(Exit.NOT_IN_MEMORY)


async def _recall_spaces(
    settings: Settings, question: str, also: list[str], asked: dict[str, Any]
) -> SpacesEvidence:
    async with Spaces(**dict(settings)) as spaces:
        return await spaces.recall(question, [settings.space, *also], **asked)


def short(answer: Answer) -> dict[str, Any]:
    evidence = without_candidates(answer.evidence)
    return dump(answer.model_copy(update={"evidence": evidence}))


def without_candidates(evidence: Evidence) -> Evidence:
    """Discovery finds hundreds; the output has the chosen ones."""
    return evidence.model_copy(update={"candidates": ()})
