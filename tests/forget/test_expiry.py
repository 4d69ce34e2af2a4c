"""What is too old is left out of every answer, and goes for good when it is swept."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from justmem import AsyncMemory, Retention
from justmem.cli.app import app
from justmem.domain import Forgotten
from justmem.memory_parts import Parts
from justmem.server.expiry_task import ExpiryTask
from justmem.testing import HashEmbedder
from stories import HISTORY, NOW, Make, extract_history, plan, scripted

ANSWER = {"answer": "yes", "used": ["1"], "sufficient": True}


def told(**fields: object) -> object:
    return scripted(extract=extract_history, plan=plan(**fields), answer=ANSWER)


def counts(gone: Forgotten) -> tuple[int, int, int]:
    return gone.cards, gone.sessions, gone.turns


async def test_sessions_past_their_days_go_with_words_and_cards(make: Make) -> None:
    memory = await make(told(), retention=Retention(days=70))
    await memory.remember_many(HISTORY)

    soon = await memory.expiring(at=NOW)
    assert [record.id for record in soon.sessions] == ["run"]
    assert soon.forgotten == Forgotten(cards=2, sessions=1, turns=3)
    assert counts(await memory.expire(at=NOW)) == counts(soon.forgotten)

    assert [record.id for record in await memory.sessions()] == ["kyoto", "bike"]
    assert counts(await memory.expire(at=NOW)) == (0, 0, 0)
    assert [entry.verb for entry in await memory.log()][-1] == "forget"


async def test_a_session_that_went_on_keeps_what_was_said_later(make: Make) -> None:
    memory = await make(retention=Retention(days=30, source_days=60))
    await memory.append("I own a sled.", id="chat", at="2025-01-01")
    await memory.append("I own a kite.", id="chat", at="2025-03-01")
    for day, gone, left in (
        ("2025-03-05", (1, 0, 1), ["said: I own a kite."]),
        ("2025-03-06", (0, 0, 1), ["said: I own a kite."]),  # its words, after `source_days`
        ("2025-05-01", (1, 1, 2), []),
    ):
        soon = await memory.expiring(at=day)
        assert counts(await memory.expire(at=day)) == counts(soon.forgotten) == gone
        assert [card.fact for card in await memory.cards()] == left


async def test_turns_of_an_earlier_day_than_their_session_go(make: Make) -> None:
    memory = await make(retention=Retention(days=30))
    await memory.append("I own a kite.", id="chat", at="2025-03-01")
    await memory.append("I own a sled.", id="chat", at="2025-01-01")
    early = {"role": "user", "text": "I own a harp.", "at": "2025-01-01"}
    await memory.remember({"id": "all", "at": "2025-03-01", "turns": [early]})
    assert counts(await memory.expire(at="2025-03-05")) == (2, 1, 2)
    assert [turn.text for turn in (await memory.session("chat")).turns] == ["I own a kite.", ""]
    assert [card.fact for card in await memory.cards()] == ["said: I own a kite."]
    assert counts(await memory.expire(at="2025-03-05")) == (0, 0, 0)


async def test_cards_expire_by_their_day_when_their_words_were_dropped(make: Make) -> None:
    memory = await make(retention=Retention(days=30, source_days=0))
    await memory.append("I own a sled.", id="chat", at="2025-01-01")
    await memory.append("I own a kite.", id="chat", at="2025-03-01")
    assert counts(await memory.expire(at="2025-03-05")) == (1, 0, 0)
    assert [card.fact for card in await memory.cards()] == ["said: I own a kite."]
    assert counts(await memory.expire(at="2025-03-05")) == (0, 0, 0)


async def test_what_is_too_old_is_not_recalled_even_before_it_is_swept(make: Make) -> None:
    every = await make(told(source=True))
    await every.remember_many(HISTORY)
    before = await every.recall("How did my half marathon go?", at=NOW)
    assert "run" in {card.session_id for card in before.cards}
    assert "run" in {source.session_id for source in before.sources}

    some = await make(told(source=True), retention=Retention(days=60))
    after = await some.recall("How did my half marathon go?", at=NOW)
    assert "run" not in {c.card.session_id for c in after.candidates}
    assert "run" not in {source.session_id for source in after.sources}
    # On a day when it was young enough, it is there.
    then = await some.recall("How did my half marathon go?", at="2024-03-20")
    assert "run" in {card.session_id for card in then.cards}


async def test_nothing_goes_because_of_a_date_that_a_session_claims(make: Make) -> None:
    memory = await make(told(), retention=Retention(days=60))
    await memory.remember_many(HISTORY)
    await memory.remember({**HISTORY[2], "id": "future", "at": "2099-01-01"})
    assert len(await memory.sessions()) == 4


def test_exactly_as_old_as_allowed_is_not_too_old() -> None:
    assert Retention(days=10).first_day(NOW) == NOW.date() - timedelta(days=10)
    assert not Retention(source_days=10).words_expired(NOW - timedelta(days=10), NOW)
    assert Retention(source_days=10).words_expired(NOW - timedelta(days=11), NOW)


# ---------------------------------------------------------------- by command and by the server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A space with the history, and settings that keep sixty days."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "spaces"))
    file = tmp_path / "justmem.toml"
    file.write_text("[retention]\ndays = 60\n")
    monkeypatch.setenv("JUSTMEM_CONFIG", str(file))

    async def fill() -> None:
        from justmem.store.sqlite import open_store
        from stories import by_model

        store = await open_store(tmp_path / "spaces", "default")
        parts = Parts(HashEmbedder(64), **by_model(told()))
        async with AsyncMemory(store, parts) as memory:
            await memory.remember_many(HISTORY)

    asyncio.run(fill())
    return tmp_path


def test_the_command_shows_before_it_forgets(folder: Path) -> None:
    run = CliRunner().invoke
    shown = run(app, ["expire", "--at", "2024-06-01", "--preview", "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    counts = {name: found["forgotten"][name] for name in ("cards", "sessions", "turns")}
    assert counts == {"cards": 2, "sessions": 1, "turns": 3}
    assert [each["id"] for each in found["sessions"]] == ["run"]
    assert run(app, ["expire", "--at", "2024-06-01"]).exit_code == 2  # nobody to ask
    done = run(app, ["expire", "--at", "2024-06-01", "--yes"])
    assert "Forgotten: 2 cards, 1 session, 3 turns." in done.output
    again = run(app, ["expire", "--at", "2024-06-01"])
    assert (again.exit_code, "0 cards, 0 sessions, 0 turns" in again.output) == (0, True)


def test_without_a_setting_nothing_expires(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUSTMEM_CONFIG")
    (folder / "justmem.toml").unlink()
    result = CliRunner().invoke(app, ["expire", "--yes"])
    assert (result.exit_code, "[retention]" in result.output) == (2, True)


class OneSpace:
    """What ExpiryTask needs of the server's spaces."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory

    async def names(self) -> list[str]:
        return ["ana"]

    def use(self, space: str, *, create: bool) -> OneSpace:
        return self

    async def __aenter__(self) -> AsyncMemory:
        return self._memory

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_the_server_expires_by_itself_unless_its_clock_jumps(make: Make) -> None:
    start = NOW - timedelta(days=20)
    memory = await make(
        told(), retention=Retention(days=70), clock=lambda: start - timedelta(days=1)
    )
    await memory.remember_many(HISTORY)
    now = start
    task = ExpiryTask(OneSpace(memory), lambda: now)  # type: ignore[arg-type]
    for day, left in ((start, 3), (datetime(2099, 1, 1), 3), (NOW, 2)):
        now = day
        await task.look()
        assert len(await memory.sessions()) == left


async def test_a_server_that_starts_under_a_wrong_clock_expires_nothing(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    memory = await make(told(), retention=Retention(days=70), clock=lambda: NOW)
    await memory.remember_many(HISTORY)
    now = NOW + timedelta(days=3650)
    task = ExpiryTask(OneSpace(memory), lambda: now)  # type: ignore[arg-type]
    for _ in range(3):
        await task.look()
    assert len(await memory.sessions()) == len(HISTORY)
    assert "justmem expire" in caplog.text
    now = NOW + timedelta(days=1)  # it was set right
    await task.look()
    assert len(await memory.sessions()) == 2


async def test_a_wrong_clock_is_not_made_right_by_what_is_entered_under_it(make: Make) -> None:
    now = NOW
    memory = await make(told(), retention=Retention(days=70), clock=lambda: now)
    await memory.remember_many(HISTORY)
    now = NOW + timedelta(days=3650)
    task = ExpiryTask(OneSpace(memory), lambda: now)  # type: ignore[arg-type]
    now += timedelta(seconds=5)
    await memory.keep({**HISTORY[0], "id": "again"})  # before the first look
    assert (await memory.log(limit=1))[0].at.year == now.year
    for _ in range(2):
        await task.look()
    assert len(await memory.sessions()) == len(HISTORY) + 1


async def test_a_space_that_nobody_uses_expires_while_the_server_runs(make: Make) -> None:
    memory = await make(told(), retention=Retention(days=70), clock=lambda: NOW)
    await memory.remember_many(HISTORY)
    now = NOW + timedelta(hours=1)
    task = ExpiryTask(OneSpace(memory), lambda: now)  # type: ignore[arg-type]
    for _ in range(10):
        await task.look()
        now += timedelta(days=20)
    assert await memory.sessions() == []
