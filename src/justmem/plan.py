"""Question -> Plan: by the caller, else by one call of a language model, else by rules."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import PydanticCustomError

from justmem import budget
from justmem.budget import Tally
from justmem.domain import OPERATIONS, EventDate, Evidence, Operation, Plan, Value
from justmem.errors import BudgetExceeded, InvalidQuestion, ModelError
from justmem.memory_parts import Parts
from justmem.ports import Language, LanguageModel, Planned, Prompt
from justmem.prompts import fence, load, new_mark, one_line
from justmem.prompts.parse import Lines, ModelReply, otherwise, parse
from justmem.runtime.validation import both_ends, clean, describe

REWRITES = 2
_LONGEST_PART = 500  # characters of a rewrite or an entity
_MOST_ENTITIES = 20
_LONGEST_QUESTION = 2000  # characters of a question that the model reads: its two ends


# ---------------------------------------------------------------- by the caller


def _check_text(value: str) -> str:
    line = one_line(clean(value))
    if not 0 < len(line) <= _LONGEST_PART:
        raise ValueError("empty or too long")
    return line


def _check_period(value: str) -> str:
    if EventDate.parse(value).start is None:
        raise ValueError("no period")
    return value.strip()


PlanText = Annotated[str, AfterValidator(_check_text)]


class PlanParts(Value):
    """A plan by the caller, or parts of one. Rules fill in what is left out."""

    rewrites: tuple[PlanText, ...] | None = Field(
        None,
        max_length=REWRITES,
        description="Other searches for the same evidence: up to two texts of at most "
        f"{_LONGEST_PART} characters.",
    )
    needs_source: StrictBool | None = Field(
        None, description="Whether the exact words of a conversation are needed: true or false."
    )
    spans_sessions: StrictBool | None = Field(
        None, description="Whether the evidence may lie in several conversations: true or false."
    )
    period: Annotated[str, AfterValidator(_check_period)] | None = Field(
        None,
        description="The time asked about: a year, month or day such as 2023, 2023-05 or "
        "2023-05-07, or a range such as 2023-05-01/2023-05-31.",
    )
    entities: tuple[PlanText, ...] | None = Field(
        None,
        max_length=_MOST_ENTITIES,
        description="People and things it is about, also those that the question does not name: "
        f"up to {_MOST_ENTITIES} texts.",
    )
    operation: Operation | None = Field(
        None, description=f"What is done with the evidence: one of {', '.join(OPERATIONS)}."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _check_parts(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Self:
        """One sentence that names the part and its valid form."""
        try:
            parts: Self = handler(value)
        except ValidationError as error:
            raise PydanticCustomError("plan", "{why}", {"why": _why(error, value)}) from None
        if parts.rewrites and parts.spans_sessions is False:
            why = (
                "A plan with rewrites always spans sessions: omit spans_sessions, or set it to true"
            )
            raise PydanticCustomError("plan", "{why}", {"why": why})
        return parts


def _why(error: ValidationError, value: Any) -> str:
    names = ", ".join(PlanParts.model_fields)
    place = error.errors()[0]["loc"]
    if not place or not isinstance(value, Mapping):
        return f"A plan must be a Plan or a mapping with any of {names}, not {describe(value)}"
    if place[0] not in PlanParts.model_fields:
        return f"A plan has no part {describe(str(place[0]))}. Its parts are {names}"
    part, given = str(place[0]), value[place[0]]
    form = str(PlanParts.model_fields[part].description).rstrip(".")
    if len(place) > 1 and isinstance(place[1], int):
        one = describe(given[place[1]])
        return (
            f"Each of the plan's {part} must be a text of 1 to {_LONGEST_PART} characters, not "
            f"{one}. {form}"
        )
    shown = f"{len(given)} texts" if isinstance(given, list | tuple) else describe(given)
    return f"The plan's {part} cannot be {shown}. {form}"


GivenPlan = Plan | Mapping[str, Any] | None
CheckedPlan = Plan | PlanParts | None  # None: by the planner if there is one, else by rules
BY_RULES = PlanParts()  # no part is given, so rules fill in all of them


def check_plan(plan: GivenPlan) -> CheckedPlan:
    """What a caller gave as a plan, checked."""
    try:
        if plan is None:
            return None
        if isinstance(plan, Plan):
            PlanParts.model_validate(plan.model_dump(exclude={"period"}))
            return plan
        return PlanParts.model_validate(plan)
    except ValidationError as error:
        raise InvalidQuestion(f"{error.errors()[0]['msg']}.") from None


def complete_plan(given: CheckedPlan, question: str, at: datetime, language: Language) -> Plan:
    """The caller's plan, with the missing parts by rules."""
    if isinstance(given, Plan):
        return given
    rules = language.plan(question, at)
    if given is None:
        return rules
    parts = given.model_dump(exclude_none=True)
    if given.rewrites:
        parts["spans_sessions"] = True
    elif given.spans_sessions is False:
        parts["rewrites"] = ()
    if given.period is not None:
        parts["period"] = EventDate.parse(given.period)
    return rules.model_copy(update=parts)


async def make_plan(
    asked: Evidence,
    given: CheckedPlan,
    parts: Parts,
    main_subject: str | None,
    tally: Tally,
    token_limit: int | None,
) -> Evidence:
    """Adds the plan: the caller's if one was given, else the planner's, else by rules. The planner
    may spend `token_limit`. Also adds the speaker, if the question is in the first
    person and nobody is named: then the main subject of the memory is asking."""
    language = parts.language
    with tally.stage("plan"):
        plan = None
        if given is None and parts.planner is not None:
            try:
                planned = await parts.planner.plan(asked.question, asked.at, limit=token_limit)
                plan, calls, notes = planned.plan, planned.calls, planned.notes
            except BudgetExceeded as error:  # rules cost nothing
                calls, notes = error.calls, [f"planned by rules: {error}"]
            tally.calls += calls  # at once: a caller who is cancelled has paid for them
            tally.notes += notes
        if plan is None:  # in a thread: other work of this event loop does not wait for rules
            plan = await asyncio.to_thread(complete_plan, given, asked.question, asked.at, language)
        speaker = asked.speaker
        if speaker is None:
            text = both_ends(asked.question)
            personal = language.name_speaker(text, "X") != text
            if personal or plan.is_remark:
                speaker = main_subject
    return asked.model_copy(update={"plan": plan, "speaker": speaker})


# ---------------------------------------------------------------- by a model


class PlanReply(ModelReply):
    op: Annotated[Operation, otherwise("lookup")] = "lookup"
    period: Annotated[str, otherwise("")] = ""
    spans: StrictBool
    source: StrictBool
    rewrites: Annotated[Lines, otherwise(())] = ()


class ModelPlanner:
    def __init__(self, model: LanguageModel, language: Language) -> None:
        self.model = model
        self._language = language

    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        prompt = planning_prompt(question, at).within(limit, least=80)
        notes: list[str] = []
        rules = await asyncio.to_thread(self._language.plan, question, at)
        try:
            completion = await budget.complete(self.model, prompt, notes)
        except ModelError as error:
            return Planned(rules, error.calls, [*notes, f"planned by rules: {error}"])
        with budget.carrying([completion.call]):
            plan = await asyncio.to_thread(_read, completion.text, rules, at, self._language)
        if plan is None:
            notes.append("planned by rules: the model's plan could not be read")
        return Planned(plan or rules, [completion.call], notes)


def planning_prompt(question: str, at: datetime) -> Prompt:
    asked = both_ends(one_line(question), _LONGEST_QUESTION)
    mark = new_mark()
    user = f"Asked on {at:%A %Y-%m-%d}\n{fence('question', asked, mark)}"
    return Prompt("plan", load("plan"), user, PlanReply.json_schema(), 250, mark=mark)


def _read(text: str, rules: Plan, at: datetime, language: Language) -> Plan | None:
    """The model's plan. What it is not asked for comes from the rules."""
    try:
        reply = PlanReply.model_validate(parse(text)[0])
    except ValidationError:
        return None
    try:
        period = EventDate.parse(reply.period)
    except ValueError:  # words, such as "last spring"
        period = language.resolve_date(reply.period, at)
    rewrites = [line[:_LONGEST_PART] for line in reply.rewrites if line and reply.spans]
    return rules.model_copy(
        update={
            "operation": reply.op,
            "period": period,
            "spans_sessions": reply.spans,
            "needs_source": reply.source,
            "rewrites": tuple(rewrites[:REWRITES]),
        }
    )
