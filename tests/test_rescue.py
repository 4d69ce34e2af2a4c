"""Rescuing: what can be read of a damaged file comes out, and what is gone is named."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from justmem.cli.app import app
from justmem.copying import copy, fingerprint
from justmem.domain import Rescued
from justmem.errors import InvalidFile, StoreError
from justmem.stores import rescuing
from justmem.stores.opening import open_store
from justmem.stores.storage import Folder
from store_contract import MAY, card, remember, session
from test_copying import filled

PAGE = 4096
LONG = "a very long turn about tea and travels " * 500  # goes on over several pages


async def rescued(file: Path, to: Path) -> tuple[Rescued, Any]:
    target = await Folder(to).open_copy("ana")
    return await rescuing.rescue(rescuing.read(file), target), target


def scribble(file: Path, start: bytes) -> None:
    file.write_bytes(start + file.read_bytes()[len(start) :])


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    store = await open_store(tmp_path / "old", "ana")
    await filled(store)
    long = session("long", LONG, at=MAY + timedelta(90))
    await remember(store, long, "travels a lot")
    await store.close()
    return tmp_path / "old" / "ana.db"


async def test_a_sound_file_comes_out_whole(file: Path, tmp_path: Path) -> None:
    done, target = await rescued(file, tmp_path / "new")
    source = await Folder(file.parent).open_copy("ana")
    ids = [record.id for record in await source.store.sessions()]
    assert (done.sessions, done.cards, done.unreadable) == (len(ids), 12, 0)
    assert [done.anew, done.doubtful, done.lost, done.loose] == [()] * 4
    prints = [[fingerprint(each) for each in await side.wholes(ids)] for side in (source, target)]
    assert prints[0] == prints[1]
    assert (await copy(source, target)).spent_tokens == 123  # compares all the rest, too
    await source.store.close()
    await target.store.close()


async def test_what_the_log_holds_comes_out(file: Path, tmp_path: Path) -> None:
    store = await open_store(file.parent, "ana")
    await remember(store, session("late", at=MAY + timedelta(91)), "likes rain")
    done, target = await rescued(file, tmp_path / "new")
    assert (await target.store.session("late")).turns == session("late").turns
    assert not done.lost
    await store.close()
    await target.store.close()


async def test_what_was_forgotten_stays_so(file: Path, tmp_path: Path) -> None:
    _, target = await rescued(file, tmp_path / "new")
    assert "s2" not in [record.id for record in await target.store.sessions()]
    assert card(session("s1"), "fact 1").id in await target.forgotten()
    again = session("s1", "said differently", at=MAY + timedelta(1))
    await remember(target.store, again, "fact 1", "new")
    assert (await target.store.stats()).cards == 12
    await target.store.close()


async def test_a_session_whose_cards_are_damaged_waits_for_new_ones(
    file: Path, tmp_path: Path
) -> None:
    change(file, "UPDATE cards SET turns = '9' WHERE session = 1")
    done, target = await rescued(file, tmp_path / "new")
    assert done.anew == ("s0",)
    assert "s0" in [each.id for each in await target.store.waiting()]
    assert (await target.store.check()).sound
    await target.store.close()


async def test_other_words_are_brought_and_named(file: Path, tmp_path: Path) -> None:
    change(file, "UPDATE texts SET turns = replace(turns, 'turn 0', 'turn X') WHERE session = 1")
    done, target = await rescued(file, tmp_path / "new")
    assert done.doubtful == ("s0",)
    assert (await target.store.session("s0")).turn(1).text == "turn X"
    await target.store.close()


async def test_an_id_that_an_index_knows_otherwise_is_doubted(file: Path, tmp_path: Path) -> None:
    overwrite(file, b"long2023", b"lung2023")  # the row, where its time follows; not the index
    done, target = await rescued(file, tmp_path / "new")
    assert done.doubtful == ("lung",)
    await target.store.close()


async def test_lost_words_are_named_with_what_their_cards_said(file: Path, tmp_path: Path) -> None:
    change(file, "DELETE FROM texts WHERE session = 1")
    done, target = await rescued(file, tmp_path / "new")
    assert done.lost == ("s0",)
    assert "Ana fact 0" in done.loose
    assert "s0" not in [record.id for record in await target.store.sessions()]
    await target.store.close()


async def test_words_without_their_row_are_dated_by_their_cards(file: Path, tmp_path: Path) -> None:
    change(file, "DELETE FROM sessions WHERE key = 1")
    done, target = await rescued(file, tmp_path / "new")
    assert done.doubtful == ("rescued-1",)
    found = await target.store.session("rescued-1")
    assert (found.turn(1).text, found.at) == ("turn 0", MAY)
    await target.store.close()


async def test_a_space_without_sources_stays_one(file: Path, tmp_path: Path) -> None:
    store = await open_store(file.parent, "ana")
    await store.drop_sources()
    await store.close()
    done, target = await rescued(file, tmp_path / "new")
    assert await target.store.sources() == "drop"
    assert (done.sessions, done.cards, done.lost, done.anew) == (9, 12, (), ())
    assert (await target.store.check()).sound
    await target.store.close()


async def test_the_ledger_comes_along(file: Path, tmp_path: Path) -> None:
    _, target = await rescued(file, tmp_path / "new")
    assert await target.store.spent(date(2023, 5, 7)) == 120
    await target.store.close()


def without_each_page(file: Path) -> Iterator[Path]:
    sound = file.read_bytes()
    for page in range(len(sound) // PAGE):
        hurt = bytearray(sound)
        hurt[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        path = file.with_name(f"without-{page}.db")
        path.write_bytes(hurt)
        yield path


async def test_noise_over_the_first_page_does_not_make_a_file_look_locked(
    file: Path, tmp_path: Path
) -> None:
    scribble(file, np.random.default_rng(1).bytes(PAGE))
    done, target = await rescued(file, tmp_path / "new")
    assert done.sessions > 5
    await target.store.close()


async def test_every_page_may_be_blank(file: Path, tmp_path: Path) -> None:
    for path in without_each_page(file):
        done, target = await rescued(path, tmp_path / path.stem)
        assert (await target.store.check()).sound
        assert done.sessions + len(done.lost) >= 9, path.stem
        await target.store.close()


def overwrite(file: Path, old: bytes, new: bytes) -> None:
    assert file.read_bytes().count(old) == 1
    file.write_bytes(file.read_bytes().replace(old, new))


def change(file: Path, sql: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute(sql)


# ---------------------------------------------------------------- the command


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["rescue", *map(str, arguments)])


def test_the_command_brings_and_names(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"broken" * 20 + file.read_bytes()[120:])
    with pytest.raises(StoreError, match="justmem rescue"):
        asyncio.run(open_store(file.parent, "ana"))
    result = run(file, "--to", tmp_path / "new", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sessions"] == 9
    again = run(file, "--to", tmp_path / "new")
    assert again.exit_code == 2
    assert "choose another" in again.output
    named = run(file, "--to", tmp_path / "new", "--as", "ben")
    assert "ben: 9 sessions" in named.output


def test_the_command_says_when_words_are_lost(file: Path, tmp_path: Path) -> None:
    change(file, "DELETE FROM texts WHERE session = 1")
    result = run(file, "-o", tmp_path / "new")
    assert result.exit_code == 5
    assert "words lost: s0" in result.output


@pytest.mark.parametrize("content", [b"", b"nothing of the kind" * 1000])
def test_a_file_with_nothing_in_it_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(InvalidFile, match="holds nothing"):
        rescuing.read(tmp_path / "x.db")
    with pytest.raises(InvalidFile, match="cannot be read"):
        rescuing.read(tmp_path / "missing.db")
