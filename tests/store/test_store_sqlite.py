"""The embedded store: the contract of all stores, and what is special to files."""
# ruff: noqa: ASYNC240 -- looking at small files from a test's own event loop

from __future__ import annotations

import asyncio
import math
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from justmem.domain import Quarantined
from justmem.errors import (
    InvalidSetting,
    NotInMemory,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreTooNew,
)
from justmem.ports import session_in
from justmem.store import arrays, schema, sqlite
from justmem.store.files import PAGE
from justmem.store.sqlite import open_store, spaces
from justmem.store.sqlite_connection import OLD_APPLICATIONS
from justmem.store.store import SqlStore
from store_contract import (
    DIM,
    OpenSpace,
    all_facts,
    card,
    derived,
    facts,
    found,
    remember,
    session,
    view,
)
from stores import cards_at, fail, search, settle, waiting

HERE = Path(__file__).parents[1]
OLD_FILE = HERE / "fixtures/stores/version-1.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spaces"


@pytest.fixture
async def open_space(folder: Path) -> AsyncIterator[OpenSpace]:
    opened: list[SqlStore] = []

    async def open_space(space: str = "ana", **options: Any) -> SqlStore:
        store = await open_store(folder, space, **options)
        opened.append(store)
        return store

    yield open_space
    for store in opened:
        await store.close()


class TestFiles:
    async def test_files_are_private_to_their_owner(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        await remember(await open_space(), session(), "likes tea")
        names = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        assert names == {"ana.db": 0o600, "ana.db-wal": 0o600, "ana.db-shm": 0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    async def test_any_name_makes_a_space_of_its_own_inside_the_folder(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        names = ["ana", "Ana", "ANA", "a/b", "a\\b", "../../etc/passwd", "/etc/passwd", ".", ".."]
        names += ["con", "a b", "a-b", "x" * 500, "日本", "日本語", "a.db", "🙂", "-", "~"]
        for name in names:
            await (await open_space(name)).keep(session(name))
        assert len({store.path for store in [await open_space(name) for name in names]}) == len(
            names
        )
        assert all(file.parent == folder for file in folder.rglob("*"))
        assert all(len(file.name) < 80 for file in folder.iterdir())
        assert spaces(folder) == sorted(names)
        for name in names:
            (record,) = await (await open_space(name)).sessions()
            assert record.id == name

    async def test_a_plain_name_is_its_file_name(self, open_space: OpenSpace, folder: Path) -> None:
        assert (await open_space("ana-2_x")).path == folder / "ana-2_x.db"

    @pytest.mark.parametrize(
        ("name", "says"),
        [
            ("", "is empty"),
            ("  \n", "is empty"),
            ("a\0b", r"NUL character: 'a\\x00b'"),
            ("\ud800", "not valid Unicode"),
        ],
    )
    async def test_a_space_needs_a_name(self, open_space: OpenSpace, name: str, says: str) -> None:
        with pytest.raises(InvalidSetting, match=f"name of a space .*{says}"):
            await open_space(name)

    async def test_a_missing_space_is_not_made_unless_asked_for(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        with pytest.raises(NotInMemory, match="no space 'ana'"):
            await open_space("ana", create=False)
        assert not folder.exists()
        assert spaces(folder) == []

    async def test_a_file_of_another_program_is_not_opened(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        folder.mkdir()
        with sqlite3.connect(folder / "photos.db") as other:
            other.execute("CREATE TABLE photos (name TEXT)")
        other.close()
        with pytest.raises(StoreDamaged, match="another program"):
            await open_space("photos")

    async def test_erasing_removes_the_files_of_the_space_and_no_others(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        store = await open_space("ana")
        await remember(store, session(), "likes tea")
        (folder / "ana.db.bak").write_text("mine")
        await store.forget(everything=True)
        assert [file.name for file in folder.iterdir()] == ["ana.db.bak"]
        with pytest.raises(StoreError, match="closed"):
            await store.sessions()

    async def test_writing_to_a_space_that_another_process_erased_is_an_error(
        self, open_space: OpenSpace
    ) -> None:
        one, other = await open_space(), await open_space()
        await one.forget(everything=True)
        with pytest.raises(StoreError, match="erased by another process"):
            await other.keep(session())

    async def test_a_folder_that_cannot_be_made_is_a_plain_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreError, match="choose a folder"):
            await open_store(tmp_path / "file" / "spaces", "ana")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    async def test_a_folder_turned_read_only_is_a_plain_sentence(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        await (await open_space()).close()
        folder.chmod(0o500)
        (folder / "ana.db").chmod(0o400)
        with pytest.raises(StoreError, match="permissions"):
            await (await open_space()).keep(session())
        folder.chmod(0o700)


class TestMigrations:
    @pytest.fixture
    def old(self, folder: Path) -> Path:
        folder.mkdir()
        return Path(shutil.copy(OLD_FILE, folder))

    async def test_a_file_of_an_earlier_format_is_explained_and_left_as_it_was(
        self, open_space: OpenSpace, old: Path
    ) -> None:
        before = old.read_bytes()
        with pytest.raises(StoreError, match=r"earlier format.*justmem export.*justmem import"):
            await open_space("version-1")
        assert old.read_bytes() == before
        assert [file.name for file in old.parent.iterdir()] == [old.name]

    @pytest.mark.parametrize("application", OLD_APPLICATIONS)
    async def test_a_file_is_of_an_earlier_format_by_its_header(
        self, open_space: OpenSpace, folder: Path, application: int
    ) -> None:
        await (await open_space()).close()
        with closing(sqlite3.connect(folder / "ana.db")) as db:
            db.execute(f"PRAGMA application_id = {application}")
        with pytest.raises(StoreError, match="earlier format"):
            await open_space()

    async def test_every_migration_is_reached_by_those_who_open_at_once(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await (await open_store(folder, "ana")).close()
        added = (*schema.MIGRATIONS, "CREATE TABLE extra (x TEXT); INSERT INTO extra VALUES ('1');")
        monkeypatch.setattr(schema, "MIGRATIONS", added)
        stores = await asyncio.gather(*(open_store(folder, "ana") for _ in range(3)))
        for store in stores:
            await store.close()
        with sqlite3.connect(folder / "ana.db") as db:
            assert db.execute("PRAGMA user_version").fetchone() == (len(added),)
            assert db.execute("SELECT count(*) FROM extra").fetchone() == (1,)
        db.close()

    def test_a_new_space_may_be_opened_by_many_at_once(self, folder: Path) -> None:
        children = [child(folder, f"await store.keep(session('s{n}'))") for n in range(3)]
        assert [process.wait() for process in children] == [0] * 3
        with sqlite3.connect(folder / "ana.db") as db:
            assert db.execute("SELECT count(*) FROM sessions").fetchone() == (3,)
        db.close()

    async def test_a_failed_migration_leaves_the_file_as_it_was(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await (await open_store(folder, "ana")).close()
        broken = (*schema.MIGRATIONS, "CREATE TABLE extra (x TEXT); CREATE TABLE spaces (x TEXT);")
        monkeypatch.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(StoreError, match="already exists"):
            await open_store(folder, "ana")
        with sqlite3.connect(folder / "ana.db") as db:
            assert db.execute("PRAGMA user_version").fetchone() == (len(broken) - 1,)
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        db.close()
        assert "extra" not in tables

    async def test_a_file_of_a_newer_justmem_is_left_alone(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        await (await open_space()).close()
        with sqlite3.connect(folder / "ana.db") as db:
            db.execute("PRAGMA user_version = 99")
        db.close()
        with pytest.raises(StoreTooNew, match=r"version 99.*upgrade JustMem"):
            await open_space()

    async def test_the_rows_of_a_file_can_be_read_with_plain_sql(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        await remember(await open_space(), session(), "adopted a kitten")
        with sqlite3.connect(folder / "ana.db") as db:
            (told,) = db.execute("SELECT session, fact, turns FROM cards").fetchall()
            said = db.execute("SELECT number, speaker, text FROM turns").fetchall()
        db.close()
        assert told == ("s1", "adopted a kitten", "1")
        assert said == [(1, "Ana", "I adopted a kitten called Pesto."), (2, "Ben", "How lovely!")]


class TestTrouble:
    async def test_a_file_that_is_no_store_is_called_damaged(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        folder.mkdir()
        (folder / "ana.db").write_bytes(b"This is a letter, not a store. " * 200)
        with pytest.raises(StoreDamaged, match=r"ana\.db cannot be read.*restore it"):
            await open_space()
        assert spaces(folder) == ["ana"]

    async def test_a_damaged_page_is_noticed_when_it_is_read(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        store = await open_space()
        for n in range(50):
            await remember(store, session(f"s{n}"), *(f"fact {n} {m}" for m in range(9)))
        await store.close()
        path = folder / "ana.db"
        data = bytearray(path.read_bytes())
        for page in range(3 * PAGE, len(data), PAGE):
            data[page : page + 100] = b"\xff" * 100
        path.write_bytes(data)
        with pytest.raises(StoreDamaged, match="restore it"):
            await all_facts(await open_space())

    async def test_a_session_whose_words_were_damaged_is_named_so_and_the_others_are_read(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space()
        for id in ("s1", "s2"):
            await remember(store, session(id), f"fact of {id}")
        with sqlite3.connect(store.path) as db:
            db.execute("UPDATE turns SET text = substr(text, 1, 9) WHERE session = 's1'")
        db.close()
        with pytest.raises(StoreDamaged, match="restore the store"):
            await session_in(store, "s1")
        assert await session_in(store, "s2") == session("s2")
        assert await all_facts(store) == ["fact of s1", "fact of s2"]

    async def test_a_store_locked_by_another_is_busy_for_writers_and_open_to_readers(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space(patience=0.05)
        await store.bind("test", DIM)
        await remember(store, session(), "likes tea")
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="try again"):
            await store.keep(session("s2"))
        assert await all_facts(store) == ["likes tea"]
        await store.bind("test", DIM)
        other.execute("ROLLBACK")
        other.close()
        assert (await store.keep(session("s2"))).state == "pending"

    async def test_a_write_that_waits_holds_up_neither_reads_nor_the_event_loop(
        self, open_space: OpenSpace
    ) -> None:
        store = await open_space(patience=30)
        await remember(store, session(), "likes tea")
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        write = asyncio.create_task(store.keep(session("s2")))
        for _ in range(5):
            assert len((await found(store, "tea"))[0]) == 1
        assert not write.done()
        other.execute("ROLLBACK")
        other.close()
        assert (await write).state == "pending"

    async def test_a_full_disk_loses_nothing_that_was_there(self, open_space: OpenSpace) -> None:
        store = await open_space()
        await remember(store, session(), "likes tea")
        big = session("s2", "word " * 80_000)
        await _limit_pages(store, 60)
        with pytest.raises(StoreFull, match="free some space"):
            await store.keep(big)
        assert [record.id for record in await store.sessions()] == ["s1"]
        await _limit_pages(store, 10**6)
        await remember(store, big, "talks a lot")
        assert await all_facts(store) == ["likes tea", "talks a lot"]

    async def test_a_disk_that_fills_while_settling_leaves_the_session_pending(
        self, open_space: OpenSpace
    ) -> None:
        store, of = await open_space(), session()
        await store.keep(of)
        many = derived(of, *(card(of, f"fact {n} " * 40) for n in range(500)))
        await _limit_pages(store, 60)
        with pytest.raises(StoreFull):
            await settle(store, of, many)
        assert await waiting(store) == [of]
        assert await found(store, "fact") == ([], [])
        await _limit_pages(store, 10**6)
        await settle(store, of, many)
        assert len(await all_facts(store)) == 500


async def _limit_pages(store: SqlStore, pages: int) -> None:
    await store._write(lambda db: db.rows(f"PRAGMA max_page_count = {pages}"))


class TestForgottenBytes:
    async def test_no_byte_of_what_was_forgotten_is_left_in_any_file(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        """Markers stand in turns, cards, quarantine, session ids and failure reasons. A word's
        tail is looked for as well: the word index stores words without what they share."""
        store, markers = await open_space(), _markers()
        gone, kept = [], []
        for n in range(120):
            mine = [next(markers) for _ in range(8)]
            of = session(mine[0], f"I said {mine[1]} " + "and more " * (n % 40), mine[2])
            cards = card(of, f"likes {mine[3]}", subject=mine[4]), card(of, f"owns a {mine[5]}")
            held = [Quarantined(subject="A", fact=f, reason="x") for f in mine[6:]] * (n % 9)
            await store.keep(of)
            await settle(store, of, derived(of, *cards, quarantined=held))
            (gone if n % 3 else kept).append(mine[: 8 if held else 6])
        for batch in (gone[::2], gone[1::2]):
            await store.forget(sessions=[mine[0] for mine in batch])
        data = _bytes(folder)
        assert [m for mine in gone for m in mine if m[4:].encode() in data] == []
        assert [m for mine in kept for m in mine if m.encode() not in data] == []

    async def test_copies_that_sqlite_left_between_rows_go_too(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        """Rows deleted one by one make SQLite move others from page to page; what it moved stays
        in the gaps, `secure_delete` or not."""
        store, draw, markers = await open_space(), random.Random(2), _markers()
        await remember(store, session())
        db = sqlite3.connect(store.path, isolation_level=None)
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA synchronous = OFF")
        present, gone = [], []
        for _ in range(4000):
            if draw.random() < 0.55 or not present:
                marker = next(markers)
                padded = marker + " " * draw.randrange(60)
                place = len(present) + len(gone)
                row = db.execute(
                    "INSERT INTO quarantine VALUES ('ana', 's9', ?, '', ?, '')", (place, padded)
                )
                present.append((row.lastrowid, marker))
            else:
                key, marker = present.pop(draw.randrange(len(present)))
                db.execute("DELETE FROM quarantine WHERE rowid = ?", (key,))
                gone.append(marker)
        db.close()
        await store.forget(sessions=["s1"])
        data = _bytes(folder)
        assert [marker for marker in gone if marker.encode() in data] == []

    async def test_a_forgotten_cards_words_and_vector_leave_the_file(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        store, of = await open_space(), session()
        await remember(store, of, "likes tea", "plays the theremin")
        vector = derived(of, card(of, "plays the theremin")).card_vectors.astype("<f2").tobytes()
        await store.forget(cards=[card(of, "plays the theremin").id])
        data = _bytes(folder)
        assert b"theremin" not in data
        assert vector not in data
        assert b"likes tea" in data

    async def test_a_waiting_text_is_forgotten_with_its_session(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        store = await open_space()
        await remember(store, session(), "likes tea")
        await store.keep(session("s1", "I confess to xylophones."))
        await fail(store, "s1", "broke on xylophones")
        await store.forget(sessions=["s1"])
        assert b"xylophones" not in _bytes(folder)

    async def test_what_an_interrupted_forget_left_is_swept_at_the_next_opening(
        self, open_space: OpenSpace, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await open_space()
        await remember(store, session(), "plays the theremin")
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "sweep", _interrupted)
            with pytest.raises(StoreBusy, match="bytes are still in the file"):
                await store.forget(sessions=["s1"])
        assert b"theremin" in _bytes(folder)
        await open_space()
        assert b"theremin" not in _bytes(folder)


def _bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def _interrupted(db: Any, *, thorough: bool) -> None:
    raise StoreBusy("Interrupted.")


def _markers() -> Any:
    """Twelve letters that occur nowhere else, and share no ending."""
    draw = np.random.default_rng(5)
    while True:
        yield "".join(draw.choice(list("bcdfghjkmnpqrtvwxz"), 12))


class TestWords:
    async def test_scores_are_what_the_words_weigh_together(self, open_space: OpenSpace) -> None:
        said = ["red tea", "red tea red", "green tea in a tall glass", "red wine", "beer"]
        said += [f"water {n}" for n in range(9)]
        store = await open_space()
        await remember(store, session(), *said)
        (hits,) = await search(store, [view("red tea")], "cards", dense=0, lexical=9, until=None)
        cards = await cards_at(store, [key for key, _ in hits.lexical])
        texts = [f"ana {fact}".split() for fact in said]
        expected = {" ".join(t[1:]): _weight(["red", "tea"], t, texts) for t in texts}
        for (key, score), best in zip(
            hits.lexical, sorted(expected.values(), reverse=True), strict=False
        ):
            assert score == pytest.approx(expected[cards[key].fact], rel=1e-5)
            assert score == pytest.approx(best, rel=1e-5)
        assert len(hits.lexical) == 4

    async def test_words_on_too_many_cards_do_not_drive_a_search(
        self, open_space: OpenSpace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(arrays, "COMMON", 10)
        store = await open_space()
        await remember(store, session(), *(f"walk {n}" for n in range(30)), "saw an owl")
        _, lexical = await found(store, "When did Ana walk and see the owl?")
        assert await facts(store, lexical) == ["saw an owl"]

    async def test_where_all_words_are_too_common_the_newest_cards_come(
        self, open_space: OpenSpace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(arrays, "COMMON", 10)
        store = await open_space()
        await remember(store, session(), *(f"walk {n}" for n in range(30)))
        _, lexical = await found(store, "Ana's walk")
        assert await facts(store, lexical) == [f"walk {n}" for n in (29, 28, 27, 26, 25)]

    async def test_a_word_counts_anew_after_additions_and_removals(
        self, open_space: OpenSpace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(arrays, "COMMON", 10)
        store = await open_space()
        await remember(store, session("s1"), "saw an owl")
        assert len((await found(store, "owl"))[1]) == 1
        await remember(store, session("s2"), *(f"owl {n}" for n in range(20)))
        assert len((await found(store, "owl"))[1]) == 5
        await store.forget(sessions=["s2"])
        (hits,) = await search(store, [view("owl")], "cards", dense=0, lexical=5, until=None)
        assert [score > 0 for _, score in hits.lexical] == [True]


def _weight(query: list[str], text: list[str], texts: list[list[str]]) -> float:
    having = {word: sum(word in each for each in texts) for word in query}
    return sum(
        max(1e-6, math.log((len(texts) - having[word] + 0.5) / (having[word] + 0.5)))
        for word in query
        if word in text
    )


# ---------------------------------------------------------------- several processes

CHILD = """
import asyncio, sys
from datetime import date
from pathlib import Path
from justmem.store.sqlite import open_store
from store_contract import *

async def main():
    store = await open_store(Path(sys.argv[1]), sys.argv[2])
    {script}
    await store.close()

asyncio.run(main())
"""
REMEMBER_FOR_EVER = """
    for n in range(10**6):
        of = session(f"{name}{n}", f"turn {n}")
        await remember(store, of, *(f"fact {n} {m}" for m in range(4)))
        print(of.id, flush=True)
"""


def child(folder: Path, script: str, space: str = "ana") -> subprocess.Popen[str]:
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", CHILD.format(script=script.strip()), str(folder), space],
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


class TestProcesses:
    async def test_a_process_killed_before_the_cards_are_made_loses_no_turn(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        script = "await store.keep(session()); print('kept', flush=True); await asyncio.sleep(60)"
        process = child(folder, script)
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        kill(process)
        store = await open_space()
        assert await waiting(store) == [session()]
        await remember(store, session(), "adopted a kitten")
        assert await all_facts(store) == ["adopted a kitten"]

    @pytest.mark.parametrize("acknowledged", [1, 4, 9])
    async def test_a_process_killed_while_remembering_leaves_whole_sessions(
        self, open_space: OpenSpace, folder: Path, acknowledged: int
    ) -> None:
        process = child(folder, REMEMBER_FOR_EVER.replace("{name}", "s"))
        assert process.stdout is not None
        done = [process.stdout.readline().strip() for _ in range(acknowledged)]
        kill(process)
        store = await open_space()
        records = {record.id: record for record in await store.sessions()}
        assert set(done) <= {id for id, record in records.items() if record.state == "stored"}
        whole = sum(record.state == "stored" for record in records.values())
        assert len(await all_facts(store)) == 4 * whole
        (hits,) = await search(store, [view("fact")], "cards", dense=999, lexical=999, until=None)
        assert (len(hits.dense), len(hits.lexical)) == (4 * whole, 4 * whole)

    async def test_two_processes_write_while_a_third_reads_whole_sessions(
        self, open_space: OpenSpace, folder: Path
    ) -> None:
        store = await open_space()
        script = REMEMBER_FOR_EVER.replace("10**6", "25")
        writers = [child(folder, script.replace("{name}", name)) for name in ("a", "b")]
        while any(process.poll() is None for process in writers):
            (hits,) = await search(
                store, [view("fact")], "cards", dense=999, lexical=999, until=None
            )
            assert len(hits.dense) == len(hits.lexical)
            assert len(hits.dense) % 4 == 0
        assert [process.wait() for process in writers] == [0, 0]
        assert len((await found(store, "fact"))[0]) == 5
        assert len(await all_facts(store)) == 200
        assert (await store.look()).cards == 200
        for process in writers:
            process.communicate()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has /proc")
async def test_a_folder_that_cannot_be_created_is_named() -> None:
    with pytest.raises(InvalidSetting, match="folder /proc/nowhere cannot be created"):
        await open_store(Path("/proc/nowhere"), "ana")
