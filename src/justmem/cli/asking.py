"""ask, recall."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from justmem.cli import drawing
from justmem.cli.run import Exit, moment, now, run_of
from justmem.cli.terminal import out, plain, print_json
from justmem.domain import Answer, Evidence, dump
from justmem.memory import AsyncMemory
from justmem.plan import plan_arguments

Question = Annotated[str, typer.Argument(help="A question, or a remark about to be answered.")]
At = Annotated[
    str | None,
    typer.Option(help="When it is asked: 2024-05-20T14:30. Default: this machine's present time."),
]
Speaker = Annotated[
    str | None,
    typer.Option(help='Who says it: "my" is theirs. Default: whom most cards are about.'),
]
Rewrite = Annotated[
    list[str] | None,
    typer.Option(help="Search for this too. Give it once or twice."),
]
Exact = Annotated[
    bool | None,
    typer.Option("--exact/--no-exact", help="Whether the exact words are needed."),
]
Spans = Annotated[
    bool | None,
    typer.Option("--spans/--no-spans", help="Whether the evidence may lie in several sessions."),
]
Period = Annotated[
    str | None,
    typer.Option(help="The time asked about: 2023-05, 2023-05-07 or 2023-05-01/2023-05-31."),
]
Entity = Annotated[
    list[str] | None,
    typer.Option(help="Somebody or something it is about. Can be given more than once."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PLAN = plan_arguments(
    rewrite=("rewrites", Rewrite),
    exact=("needs_source", Exact),
    spans=("spans_sessions", Spans),
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
    """Answer from memory, with citations and a receipt.

    Exits with 1 when memory does not hold the answer. Without --at the question is asked at this
    machine's present time.
    """
    when = moment(at) or now()

    async def work(memory: AsyncMemory) -> Answer:
        return await memory.ask(question, at=when, speaker=speaker, plan=plan)

    answer = run_of(context).memory(work)
    if json:
        print_json(answer_json(answer))
    else:
        out().print(drawing.answer(answer))
    if not answer.sufficient:
        raise typer.Exit(Exit.NOTHING)


@PLAN
def recall(
    context: typer.Context,
    question: Question,
    at: At = None,
    speaker: Speaker = None,
    plan: dict[str, Any] | None = None,
    prompt: Annotated[
        int | None,
        typer.Option(min=1, help="Print a block of at most so many tokens for a model's prompt."),
    ] = None,
    json: Json = False,
) -> None:
    """Show what bears on a question, without answering it.

    Exits with 1 when there is nothing. Without --at the question is asked at this machine's
    present time.
    """
    when = moment(at) or now()

    async def work(memory: AsyncMemory) -> Evidence:
        return await memory.recall(question, at=when, speaker=speaker, plan=plan)

    evidence = run_of(context).memory(work)
    if prompt is not None:
        typer.echo(plain(evidence.prompt(prompt)))
    elif json:
        print_json(evidence_json(evidence))
    else:
        out().print(drawing.evidence(evidence))
    if not evidence.chosen and not evidence.sources:
        raise typer.Exit(Exit.NOTHING)


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "question": evidence.question,
        "at": evidence.at.isoformat(),
        "access": evidence.access.value,
        "plan": dump(evidence.plan),
        "chosen": [
            {"id": place.card.id, "score": place.score, "scores": dict(place.scores)}
            for place in evidence.chosen
        ],
        "cards": [dump(card) for card in evidence.cards],
        "sources": [dump(source) for source in evidence.sources],
        "receipt": drawing.receipt_json(evidence.receipt),
    }


def answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "answer": answer.text,
        "sufficient": answer.sufficient,
        "citations": [dump(citation) for citation in answer.citations],
        **evidence_json(answer.evidence),
        "receipt": drawing.receipt_json(answer.receipt),
    }
