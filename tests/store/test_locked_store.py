"""A locked space: the contract of all stores, and what a lock promises besides."""
# ruff: noqa: ASYNC240 -- looking at small files from a test's own event loop

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

import pytest
from pydantic import SecretStr

from justmem.errors import (
    InvalidSetting,
    NotInMemory,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreNotLocked,
    WrongKey,
)
from justmem.store import files
from justmem.store.files import Keyring
from justmem.store.sqlite import open_store, rekey, spaces
from justmem.store.sqlite_connection import connect, sqlcipher
from store_contract import all_facts, remember, session
from stores import spent
from talking import talking

RAW = Keyring(SecretStr("5f" * 32))
OTHER = Keyring(SecretStr("a1" * 32))
WORDS = Keyring(SecretStr("correct horse battery staple"))
MARKER = "Pestomarker"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spaces"


async def fill(folder: Path, keys: Keyring | None, space: str = "ana", sessions: int = 3) -> None:
    store = await open_store(folder, space, keys=keys)
    for number in range(sessions):
        said = session(f"s{number}", f"I adopted {MARKER} number {number}.")
        await remember(store, said, f"adopted {MARKER} number {number}")
    await store.close()


async def facts(folder: Path, keys: Keyring | None, space: str = "ana") -> list[str]:
    store = await open_store(folder, space, keys=keys, create=False)
    try:
        return sorted(await all_facts(store))
    finally:
        await store.close()


def plain_words(folder: Path) -> list[str]:
    """The files below a folder that hold the marker, in any case."""
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and MARKER.lower().encode() in path.read_bytes().lower()
    ]


FACTS = [f"adopted {MARKER} number {number}" for number in range(3)]


# ---------------------------------------------------------------- nothing in plain text


async def test_no_file_of_a_locked_space_holds_a_word_while_it_is_open_or_after(
    folder: Path,
) -> None:
    store = await open_store(folder, "ana", keys=RAW)
    for number in range(3):
        said = session(f"s{number}", f"I adopted {MARKER} number {number}.")
        await remember(store, said, f"adopted {MARKER} number {number}")
    written = {path.name for path in folder.iterdir()}
    assert written == {"ana.db", "ana.db-wal", "ana.db-shm"}
    assert plain_words_by_another_process(folder) == ""
    await store.close()
    assert plain_words(folder) == []

    await fill(folder, None, "ben")  # the search does find what is plain
    assert plain_words(folder) == [str(folder / "ben.db")]


def plain_words_by_another_process(folder: Path) -> str:
    """As above, for files that are open here: to read them here would drop their locks."""
    code = (
        "import pathlib, sys\n"
        "for p in pathlib.Path(sys.argv[1]).rglob('*'):\n"
        "    if p.is_file() and sys.argv[2].lower().encode() in p.read_bytes().lower(): print(p)"
    )
    args = [sys.executable, "-c", code, str(folder), MARKER]
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_rewriting_a_locked_file_writes_no_temporary_one(folder: Path) -> None:
    await fill(folder, RAW, sessions=60)
    db = connect(folder / "ana.db", 1.0, RAW.find("ana"))
    seen: set[str] = set()

    def look() -> int:
        for link in Path("/proc/self/fd").iterdir():
            with_name = os.readlink(link) if link.is_symlink() else ""
            if with_name.startswith("/") and not with_name.startswith("/dev"):
                seen.add(with_name)
        return 0

    before = look() or set(seen)
    db.set_progress_handler(look, 50)
    db.execute("VACUUM")
    db.execute("SELECT * FROM cards ORDER BY fact DESC, id").fetchall()
    db.close()
    own = {str(folder / name) for name in ("ana.db", "ana.db-wal", "ana.db-shm")}
    assert seen - before <= own
    assert seen & own


# ---------------------------------------------------------------- keys that do not fit


async def test_the_right_key_to_a_damaged_file_is_not_called_wrong(folder: Path) -> None:
    await fill(folder, RAW)
    path = folder / "ana.db"
    whole = path.read_bytes()
    for damage in (
        whole[:200] + bytes(300) + whole[500:],  # inside the first page
        bytes(4096) + whole[4096:],  # all of it, the salt too
        whole[:4000],  # cut short
        b"not a store\n" * 1000,
    ):
        path.write_bytes(damage)
        with pytest.raises(StoreDamaged):
            await open_store(folder, "ana", keys=RAW)
    path.write_bytes(whole)
    assert await facts(folder, RAW) == FACTS


async def test_a_damaged_plain_file_is_not_called_locked(folder: Path) -> None:
    await fill(folder, None)
    path = folder / "ana.db"
    whole = path.read_bytes()
    for damage in (bytes(4096) + whole[4096:], b"x" * 64 + whole[64:], b"words\n" * 999):
        path.write_bytes(damage)
        with pytest.raises(StoreDamaged):
            await open_store(folder, "ana")


@pytest.mark.parametrize("poor", ["", "short", "nul\0nul\0nul"])
def test_a_key_that_protects_nothing_is_refused(poor: str) -> None:
    with pytest.raises(InvalidSetting, match="at least 8 characters"):
        Keyring(SecretStr(poor))


async def test_without_sqlcipher_a_key_is_refused_with_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'justmem\[encryption\]'"):
        sqlcipher()


async def test_a_passphrase_is_derived_as_sqlcipher_does_itself(folder: Path) -> None:
    await fill(folder, WORDS)
    cipher = sqlcipher()
    db = cipher.connect(str(folder / "ana.db"))
    db.execute("PRAGMA key = 'correct horse battery staple'")
    assert db.execute("SELECT count(*) FROM cards").fetchone() == (3,)
    db.close()


# ---------------------------------------------------------------- names, processes, threads


async def test_locked_spaces_are_listed_by_their_names(folder: Path) -> None:
    for space in ("ana", "Zoë & co."):
        await fill(folder, RAW, space)
    await fill(folder, None, "ben")
    assert spaces(folder) == spaces(folder, OTHER) == ["ana", "ben"]
    assert spaces(folder, RAW) == ["Zoë & co.", "ana", "ben"]
    assert b"Zo\xc3\xab" not in b"".join(path.read_bytes() for path in folder.glob("*.db"))


MAKE = """
import asyncio, sys
from pathlib import Path
from pydantic import SecretStr
from justmem.store.files import Keyring
from justmem.store.sqlite import open_store
async def main():
    store = await open_store(Path(sys.argv[1]), "ana", keys=Keyring(SecretStr(sys.argv[2])))
    await store.spend(__import__("datetime").date(2024, 5, 1), 1)
    await store.close()
asyncio.run(main())
"""


MAKE_EACH = (
    MAKE.replace("async def main():", "async def main(folder):")
    .replace("Path(sys.argv[1])", "Path(folder)")
    .replace(
        "asyncio.run(main())",
        "for line in sys.stdin: asyncio.run(main(line.strip())); print('made', flush=True)",
    )
)


def test_processes_that_make_a_locked_space_at_once_make_one(tmp_path: Path) -> None:
    async def entered(folder: Path) -> int:
        store = await open_store(folder, "ana", keys=RAW)
        found = await spent(store, date(2024, 5, 1))
        await store.close()
        return found

    with ExitStack() as running:
        args = [sys.executable, "-c", MAKE_EACH, "", "5f" * 32]
        makers = [running.enter_context(talking(args)) for _ in range(4)]
        for number in range(-1, 5):  # the first is for warming up
            folder = tmp_path / str(number)
            for maker in makers:
                maker.say(str(folder))
            assert [maker.hear() for maker in makers] == ["made"] * 4
            assert asyncio.run(entered(folder)) == 4


async def test_copies_of_a_locked_space_are_said_to_be_not_searched(folder: Path) -> None:
    await fill(folder, RAW)
    copies = ["ana-backup.db", "ana.db.bak"]
    for name in copies:
        (folder / name).write_bytes((folder / "ana.db").read_bytes())
    await fill(folder, RAW, "ben")
    store = await open_store(folder, "ana", keys=RAW)
    await store.forget(sessions=["s0", "s1", "s2"])
    searched = await store.remains([MARKER])
    assert searched.remains == ()
    assert [Path(file).name for file in searched.unsearched] == copies
    await store.close()


async def test_looking_at_a_folder_leaves_the_locks_of_open_spaces_alone(folder: Path) -> None:
    """On POSIX, closing any descriptor of a file drops the process's locks on it."""
    for space, keys in (("ana", RAW), ("ben", None)):
        store = await open_store(folder, space, keys=keys)
        before = posix_locks(store.path)
        spaces(folder, RAW)
        searched = await store.remains([MARKER])
        assert {Path(file).name for file in searched.files} >= {f"{space}.db", f"{space}.db-wal"}
        again = await open_store(folder, space, keys=keys)
        await again.close()
        with pytest.raises(StoreError):
            await open_store(folder, space, keys=None if keys else RAW)
        assert posix_locks(store.path) == before
        assert before or not Path("/proc/locks").exists()
        await store.close()
    assert not len(files._raw)


def posix_locks(path: Path) -> list[str]:
    """The locks on a file, as the kernel lists them."""
    table = Path("/proc/locks")
    inode = f":{path.stat().st_ino} "
    if not table.exists():
        return []
    return sorted(" ".join(x.split()[1:]) for x in table.read_text().splitlines() if inode in x)


async def test_a_store_that_was_dropped_unclosed_is_not_taken_for_another_file(
    folder: Path, tmp_path: Path
) -> None:
    """The next file may get its inode, and another path or another lock."""
    store = await open_store(folder, "ana", keys=RAW)
    dropped = store.path
    del store
    for _ in range(100):  # the thread that opened it lets go of it in a moment
        gc.collect()
        if not len(files._raw):
            break
        await asyncio.sleep(0.02)
    assert not len(files._raw)
    files.unlink(dropped)
    await fill(tmp_path / "other", None)
    assert await facts(tmp_path / "other", None) == FACTS


async def test_one_file_by_two_paths_opens_by_each(folder: Path, tmp_path: Path) -> None:
    one = await open_store(folder, "ana", keys=RAW)
    (tmp_path / "link").symlink_to(folder)
    other = await open_store(tmp_path / "link", "ana", keys=RAW)
    assert (one.path, other.path) == (folder / "ana.db", tmp_path / "link" / "ana.db")
    await remember(other, session("s1"), "likes rain")
    await other.close()
    assert await all_facts(one) == ["likes rain"]
    await one.close()


# ---------------------------------------------------------------- another key


@pytest.mark.parametrize(("old", "new"), [(RAW, OTHER), (RAW, WORDS), (WORDS, RAW)])
async def test_another_key_keeps_everything(folder: Path, old: Keyring, new: Keyring) -> None:
    from store_contract import found

    await fill(folder, old)
    rekey(folder, "ana", old, new)
    assert [path.name for path in folder.iterdir()] == ["ana.db"]
    assert plain_words(folder) == []
    with pytest.raises(WrongKey):
        await facts(folder, old)
    assert await facts(folder, new) == FACTS
    store = await open_store(folder, "ana", keys=new)
    dense, lexical = await found(store, f"adopted {MARKER} number 2")
    assert dense
    assert lexical
    await remember(store, session("s9"), "likes rain")
    await store.forget(sessions=["s9"])
    assert (await store.check()).sound
    await store.close()


async def test_a_wrong_key_changes_nothing(folder: Path) -> None:
    await fill(folder, RAW)
    before = (folder / "ana.db").read_bytes()
    with pytest.raises(WrongKey):
        rekey(folder, "ana", OTHER, WORDS)
    with pytest.raises(NotInMemory):
        rekey(folder, "bob", RAW, OTHER)
    assert (folder / "ana.db").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["ana.db"]


async def test_a_plain_space_has_no_key_to_change(folder: Path) -> None:
    await fill(folder, None)
    with pytest.raises(StoreNotLocked):
        rekey(folder, "ana", RAW, OTHER)
    assert await facts(folder, None) == FACTS


async def test_a_space_that_is_open_keeps_its_key(folder: Path) -> None:
    await fill(folder, RAW)
    store = await open_store(folder, "ana", keys=RAW)
    with pytest.raises(StoreBusy, match="open elsewhere"):
        rekey(folder, "ana", RAW, OTHER, patience=0.2)
    await remember(store, session("s9"), "likes rain")
    await store.close()
    with other_process_has_open(folder), pytest.raises(StoreBusy, match="open elsewhere"):
        rekey(folder, "ana", RAW, OTHER, patience=0.2)
    rekey(folder, "ana", RAW, OTHER)


@contextmanager
def other_process_has_open(folder: Path) -> Iterator[None]:
    code = MAKE.replace("    await store.close()", "    print('open', flush=True); input()")
    with talking([sys.executable, "-c", code, str(folder), "5f" * 32]) as process:
        assert process.hear() == "open"
        yield
        process.say("enough")


async def test_a_key_file_is_one_line(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("correct horse battery staple\r\n")
    await fill(folder, Keyring(file=file))
    assert await facts(folder, WORDS) == FACTS
    for wrong in (b"", b"\n", b"two\nlines", b"\xff" * 64, b"x" * 5000):
        file.write_bytes(wrong)
        with pytest.raises(StoreLocked, match="A key is one line"):
            await open_store(folder, "ana", keys=Keyring(file=file))
    file.unlink()
    with pytest.raises(StoreLocked, match="cannot be read"):
        await open_store(folder, "ana", keys=Keyring(file=file))


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    yield
    gc.collect()
    assert not len(files._raw)
