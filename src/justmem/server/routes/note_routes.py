"""Notes: texts under the caller's own keys."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from justmem.domain import Card, Forgotten, Note
from justmem.errors import InputError
from justmem.intake.sessions import as_time
from justmem.server.routes.access import Id, Reader, Writer
from justmem.server.schemas import Request, Time, with_examples

router = APIRouter(prefix="/v1/spaces/{space}/notes", tags=["notes"])


class NoteIn(Request):
    """`value` is any JSON; `value_json` is JSON as a text, which stays byte for byte. Give one of
    them or none. The note expires at `until`. `at`: when it holds from; default: now."""

    model_config = with_examples({"text": "Ana is allergic to walnuts.", "value": 1})

    text: str = Field(min_length=1, max_length=100_000, examples=["Ana is allergic to walnuts."])
    value: Any = None
    value_json: str | None = Field(None, max_length=1_000_000)
    at: Time | None = None
    until: Time | None = None
    labels: dict[str, str] | None = Field(None, max_length=20)


class NoteOut(BaseModel):
    """`value_json` is the value's text, byte for byte."""

    note: Note
    value: Any = None

    @classmethod
    def of(cls, note: Note) -> NoteOut:
        return cls(note=note, value=note.value)


class NoteList(BaseModel):
    notes: list[NoteOut]


@router.put("/{id}", summary="Write a note")
async def note(id: Id, given: NoteIn, grant: Writer) -> Card:
    """Stores a card exactly as given, without extraction. A note with the same key is replaced."""
    value = given.value if given.value_json is None else given.value_json.encode()
    if given.value_json is not None and given.value is not None:
        raise InputError("Give value or value_json, not both.")
    async with grant.server.spaces.use(grant.space, grant.key.actor, create=True) as memory:
        return await memory.note(
            given.text,
            key=id,
            value=value,
            at=grant.server.moment(given.at),
            until=None if given.until is None else as_time(given.until),
            labels=given.labels,
        )


@router.get("", summary="List notes")
async def notes(
    grant: Reader, prefix: Annotated[str, Query(description="How their keys begin.")] = ""
) -> NoteList:
    """In order of their keys."""
    async with grant.memory() as memory:
        return NoteList(notes=[NoteOut.of(note) for note in await memory.notes(prefix)])


@router.get("/{id}", summary="Read a note")
async def note_at(id: Id, grant: Reader) -> NoteOut:
    """The note with that key."""
    async with grant.memory() as memory:
        return NoteOut.of(await memory.note_at(id))


@router.delete("/{id}", summary="Forget a note")
async def forget_note(id: Id, grant: Writer) -> Forgotten:
    """On disk too."""
    return await grant.server.ingestion.forget(grant.space, grant.key.actor, key=id)
