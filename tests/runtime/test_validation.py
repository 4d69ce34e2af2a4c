"""What callers hand in is taken, or refused in a sentence."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from justmem.config import load
from justmem.domain import quote_place
from justmem.errors import InputError, InvalidSession, InvalidSetting, NotInMemory
from justmem.runtime.validation import as_count, as_id, as_path, as_text, describe
from justmem.server.run import listening
from stories import BIKE, Make


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def test_every_value_can_be_shown_in_a_message() -> None:
    assert describe("soonish") == "'soonish'"
    assert describe("x" * 100) == "'" + "x" * 60 + "…'"
    assert describe(3) == "3"
    assert describe(None) == "None"
    assert describe(10**5000) == "an int"
    assert describe(deep(5000)) == "a list"


def test_counts_are_whole_numbers_that_a_store_can_hold() -> None:
    assert as_count(10**30, "limit") == 2**63 - 1
    for wrong in (-1, 1.5, "5", True, None):
        with pytest.raises(InputError, match="limit must be a whole number"):
            as_count(wrong, "limit")


def test_text_is_made_fit_to_be_written_down() -> None:
    assert as_text("a\0b\ud83d\ude00\ud83d", "text") == "ab😀\ufffd"
    with pytest.raises(InputError, match="text must be a text, not a bytes"):
        as_text(b"x", "text")


def test_nothing_has_an_impossible_id() -> None:
    with pytest.raises(NotInMemory, match="There is no card"):
        as_id("x" * 2000, "card")
    with pytest.raises(InputError, match=r"a session cannot hold a NUL character: 'a\\x00b'"):
        as_id("a\0b", "session")
    assert quote_place("s1#" + "9" * 5000) is None
    assert quote_place("s1#12") == ("s1", 12)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, "~nobody-of-that-name/x"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting):
        as_path(name)


def test_settings_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "justmem.toml"
    file.write_text(f"space = {'[' * 5000}")
    with pytest.raises(InvalidSetting, match="nested too deeply"):
        load(file)


async def test_a_wrong_type_is_refused_before_the_store_sees_it(make: Make) -> None:
    memory = await make()
    await memory.remember(BIKE)
    for attempt in (
        lambda: memory.ask("What?", speaker=3),
        lambda: memory.ask("What?", speaker="x" * 201),
        lambda: memory.cards(subject=3),
        lambda: memory.cards(limit=-1),
        lambda: memory.card(b"c"),
        lambda: memory.forget(everything="no"),
        lambda: memory.forget(card=["c"]),
        lambda: memory.retry(on_done="call me"),
        lambda: memory.remember_many(3),
        lambda: memory.remember(BIKE, at=deep(5000)),
        lambda: memory.remember(BIKE, id=True),
    ):
        with pytest.raises(InputError):
            await attempt()
    assert len(await memory.sessions()) == 1


async def test_a_blank_speaker_is_nobody(make: Make) -> None:
    memory = await make()
    assert (await memory.recall("What?", speaker=" \0 ")).speaker is None


async def test_calls_of_tools_that_are_no_list_are_passed_over(make: Make) -> None:
    memory = await make()
    turn = {"role": "user", "content": "I moved to Porto.", "tool_calls": 5}
    done = await memory.remember({"at": "2024-05-20", "turns": [turn]})
    assert done.cards


async def test_a_number_is_an_id_unless_it_is_no_name_any_more(make: Make) -> None:
    memory = await make()
    done = await memory.remember({**BIKE, "id": 17})
    assert done.session_id == "17"
    with pytest.raises(InvalidSession):
        await memory.remember({**BIKE, "id": 1.5})


def test_small_answers_are_sent_at_once() -> None:
    """With Nagle's delay, an answer on a kept connection waits for the client's acknowledgement."""
    with listening("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["\0", "\ud800"])
def test_a_host_that_cannot_be_is_an_error_of_the_system(host: str) -> None:
    with pytest.raises(OSError, match="not the name of a host"):
        listening(host, 0)
