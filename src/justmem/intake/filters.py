"""What a caller wants to recall from: sessions, labels, days."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime

from justmem.errors import InputError, InvalidSession, NotInMemory
from justmem.intake.sessions import as_labels, as_time
from justmem.ports import Filter, Store
from justmem.runtime.validation import as_count, as_id, describe


async def as_filter(
    store: Store,
    limit: int | None = None,
    labels: Mapping[str, str] | None = None,
    sessions: Iterable[str] | None = None,
    since: date | str | None = None,
    until: date | str | None = None,
    as_of: date | str | None = None,
) -> Filter:
    """NotInMemory for a session or a label that is not there."""
    if limit is not None:
        limit = as_count(limit, "limit", least=1)
    days = {"since": since, "until": until, "as_of": as_of}
    read = {name: as_day(value, name) for name, value in days.items()}
    if read["since"] and read["until"] and read["until"] < read["since"]:
        raise InputError(f"until ({read['until']}) is before since ({read['since']}).")
    ids = None
    if labels is not None or sessions is not None:
        ids = await _ids(store, labels, sessions)
    return Filter(limit, ids, read["since"], read["until"], read["as_of"])


def as_day(value: date | str | None, what: str) -> date | None:
    if value is None:
        return None
    try:
        return value.date() if isinstance(value, datetime) else as_time(value).date()
    except InvalidSession:
        raise InputError(
            f"{what} must be a day between 1900 and 2100, such as 2024-05-20, not "
            f"{describe(value)}."
        ) from None


async def _ids(
    store: Store, labels: Mapping[str, str] | None, sessions: Iterable[str] | None
) -> frozenset[str]:
    """Those that have all the labels, and are among the sessions."""
    records = await store.sessions()
    ids = {record.id for record in records}
    if sessions is not None:
        if isinstance(sessions, str) or not isinstance(sessions, Iterable):
            raise InputError(f"sessions must be a list of ids, not {describe(sessions)}.")
        wanted = {as_id(id, "session") for id in sessions}
        if missing := sorted(wanted - ids):
            raise NotInMemory(f"There is no session {missing[0]!r} in this space.")
        ids = wanted
    for name, value in as_labels(labels).items():
        with_it = {record.id for record in records if record.labels.get(name) == value}
        if not with_it:
            raise NotInMemory(f"No session or note has the label {name}={value}.")
        ids &= with_it
    return frozenset(ids)
