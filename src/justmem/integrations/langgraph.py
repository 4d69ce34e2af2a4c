"""LangGraph: a store in which each item is a note, stored exactly as given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from langgraph.store.memory import InMemoryStore

from justmem.domain import Note
from justmem.errors import NotInMemory
from justmem.integrations.safe import SafeMemory, wait
from justmem.memory import AsyncMemory

_PREFIX = "langgraph/"


class JustMemStore(BaseStore):
    """`search` ranks by recall, and filters as InMemoryStore. Errors are raised."""

    supports_ttl = True

    def __init__(self, memory: SafeMemory, *, ttl: TTLConfig | None = None) -> None:
        self._memory = memory
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        return wait(self.abatch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """Reads run before writes. The last put of a key counts."""
        listed = list(ops)
        for op in listed:
            validate_op_namespace(op)
        async with self._memory.using() as memory:
            results = [await _read(memory, op) for op in listed]
            puts = {(op.namespace, op.key): op for op in listed if isinstance(op, PutOp)}
            for op in puts.values():
                await _put(memory, op)
        return results


async def _read(memory: AsyncMemory, op: Op) -> Any:
    if isinstance(op, GetOp):
        note = await _known(memory, _place(op.namespace, op.key))
        if note and op.refresh_ttl:
            await _refresh(memory, note)
        return note and Item(**_item(note))
    if isinstance(op, SearchOp):
        return await _search(memory, op)
    if isinstance(op, ListNamespacesOp):
        return _copy(await _notes(memory)).batch([op])[0]
    return None


# ---------------------------------------------------------------- notes and items

# The key of a note is `langgraph/users/ana:prefs`. Quoted parts contain no / and no colon.


def _place(namespace: tuple[str, ...], key: str) -> str:
    parts = "/".join(quote(part, safe="") for part in namespace)
    return f"{_PREFIX}{parts}:{quote(key, safe='')}"


def _parts(place: str) -> tuple[tuple[str, ...], str]:
    namespace, _, key = place.removeprefix(_PREFIX).rpartition(":")
    return tuple(unquote(part) for part in namespace.split("/")), unquote(key)


def _item(note: Note) -> dict[str, Any]:
    namespace, key = _parts(note.key)
    created = datetime.fromisoformat(note.labels["created"])
    times = {"created_at": created.astimezone(), "updated_at": note.at.astimezone()}
    return {"value": note.value, "key": key, "namespace": namespace, **times}


async def _known(memory: AsyncMemory, place: str) -> Note | None:
    try:
        return await memory.note_at(place)
    except NotInMemory:
        return None


Notes = dict[tuple[tuple[str, ...], str], Note]  # by namespace and key


async def _notes(memory: AsyncMemory) -> Notes:
    """The newest first."""
    notes = sorted(await memory.notes(_PREFIX), key=lambda note: note.at, reverse=True)
    return {_parts(note.key): note for note in notes}


def _copy(notes: Notes) -> InMemoryStore:
    """LangGraph's own store filters items and lists namespaces."""
    copy = InMemoryStore()
    for (namespace, key), note in notes.items():
        copy.put(namespace, key, note.value)
    return copy


# ---------------------------------------------------------------- operations


async def _put(memory: AsyncMemory, op: PutOp) -> None:
    place = _place(op.namespace, op.key)
    known = await _known(memory, place)
    if op.value is None:
        if known is not None:
            await memory.forget(key=place)
        return
    now = datetime.now()
    labels = {"created": known.labels["created"] if known else now.isoformat()}
    if op.ttl is not None:
        labels["ttl"] = str(op.ttl)
    until = None if op.ttl is None else now + timedelta(minutes=op.ttl)
    text = op.key if op.index is False else "\n".join(_texts(op.value)) or op.key
    await memory.note(text, key=place, value=op.value, at=now, until=until, labels=labels)


async def _refresh(memory: AsyncMemory, note: Note) -> None:
    if minutes := note.labels.get("ttl"):
        until = datetime.now() + timedelta(minutes=float(minutes))
        given = {"key": note.key, "value": note.value, "at": note.at, "labels": note.labels}
        await memory.note(note.text, until=until, **given)


def _texts(value: Any) -> Iterator[str]:
    """All texts and numbers in a value, which recall can find."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)
    elif value is not None and str(value).strip():
        yield str(value)


async def _search(memory: AsyncMemory, op: SearchOp) -> list[SearchItem]:
    notes = await _notes(memory)
    prefix = tuple(op.namespace_prefix)
    fitting = op._replace(namespace_prefix=prefix, query=None, offset=0, limit=len(notes))
    items = _copy(notes).batch([fitting])[0]
    found = [notes[item.namespace, item.key] for item in items]
    scores: dict[str, float] = {}
    if op.query and found:
        evidence = await memory.recall(op.query)
        scores = {each.card.id: each.score for each in evidence.candidates}
        found.sort(key=lambda note: scores.get(note.card_id, float("-inf")), reverse=True)
    page = found[op.offset : op.offset + op.limit]
    if op.refresh_ttl:
        for note in page:
            await _refresh(memory, note)
    return [SearchItem(**_item(note), score=scores.get(note.card_id)) for note in page]
