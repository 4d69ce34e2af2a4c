"""LangGraph: a store in which each item is a note, stored exactly as given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

from justmem.domain import Note
from justmem.errors import NotInMemory
from justmem.integrations.safe import SafeMemory, wait
from justmem.memory import AsyncMemory

_PREFIX = "langgraph/"
Result = Any  # of an operation: an item, items, namespaces or None


class JustMemStore(BaseStore):
    """`search` with a query ranks by recall. Errors are raised."""

    supports_ttl = True

    def __init__(self, memory: SafeMemory, *, ttl: TTLConfig | None = None) -> None:
        self._memory = memory
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return wait(self.abatch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads run before writes. The last put of a key counts."""
        listed = list(ops)
        for op in listed:
            validate_op_namespace(op)
        async with self._memory.using() as memory:
            results = [await self._read(memory, op) for op in listed]
            puts = {(op.namespace, op.key): op for op in listed if isinstance(op, PutOp)}
            for op in puts.values():
                await _put(memory, op)
        return results

    async def _read(self, memory: AsyncMemory, op: Op) -> Result:
        if isinstance(op, GetOp):
            return await _get(memory, op)
        if isinstance(op, SearchOp):
            return await _search(memory, op)
        if isinstance(op, ListNamespacesOp):
            return await _namespaces(memory, op)
        return None


# ---------------------------------------------------------------- keys

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


# ---------------------------------------------------------------- operations


async def _known(memory: AsyncMemory, place: str) -> Note | None:
    try:
        return await memory.note_at(place)
    except NotInMemory:
        return None


async def _get(memory: AsyncMemory, op: GetOp) -> Item | None:
    note = await _known(memory, _place(op.namespace, op.key))
    if note is None:
        return None
    if op.refresh_ttl:
        await _refresh(memory, note)
    return Item(**_item(note))


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
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None and str(value).strip():
        yield str(value)


async def _search(memory: AsyncMemory, op: SearchOp) -> list[SearchItem]:
    found = [
        note
        for note in await memory.notes(_PREFIX)
        if _parts(note.key)[0][: len(op.namespace_prefix)] == tuple(op.namespace_prefix)
        and _fits(note.value, op.filter or {})
    ]
    found.sort(key=lambda note: note.at, reverse=True)
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


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda a, b: a == b,
    "$ne": lambda a, b: a != b,
    "$gt": lambda a, b: float(a) > float(b),
    "$gte": lambda a, b: float(a) >= float(b),
    "$lt": lambda a, b: float(a) < float(b),
    "$lte": lambda a, b: float(a) <= float(b),
}


def _fits(value: Any, wanted: Any) -> bool:
    """A filter: equal values, operators such as {"$gt": 3}, and the same for inner objects."""
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_compared(value, name, each) for name, each in wanted.items())
        return all(_fits(_inside(value, name), each) for name, each in wanted.items())
    return bool(value == wanted)


def _inside(value: Any, name: str) -> Any:
    """By a key, or by a path such as `user.name`."""
    if isinstance(value, Mapping) and name in value:
        return value[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _compared(value: Any, operator: str, wanted: Any) -> bool:
    if operator not in _COMPARE:
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        return bool(_COMPARE[operator](value, wanted))
    except (TypeError, ValueError):
        return False


async def _namespaces(memory: AsyncMemory, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    known = {_parts(note.key)[0] for note in await memory.notes(_PREFIX)}
    for condition in op.match_conditions or ():
        from_end = condition.match_type == "suffix"
        known = {each for each in known if _matches(each, tuple(condition.path), from_end)}
    if op.max_depth is not None:
        known = {each[: op.max_depth] for each in known}
    return sorted(known)[op.offset : op.offset + op.limit]


def _matches(namespace: tuple[str, ...], path: tuple[str, ...], from_end: bool) -> bool:
    if len(namespace) < len(path):
        return False
    part = namespace[len(namespace) - len(path) :] if from_end else namespace[: len(path)]
    return all(wanted in ("*", known) for known, wanted in zip(part, path, strict=True))
