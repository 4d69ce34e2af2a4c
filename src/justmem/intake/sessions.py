"""Any input becomes a Session. What a caller wants to recall from becomes a Filter.

Accepted are text (one turn of the user), our own type, dicts, OpenAI-style message lists and chats
between named people. Times are local times of the speaker: a UTC offset is dropped, so that
"yesterday" means the speaker's yesterday and any two times can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any

from justmem.domain import NOTE, ROLES, Role, Session, Turn
from justmem.errors import InputError, InvalidSession, NotInMemory
from justmem.ports import Filter, Store
from justmem.runtime.validation import as_count, as_id, clean, describe

When = datetime | str | None  # a time that a caller gives
Day = date | str | None
SessionLike = str | Session | Mapping[str, Any] | Sequence[Mapping[str, Any]]

SHAPE = (
    'Expected {"at": "2024-05-20T14:30", "turns": [{"role": "user", "content": "..."}]}, '
    'a list of such messages, turns like {"speaker": "Ana", "text": "..."}, or a text.'
)
TIMES = "Write it as 2024-05-20T14:30, or as seconds or milliseconds since 1970."

_LONGEST_NAME = 200
_MOST_LABELS = 20
LONGEST_TURN = 1_000_000  # characters: more is a file, not an utterance
_ALIASES: Mapping[str, Role] = {"developer": "system", "function": "tool"}
TIME_KEYS = ("at", "date", "timestamp", "created_at", "create_time", "time")
_PARTS = {"image_url": "image", "input_image": "image", "input_audio": "audio"}


def as_session(
    value: SessionLike, *, at: object = None, id: str | None = None, otherwise: object = None
) -> Session:
    """`at` and `id` win over the value's own. `otherwise` is the time of a session that has none.

    Turns keep the numbers they have in the input: a turn without words stays, empty.
    """
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    known = value if isinstance(value, Session) else None
    if isinstance(value, Session | Mapping):
        fields: Mapping[str, Any] = dict(value)
    else:
        fields = {"turns": value}
    turns = [_turn(number, each) for number, each in enumerate(_messages(fields), 1)]
    if not any(turn.text.strip() or turn.forgotten for turn in turns):
        raise InvalidSession(f"The session holds no words: every turn is blank. {SHAPE}")
    own_at, own_id = _first(fields, TIME_KEYS), _first(fields, ("id", "session_id"))
    name = _id(id if id is not None else own_id)
    if name.startswith(NOTE) and not (known and known.is_note):
        raise InvalidSession(
            f"The id of a session cannot begin with {NOTE!r}: notes have such ids."
        )
    session = Session(
        id=name or "s",
        at=_when(at if at is not None else own_at, turns, otherwise),
        turns=tuple(turns),
        labels=as_labels(fields.get("labels")),
        until=known and known.until,
    )
    return session if name else session.model_copy(update={"id": id_from_content(session)})


def _messages(fields: Mapping[str, Any]) -> Sequence[Any]:
    if fields.get("turns") is not None and fields.get("messages") is not None:
        raise InvalidSession("A session has 'turns' or 'messages', not both. Remove one of them.")
    messages = _first(fields, ("turns", "messages"))
    if messages is None:
        raise InvalidSession(f"A session needs 'turns' or 'messages'. {SHAPE}")
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise InvalidSession(f"A session cannot be made from {describe(messages)}. {SHAPE}")
    if not messages:
        raise InvalidSession(f"The session has no turns. {SHAPE}")
    if isinstance(messages[0], Mapping) and "turns" in messages[0]:
        raise InvalidSession(
            "This is a list of several sessions: remember_many takes those, remember takes one."
        )
    return messages


def _first(fields: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def id_from_content(session: Session) -> str:
    """The id of a session that was given none."""
    return "s" + session.digest[:12]


def as_labels(value: object) -> dict[str, str]:
    """Names and values, both short texts."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > _MOST_LABELS:
        raise InvalidSession(
            f"Labels must be at most {_MOST_LABELS} names with values, such as "
            f'{{"project": "kitchen"}}, not {describe(value)}.'
        )
    for part in (part for pair in value.items() for part in pair):
        if not isinstance(part, str) or not part.strip() or len(part) > _LONGEST_NAME:
            raise InvalidSession(
                f"A label's name and value must be texts of 1 to {_LONGEST_NAME} characters, not "
                f"{describe(part)}."
            )
    return {clean(name): clean(text) for name, text in value.items()}


def _id(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = describe(value)  # some imports count their sessions
    if not isinstance(value, str):
        raise InvalidSession(f"A session's id must be a short text, not {describe(value)}.")
    name = clean(value).strip()
    if "\0" in value or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidSession(
            f"A session's id must have at most {_LONGEST_NAME} printable characters; "
            f"this one begins with {value[:40]!r}. Leave it out to have one made from the content."
        )
    return name


def _when(value: object, turns: Sequence[Turn], otherwise: object) -> datetime:
    if value is None:
        value = next((turn.at for turn in turns if turn.at is not None), otherwise)
    if value is None:
        raise InvalidSession(
            "The session does not say when it took place. Pass at (on the command line: --at now), "
            'or give it a field like "at": "2024-05-20T14:30".'
        )
    return as_time(value)


# ---------------------------------------------------------------- turns


def _turn(number: int, message: object) -> Turn:
    if not isinstance(message, Mapping | Turn):
        raise InvalidSession(f"Turn {number} is a {type(message).__name__}, not a message. {SHAPE}")
    fields, key = dict(message), dict(message).get("key")
    try:
        if not isinstance(key, str | None):
            raise InvalidSession(f"its key must be a text, not {describe(key)}.")
        role = _role(fields)
        at = _first(fields, TIME_KEYS)
        forgotten = fields.get("forgotten") is True
        return Turn(
            speaker=_speaker(_first(fields, ("speaker", "name")), role),
            role=role,
            text="" if forgotten else _text(fields),
            at=None if at is None else as_time(at),
            key=clean(key) if key else None,
            forgotten=forgotten,
        )
    except InvalidSession as error:
        raise InvalidSession(f"Turn {number}: {error}") from None


def _role(message: Mapping[str, Any]) -> Role:
    """Between named people everyone is user-side, unless a name is itself a role."""
    given, speaker = message.get("role"), message.get("speaker")
    if given is None and speaker is None:
        raise InvalidSession(f"it has neither a role nor a speaker. {SHAPE}")
    name = speaker if given is None else given
    name = name.strip().casefold() if isinstance(name, str) else ""
    if role := next((role for role in ROLES if role == name), None):
        return role
    if given is None:
        return "user"
    if name in _ALIASES:
        return _ALIASES[name]
    raise InvalidSession(
        f"the role {describe(given)} is unknown: use one of {', '.join(ROLES)}, "
        "or leave the role out and name the speaker."
    )


def _speaker(value: object, role: Role) -> str:
    if not isinstance(value, str | None):
        raise InvalidSession(f"the speaker is a {type(value).__name__}, not a name.")
    # One line: a name must not be able to look like the start of another turn.
    name = " ".join(clean(value or "").split())
    if len(name) > _LONGEST_NAME:
        raise InvalidSession(f"the speaker's name is longer than {_LONGEST_NAME} characters.")
    return name or role.capitalize()


def _text(message: Mapping[str, Any]) -> str:
    if not {"content", "text"} & message.keys() and not message.get("tool_calls"):
        raise InvalidSession(f"it has no 'content' and no 'text'. {SHAPE}")
    content = _first(message, ("content", "text"))
    parts = [content] if isinstance(content, str) else content or ()
    if isinstance(parts, bytes) or not isinstance(parts, Sequence):
        raise InvalidSession(f"its text is a {type(content).__name__}, not a string. {SHAPE}")
    calls = message.get("tool_calls")
    called = [_call(call) for call in calls] if isinstance(calls, Sequence) else []
    text = "\n".join(filter(None, [*map(_part, parts), *called]))
    if len(text) > LONGEST_TURN:
        raise InvalidSession(
            f"it has {len(text):,} characters. At most {LONGEST_TURN:,} are allowed. Split it into "
            "several turns, or describe the attachment instead of including it."
        )
    return clean(text)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InvalidSession(f"a part of its content is a {type(part).__name__}. {SHAPE}")
    words = _first(part, ("text", "refusal"))
    if isinstance(words, str):
        return words
    kind = str(part.get("type", "attachment"))
    return f"[{_PARTS.get(kind, kind)}]"


def _call(call: object) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return f"[tool call: {name}]" if isinstance(name, str) else "[tool call]"


# ---------------------------------------------------------------- times

_NUMBER = re.compile(r"\d{9,17}(?:\.\d*)?")
_EARLIEST_EPOCH = 1e8  # 1973: a smaller number is a date like 20240520, not a count of seconds
_FIRST_MILLISECONDS = 1e11
_YEARS = range(1900, 2101)


def as_time(value: object, zone: tzinfo | None = None) -> datetime:
    """A datetime, an ISO string, or an epoch in seconds or milliseconds (read as UTC). A UTC time
    becomes the local time of `zone`. Raises InvalidSession for anything else."""
    when = _checked_time(value)
    if zone is not None and when.tzinfo is not None and not when.utcoffset():
        when = when.astimezone(zone)
    return when.replace(tzinfo=None, fold=0)


def as_deadline(value: object, zone: tzinfo | None) -> datetime:
    """The same for a time that is compared with a clock: any offset, and an epoch, becomes the
    local time of `zone`, the clock's. None: of this machine."""
    when = _checked_time(value)
    if when.tzinfo is not None:
        when = when.astimezone(zone)
    return when.replace(tzinfo=None, fold=0)


def _checked_time(value: object) -> datetime:
    try:
        when = _time(value)
    except (ValueError, OverflowError, OSError):
        when = None
    if when is None:
        raise InvalidSession(f"{describe(value)} is not a time. {TIMES}")
    if when.year not in _YEARS:
        raise InvalidSession(
            f"{describe(value)} is in the year {when.year}, which cannot be right "
            f"(expected {_YEARS.start} to {_YEARS.stop - 1}). {TIMES}"
        )
    return when


def _time(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return datetime.fromisoformat(text)
        value = float(text)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not value >= _EARLIEST_EPOCH
    ):
        return None
    return datetime.fromtimestamp(value / 1000 if value >= _FIRST_MILLISECONDS else value, UTC)


# ---------------------------------------------------------------- filters


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
    first, last = as_day(since, "since") or date.min, as_day(until, "until") or date.max
    if last < first:
        raise InputError(f"until ({last}) is before since ({first}).")
    ids = None
    if labels is not None or sessions is not None:
        ids = await _ids(store, labels, sessions)
    return Filter(limit, ids, first, last, as_day(as_of, "as_of") or date.max)


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
    for name, value in (labels or {}).items():
        with_it = {record.id for record in records if record.labels.get(name) == value}
        if not with_it:
            raise NotInMemory(f"No session or note has the label {name}={value}.")
        ids &= with_it
    return frozenset(ids)
