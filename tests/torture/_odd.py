"""Random input: right, wrong, and mixtures of both."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from random import Random
from typing import Any

SAID = (
    "I bought a gravel bike today for 1,450 euros.",
    "My sister Ines moved to Porto last week.",
    "I love gardens, and I hate queues.",
    "Could you plan three days in Kyoto for me?",
    "We meet every Tuesday at 7 pm.",
    "My knee hurts on stairs since 3 May 2024.",
    "¿Dónde está la biblioteca? Ich heiße Jürgen.",
    "我去年搬到了上海。",
)
ASKED = (
    "What did my bike cost?",
    "When did Ines move?",
    "How many times did I travel in 2024?",
    "What exactly did you write about Kyoto?",
    "I am tired of queues.",
)
_STRANGE = (
    *("", " ", "\u2028\u2029\x85\u3000\xa0", "\0", "a\0b", "\ud83d", "\udc00\ud800", "x\udcffy"),
    *("\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\r\nSet-Cookie: a=b", "\u202eevil\u202c"),
    *("שלום עולם", "e\u0301" * 40, "👩‍👩‍👧‍👦" * 5, "²½Ⅳ٣", "ﬀİßŉ", "'; DROP TABLE cards; --"),
    *('" OR "1"="1', 'NEAR("a" "b", 5) AND cards:* NOT ^x'),
    *("{0.__class__} %s %n ${HOME} {{7*7}}", "[red]x[/red] [/] [link=file:///]y[/link]"),
    *("<script>alert(1)</script>", "| | | | | |", "s#1", "#", "x#" + "9" * 5000, "c" + "0" * 12),
    *("s1.4", "../../etc/passwd", "/dev/null/x", "~nobody-here/x", "con", "..", ".", "-"),
    *("--help", "C:\\x\\y", "9" * 5000, "-1", "1e999", "NaN", "null", "true", "[]", '{"a":'),
    *("2024-02-30", "9999-99-99", "\ufeff", "\ufffe", "\U0010ffff"),
)


def text(r: Random, *, longest: int = 20_000) -> str:
    match r.randrange(12):
        case 0 | 1 | 2:
            return r.choice(SAID)
        case 3 | 4 | 5 | 6:
            return r.choice(_STRANGE)
        case 7:
            return "".join(chr(r.randrange(0x110000)) for _ in range(r.randrange(1, 60)))
        case 8:
            return r.choice(SAID) + r.choice(_STRANGE) + r.choice(SAID)
        case 9:
            piece = r.choice(("a", "(", "? ", ". ", "9", "I am ", "\n", "é", "\u0300", "<", "# "))
            return piece * r.choice((50, 1000, longest // len(piece)))
        case 10:
            return " ".join(r.choice(SAID) for _ in range(r.randrange(1, 30)))
        case _:
            return "".join(r.choice(_STRANGE) for _ in range(3))


def name(r: Random) -> str:
    """A name of a space, a session, a subject or a speaker."""
    usual = ("ana", "bike", "run", "User", "Ines", "s1", "Ana Maria", "ünï")
    return r.choice(usual) if r.random() < 0.5 else text(r, longest=1000)


_WHOLE = (0, 1, 2, 10, -1, 255, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**5000)
_OTHER = (0.5, -0.0, 1e308, float("inf"), float("-inf"), float("nan"), True, False)


def number(r: Random) -> Any:
    return r.choice((*_WHOLE, *_OTHER))


def moment(r: Random) -> Any:
    """A time, in many forms."""
    good = ("2024-05-20T14:30", "2024-05-20", 1716215400)
    if r.random() < 0.85:
        return r.choice(good)
    return r.choice(
        (
            *("2024-02-30", "0000-00-00", "24:00", "2024-W10-1", "now"),
            *("٢٠٢٤-٠١-٠١", "2024-05-20T14:30:00+99:99", "2024-05-20T14:30Z", "20240520", ""),
            *("1066-10-14", "9999-12-31", "1/1/0", "9" * 18, "2024-05-20\0", "\ud800"),
            *(-1, 0, 10**18, 10**400, 1e400, float("nan"), True, None, b"2024-05-20", [2024]),
            *(datetime(1, 1, 1), datetime.max, date(2024, 5, 20), time(3), timedelta(days=1)),
            datetime(2024, 5, 20, tzinfo=UTC),
            datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-23))),
        )
    )


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _looped() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


_WRONG: tuple[Callable[[], Any], ...] = (
    *(list, dict, set, object, _looped, lambda: None, lambda: len, lambda: Random, lambda: 1j),
    *(lambda: b"\xff\xfe", lambda: bytearray(b"x"), lambda: (1, 2), lambda: iter(())),
    *(lambda: Decimal("NaN"), lambda: PurePosixPath("/x"), lambda: ValueError("x")),
    *(lambda: {"a": {"b": [{"c": None}]}}, lambda: {1: 2, None: 3}, lambda: _nested(5000)),
    lambda: datetime(2024, 5, 20),
)


def wrong(r: Random) -> Any:
    """A value of an unexpected type."""
    return number(r) if r.random() < 0.3 else r.choice(_WRONG)()


def mostly(r: Random, right: Callable[[Random], Any]) -> Any:
    return right(r) if r.random() < 0.9 else wrong(r)


# ---------------------------------------------------------------- conversations


def turn(r: Random) -> Any:
    if r.random() < 0.02:
        return wrong(r)
    made: dict[str, Any] = {}
    if r.random() < 0.95:
        roles = ("user", "user", "assistant", "system", "tool", "developer")
        made["role"] = r.choice(roles) if r.random() < 0.97 else mostly(r, name)
    if r.random() < 0.3:
        made["speaker"] = mostly(r, name)
    body = r.choice(("content", "content", "text"))
    if r.random() < 0.1:
        parts = [{"type": "text", "text": text(r)}, {"type": "image_url"}, wrong(r)]
        made[body] = r.sample(parts, r.randrange(4))
    elif r.random() < 0.98:
        made[body] = text(r) if r.random() < 0.97 else wrong(r)
    if r.random() < 0.1:
        made["at"] = moment(r)
    if r.random() < 0.05:
        made["tool_calls"] = r.choice(([{"function": {"name": text(r)}}], wrong(r), [wrong(r)]))
    if r.random() < 0.05:
        made[text(r)] = wrong(r)
    return made


def session(r: Random) -> Any:
    """A session that can usually be remembered."""
    if r.random() < 0.05:
        return wrong(r)
    turns = [turn(r) for _ in range(r.choice((0, 1, 1, 2, 3, 5)))]
    if r.random() < 0.3:
        return turns
    made: dict[str, Any] = {r.choice(("turns", "turns", "messages")): turns}
    if r.random() < 0.9:
        made["at"] = moment(r)
    if r.random() < 0.6:
        made["id"] = mostly(r, name)
    if r.random() < 0.05:
        made[text(r)] = wrong(r)
    return made


# ---------------------------------------------------------------- JSON and files


def _plain(value: Any) -> Any:
    """The part of a value that JSON can hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, str | int | float | None):
        return value if not isinstance(value, int) or abs(value) < 10**400 else 10**400
    return [_plain(each) for each in value[:3]] if isinstance(value, list) and value else "?"


def as_json(value: Any) -> str:
    try:
        return json.dumps(_plain(value))
    except RecursionError:
        return "[" * 5000


def broken(r: Random, data: bytes) -> bytes:
    """The same with a few bytes changed, cut off, or put in twice."""
    changed = bytearray(data)
    for _ in range(r.choice((0, 0, 1, 3))):
        if changed:
            place = r.randrange(len(changed))
            match r.randrange(4):
                case 0:
                    changed[place] = r.randrange(256)
                case 1:
                    del changed[place:]
                case 2:
                    del changed[place : place + r.randrange(8)]
                case _:
                    changed[place:place] = r.choice((b"\0", b"\xff", b"}", b'"', b"[[[", b"\n"))
    return bytes(changed)


def _exported(r: Random) -> Any:
    """An export of ChatGPT or Claude with wrong values in it."""
    said = {"parts": [mostly(r, text)], "content_type": "text"}
    message = {"author": {"role": r.choice(("user", "assistant", "odd"))}, "content": said}
    node = {"message": mostly(r, lambda _: message), "parent": mostly(r, name), "children": []}
    chatgpt = {"title": mostly(r, text), "create_time": moment(r), "mapping": {"a": node}}
    chatgpt["current_node"] = mostly(r, lambda _: "a")
    line = {"sender": r.choice(("human", "assistant", 3)), "text": mostly(r, text)}
    line["created_at"] = moment(r)
    claude = {"uuid": mostly(r, name), "name": mostly(r, text), "created_at": moment(r)}
    claude["chat_messages"] = [mostly(r, lambda _: line)]
    return r.choice((chatgpt, claude))


def file(r: Random) -> bytes:
    """A file to remember."""
    match r.randrange(10):
        case 0 | 1 | 2:
            data = as_json(session(r)).encode()
        case 3:
            data = as_json([session(r) for _ in range(3)]).encode()
        case 4:
            data = "\n".join(as_json(session(r)) for _ in range(4)).encode()
        case 5 | 6:
            data = as_json([_exported(r) for _ in range(2)]).encode()
        case 7:
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", r.choice((0, 8))) as archive:
                archive.writestr(r.choice(("conversations.json", "x/../y", "a.txt")), file(r))
            data = packed.getvalue()
        case 8:
            wide = r.choice(("utf-16", "utf-16-be", "latin-1"))
            data = text(r).encode(wide, "replace")
        case _:
            nested = (b"[" * 100_000, b'{"turns":' * 5000, b"9" * 5000)
            data = r.choice((*nested, r.randbytes(200), b"PK\x03\x04"))
    return broken(r, data)
