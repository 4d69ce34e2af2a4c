"""Forgetting forgets: every kind of target, a look before, a proof after, and no coming back."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import secrets
import sqlite3
import zipfile
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from justmem import AsyncMemory
from justmem.domain import Forgotten
from justmem.errors import InputError, NotForgotten, NotInMemory
from justmem.forget import digest
from justmem.ports import Prompt
from justmem.store.erase import Search, text_pieces
from justmem.store.files import raw
from stories import BIKE, HISTORY, RUN, Make, plan, scripted

NOON = datetime(2025, 1, 2, 12, 0)


@pytest.fixture
async def memory(make: Make) -> AsyncMemory:
    memory: AsyncMemory = await make(clock=lambda: NOON)
    await memory.remember_many(HISTORY)
    return memory


async def said(memory: AsyncMemory, session_id: str) -> list[str]:
    return [turn.text for turn in (await memory.session(session_id)).turns]


def counts(gone: Forgotten) -> Forgotten:
    return gone.model_copy(update={"entry": None})


async def facts(memory: AsyncMemory) -> set[str]:
    return {card.fact for card in await memory.cards()}


# ---------------------------------------------------------------- targets


async def test_a_turn_goes_with_the_cards_that_rest_on_it_and_the_others_keep_their_numbers(
    memory: AsyncMemory,
) -> None:
    gone = await memory.forget(turn="bike#1")
    assert (gone.turns, gone.cards, gone.sessions) == (1, 1, 0)
    assert await said(memory, "bike") == ["", *(turn["content"] for turn in BIKE["turns"][1:])]
    cards = await memory.cards(session="bike")
    assert cards
    for card in cards:
        assert {turn for turn, _ in (await memory.source(card.id)).turns} >= set(card.turns)
    evidence = await memory.recall("What did the gravel bike cost?", at="2024-06-01")
    assert "gravel" not in str(evidence.chosen) + str(evidence.sources)


async def test_a_quote_is_a_turn(memory: AsyncMemory) -> None:
    await memory.forget(card="bike#2")
    assert (await said(memory, "bike"))[1] == ""
    with pytest.raises(NotInMemory, match="was forgotten"):
        await memory.card("bike#2")


async def test_a_card_leaves_its_turns_unless_they_are_to_go_too(memory: AsyncMemory) -> None:
    first, second, *_ = await memory.cards()
    await memory.forget(card=first.id)
    assert await said(memory, first.session_id) == [turn["content"] for turn in RUN["turns"]]
    gone = await memory.forget(card=second.id, turns=True)
    assert gone.turns == len(second.turns)
    texts = await said(memory, second.session_id)
    assert [texts[number - 1] for number in second.turns] == [""] * len(second.turns)


async def test_a_subject_goes_with_the_turns_its_cards_rest_on(memory: AsyncMemory) -> None:
    await memory.remember([{"speaker": "Mira", "text": "I own a kayak."}], at="2024-07-01", id="m")
    preview = await memory.preview_forget(subject="mira")
    gone = await memory.forget(subject="mira")
    assert counts(gone) == counts(preview.forgotten)
    assert (gone.cards, gone.turns) == (1, 1)
    assert await said(memory, "m") == [""]
    assert await memory.cards(subject="Mira") == []


JONAS = [
    {"speaker": "Mira", "text": "I met Jonas at the climbing hall."},
    {"role": "assistant", "text": "Say hello to Jonas."},
    {"speaker": "Mira", "text": "I own a kayak."},
    {"speaker": "Jonas", "text": "I have a red canoe."},
]


async def test_a_subject_goes_with_all_that_about_finds(make: Make) -> None:
    memory = await make()
    await memory.remember(JONAS, at="2024-07-01", id="m")
    await memory.note("Jonas is allergic to nuts.", key="nuts")
    await memory.note("The kayak is in the shed.", key="shed")
    waits = [{"role": "user", "text": "Jonas called."}, JONAS[2]]
    await memory.keep(waits, at="2024-07-02", id="w")
    found = await memory.about("Jonas")
    assert (found.cards, found.turns) == (3, 3)
    preview = await memory.preview_forget(subject="Jonas")
    assert {card.id for card in found.known} <= {card.id for card in preview.cards}
    assert set(preview.turns) == {"m#1", "m#2", "m#4", "w#1"}
    gone = await memory.forget(subject="Jonas", verify=True)
    assert counts(gone).model_copy(update={"certificate": None}) == preview.forgotten
    assert (gone.cards, gone.turns, gone.sessions) == (3, 5, 1)
    assert await said(memory, "m") == ["", "", "I own a kayak.", ""]
    assert await said(memory, "w") == ["", "I own a kayak."]
    assert [note.key for note in await memory.notes()] == ["shed"]
    await memory.remember(JONAS, at="2024-07-01", id="m")
    await memory.retry()
    left = await memory.about("Jonas")
    assert (left.cards, left.turns) == (0, 0)


TITLES = [
    ("Jonas", "Climbing with JONAS", True),
    ("Jonas", "jonas's birthday", True),
    ("Jonas Weber", "Jonas and the others", False),
    ("Jonas", "Climbing", False),
    ("Will", "Will", True),
    ("Will", "What will happen", False),
]


@pytest.mark.parametrize(("subject", "title", "goes"), TITLES)
async def test_labels_that_name_a_subject_go_with_it(
    make: Make, subject: str, title: str, goes: bool
) -> None:
    memory = await make()
    chat = [{"role": "user", "text": "I own a kayak."}]
    session = {"id": "m", "at": "2024-07-01", "turns": chat, "labels": {"title": title, "a": "b"}}
    await memory.remember(session)
    if not goes:
        with pytest.raises(NotInMemory, match="nothing about"):
            await memory.forget(subject=subject)
        return
    kept = await memory.forget(subject="kayak", turns=False)
    assert (kept.cards, kept.labels) == (1, 0)
    preview = await memory.preview_forget(subject=subject)
    assert preview.labels == (f"m: title={title}",)
    gone = await memory.forget(subject=subject, verify=True)
    assert (gone.labels, gone.turns) == (preview.forgotten.labels, 0) == (1, 0)
    assert gone.certificate is not None
    assert digest(title) in gone.certificate.digests
    await memory.remember(session)
    await memory.append(chat, id="m", at="2024-07-02")
    (record,) = await memory.sessions()
    assert record.labels == {"a": "b"}
    assert await said(memory, "m") == ["I own a kayak."] * 2


async def test_a_label_that_is_still_there_after_forgetting_is_found(
    make: Make, tmp_path: Path
) -> None:
    memory = await make()
    title = "Climbing with Jonas"
    chat = [{"role": "user", "text": "I own a kayak."}]
    await memory.remember({"id": "m", "turns": chat, "labels": {"title": title}})
    (tmp_path / "memory" / "titles.txt").write_text(title)
    with pytest.raises(NotForgotten, match=r"titles\.txt"):
        await memory.forget(subject="Jonas", verify=True)


async def test_a_subject_named_by_a_common_word_takes_only_its_own_cards(make: Make) -> None:
    memory = await make()
    chat = [
        {"speaker": "Will", "text": "I own a kayak."},
        {"speaker": "Mira", "text": "I will move to Porto."},
    ]
    await memory.remember(chat, at="2024-07-01", id="m")
    await memory.forget(subject="Will")
    assert await said(memory, "m") == ["", "I will move to Porto."]
    assert [card.subject for card in await memory.cards()] == ["Mira"]


async def test_a_subject_can_go_and_leave_what_was_said(memory: AsyncMemory) -> None:
    held = len(await memory.cards(subject="User"))
    gone = await memory.forget(subject="User", turns=False)
    assert (gone.cards, gone.turns) == (held, 0)
    assert await facts(memory) == set()
    assert await said(memory, "run") == [turn["content"] for turn in RUN["turns"]]


@pytest.mark.parametrize(
    ("days", "left"),
    [
        ({"since": "2024-04-02"}, ["run"]),
        ({"until": "2024-04-02"}, ["bike"]),
        ({"since": datetime(2024, 3, 12).date(), "until": "2024-04-02T00:00"}, ["run", "bike"]),
    ],
)
async def test_a_period_is_the_sessions_of_its_days(
    memory: AsyncMemory, days: dict[str, Any], left: list[str]
) -> None:
    preview = await memory.preview_forget(**days)
    gone = await memory.forget(**days)
    assert [record.id for record in await memory.sessions()] == left
    assert counts(gone) == counts(preview.forgotten)
    assert gone.sessions == len(preview.sessions) == 3 - len(left)


@pytest.mark.parametrize(
    ("days", "left"),
    [
        ({"since": "2025-02-01"}, ["I own a sled.", ""]),
        ({"until": "2025-02-01"}, ["", "I own a kite."]),
        ({"since": "2025-01-01", "until": "2025-03-01"}, None),
    ],
)
async def test_a_period_takes_turns_out_of_a_session_that_went_on(
    make: Make, days: dict[str, Any], left: list[str] | None
) -> None:
    memory = await make()
    await memory.append("I own a sled.", id="chat", at="2025-01-01")
    await memory.append("I own a kite.", id="chat", at="2025-03-01")
    preview = await memory.preview_forget(**days)
    assert counts(await memory.forget(**days)) == counts(preview.forgotten)
    assert ([record.id for record in await memory.sessions()] == ["chat"]) is (left is not None)
    if left:
        assert await said(memory, "chat") == left
        assert await facts(memory) == {f"said: {text}" for text in left if text}


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"card": "c1", "turn": "bike#1"},
        {"since": "2024-01-01", "session": "bike"},
        {"everything": True, "until": "2024-01-01"},
        {"turn": "bike"},
        {"subject": " "},
        {"since": "soon"},
        {"since": "2024-02-01", "until": "2024-01-01"},
        {"session": "bike", "turns": True},
    ],
)
async def test_what_to_forget_is_one_thing_that_can_be_understood(
    memory: AsyncMemory, what: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        await memory.preview_forget(**what)
    with pytest.raises(InputError):
        await memory.forget(**what)
    assert len(await memory.sessions()) == 3


@pytest.mark.parametrize(
    "what",
    [
        {"turn": "bike#9"},
        {"turn": "no#1"},
        {"card": "cffff"},
        {"session": "no"},
        {"session": ""},
        {"key": ""},
        {"subject": "Nobody"},
        {"subject": "Nobody", "turns": False},
        {"since": "2025-01-01"},
        {"until": "2024-01-01"},
    ],
)
async def test_what_is_not_there_cannot_be_forgotten(
    memory: AsyncMemory, what: dict[str, Any]
) -> None:
    with pytest.raises(NotInMemory):
        await memory.preview_forget(**what)
    with pytest.raises(NotInMemory):
        await memory.forget(**what)


async def test_a_preview_lists_what_would_go_and_changes_nothing(memory: AsyncMemory) -> None:
    before = [await memory.sessions(), await memory.cards()]
    (whole, turn, about, all_of_it) = [
        await memory.preview_forget(session="bike"),
        await memory.preview_forget(turn="kyoto#1"),
        await memory.preview_forget(subject="user"),
        await memory.preview_forget(everything=True),
    ]
    assert [record.id for record in whole.sessions] == ["bike"]
    assert (whole.turns, len(whole.cards), whole.forgotten.turns) == ((), 2, 3)
    assert (turn.turns, [card.turns for card in turn.cards]) == (("kyoto#1",), [(1, 2)])
    assert len(about.cards) == 6
    assert "kyoto#2" in about.turns  # the reply that a card rests on
    assert (all_of_it.forgotten.sessions, all_of_it.forgotten.turns) == (3, 9)
    assert before == [await memory.sessions(), await memory.cards()]


# ---------------------------------------------------------------- no coming back


async def test_no_model_sees_a_forgotten_turn_again(make: Make) -> None:
    shown: list[str] = []

    def extract(prompt: Prompt) -> dict[str, Any]:
        shown.append(prompt.user)
        return {"cards": []}

    memory = await make(scripted(extract=extract, plan=plan()))
    await memory.remember(BIKE)
    await memory.forget(turn="bike#1")
    assert (await memory.remember(BIKE)).unchanged
    added = {"role": "user", "content": "It has a bell."}
    await memory.remember({**BIKE, "turns": [*BIKE["turns"], added]})
    await memory.forget(session="bike")
    await memory.remember(BIKE)
    assert [("gravel" in each, "bell" in each) for each in shown] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert (await said(memory, "bike"))[0] == ""
    assert (await memory.session("bike")).turns[0].forgotten


async def test_forgetting_leaves_an_entry_in_the_log_without_a_word(
    memory: AsyncMemory,
) -> None:
    await memory.forget(turn="bike#1")
    gone = await memory.forget(subject="User", verify=True)
    *_, turn, subject = await memory.log()
    assert (turn.verb, dict(turn.counts)) == ("forget", {"cards": 1, "turns": 1})
    assert turn in await memory.log(of="bike#1")
    assert subject == gone.entry
    assert subject.counts["turns"] == gone.turns > 0
    assert (await memory.check_log()).whole
    text = "".join(entry.model_dump_json() for entry in await memory.log())
    assert not [word for word in ("gravel", "Kyoto", "User") if word in text]


async def test_an_export_takes_forgotten_turns_along_and_brings_none_back(
    memory: AsyncMemory, make: Make, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    before.write_text("".join([line async for line in memory.export()]))
    await memory.forget(turn="bike#1")
    after.write_text("".join([line async for line in memory.export()]))
    assert "gravel" not in after.read_text()
    other = await make(space="other")
    await other.load(after)
    assert await other.session("bike") == await memory.session("bike")
    assert (await other.remember(BIKE)).unchanged  # the mark has come along
    await memory.forget(session="bike")
    await memory.load(before)
    assert (await said(memory, "bike"))[0] == ""
    assert "gravel" not in str(await facts(memory))


async def test_a_session_with_a_forgotten_turn_can_be_taken_along_as_json(
    memory: AsyncMemory, make: Make
) -> None:
    await memory.forget(turn="bike#1")
    other = await make(space="other")
    await other.remember((await memory.session("bike")).model_dump(mode="json"))
    assert await other.session("bike") == await memory.session("bike")


async def test_words_that_were_dropped_leave_cards_that_can_be_forgotten(
    memory: AsyncMemory,
) -> None:
    await memory._store.forget(words=["bike", "kyoto", "run"])
    with pytest.raises(NotInMemory, match="forgotten before"):
        await memory.forget(turn="bike#1")
    gone = await memory.forget(subject="User", verify=True)
    assert (gone.cards, gone.turns) == (6, 0)
    assert gone.certificate is not None


# ---------------------------------------------------------------- the proof


async def test_a_certificate_says_what_went_and_where_it_was_looked_for(
    memory: AsyncMemory, tmp_path: Path
) -> None:
    texts = await said(memory, "bike")
    gone = await memory.forget(session="bike", verify=True)
    proof = gone.certificate
    assert proof is not None
    assert (proof.space, proof.target, proof.at) == ("test", "session bike", NOON)
    assert (proof.cards, proof.sessions, proof.turns) == (gone.cards, 1, 3)
    assert proof.vectors == gone.cards + 3
    assert {digest(text) for text in texts} < set(proof.digests)
    assert {"test.db", "test.db-wal"} <= set(proof.files)
    assert {"turns", "cards", "passages"} <= set(proof.tables)
    assert proof.remains == 0
    assert "gravel" not in proof.model_dump_json()
    files = b"".join((tmp_path / "memory" / name).read_bytes() for name in proof.files)
    assert proof.bytes > len(files) > 0
    assert b"gravel" not in files


async def test_a_certificate_does_not_name_the_subject(memory: AsyncMemory) -> None:
    await memory.remember([{"speaker": "Mira", "text": "I own a kayak."}], at="2024-07-01", id="m")
    proof = (await memory.forget(subject="Mira", verify=True)).certificate
    assert proof is not None
    assert proof.target == f"subject {digest('Mira')}"


async def test_words_that_something_else_still_says_are_admitted(memory: AsyncMemory) -> None:
    again = {"role": "user", "content": RUN["turns"][2]["content"]}
    await memory.remember([again], at="2024-06-01", id="again")
    proof = (await memory.forget(turn="run#3", verify=True)).certificate
    assert proof is not None
    assert proof.held[digest(again["content"])] == "session again"
    proof = (await memory.forget(turn="run#1", verify=True)).certificate
    assert proof is not None
    assert proof.held == {}


@pytest.mark.parametrize("name", ["test-backup.db", "test copy.db", "backup.db", "notes.db-old"])
async def test_a_copy_under_the_name_of_another_space_is_searched(
    memory: AsyncMemory, tmp_path: Path, name: str
) -> None:
    home = tmp_path / "memory"
    with closing(sqlite3.connect(home / "test.db")) as db:
        db.execute("VACUUM INTO ?", (str(home / name),))
    assert b"gravel" in (home / name).read_bytes()
    with pytest.raises(NotForgotten, match=re.escape(name)):
        await memory.forget(session="bike", verify=True)
    assert not [file for file in home.iterdir() if file.name.startswith(f"{name}-")]


async def test_no_certificate_for_a_file_that_somebody_else_added_to(
    memory: AsyncMemory, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "memory" / "test.db")) as db:
        db.execute("CREATE TABLE kept (words TEXT)")
        db.execute(
            "CREATE TRIGGER spy AFTER DELETE ON turns "
            "BEGIN INSERT INTO kept VALUES (hex(old.text)); END"
        )
        db.commit()
    with pytest.raises(NotForgotten, match=r"a table 'kept': .*DROP.* a trigger 'spy': .*DROP"):
        await memory.forget(session="bike", verify=True)
    with closing(sqlite3.connect(tmp_path / "memory" / "test.db")) as db:
        kept = [bytes.fromhex(words) for (words,) in db.execute("SELECT words FROM kept")]
        assert b"gravel" in b" ".join(kept)
        db.execute("DROP TRIGGER spy")
        db.execute("DROP TABLE kept")
    assert (await memory.forget(session="run", verify=True)).certificate is not None


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
async def test_a_copy_of_another_space_is_searched_too(
    memory: AsyncMemory, make: Make, tmp_path: Path, journal: str
) -> None:
    other = await make(space="other")
    await other.remember(BIKE)
    copy = tmp_path / "memory" / "other-2024.db"
    with closing(sqlite3.connect(tmp_path / "memory" / "other.db")) as db:
        db.execute("VACUUM INTO ?", (str(copy),))
    with closing(sqlite3.connect(copy)) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
    with pytest.raises(NotForgotten, match=r"in \S*other-2024\.db:"):
        await memory.forget(session="bike", verify=True)


_UNREADABLE = {
    "copy.db.gz": gzip.compress,
    "copy.bz2": bz2.compress,
    "copy.xz": lzma.compress,
    "copy.zip": lambda data: _zipped(data),
    "copy.7z": lambda data: b"7z\xbc\xaf\x27\x1c" + data[:0],
    "copy.zst": lambda data: b"\x28\xb5\x2f\xfd" + data[:0],
    "notes.txt": lambda data: "I bought a gravel bike.".encode("utf-16"),
    "other.txt": lambda data: "I bought a gravel bike.".encode("utf-16-be"),
    "noise.db": lambda data: secrets.token_bytes(8 * 4096),
    "small.db": lambda data: secrets.token_bytes(4096),
}


def _zipped(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("test.db", data)
    return made.getvalue()


@pytest.mark.parametrize("name", _UNREADABLE)
async def test_what_cannot_be_searched_is_said(
    memory: AsyncMemory, tmp_path: Path, name: str
) -> None:
    home = tmp_path / "memory"
    (home / name).write_bytes(_UNREADABLE[name]((home / "test.db-wal").read_bytes()))
    proof = (await memory.forget(session="bike", verify=True)).certificate
    assert proof is not None
    assert proof.unsearched == (name,)
    assert name not in proof.files
    assert "test.db" in proof.files


async def test_another_name_of_the_same_file_is_not_taken_for_a_copy(
    memory: AsyncMemory, tmp_path: Path
) -> None:
    home = tmp_path / "memory"
    (home / "same.db").symlink_to("test.db")
    (home / "link.db").hardlink_to(home / "test.db")
    proof = (await memory.forget(session="bike", verify=True)).certificate
    assert proof is not None
    assert (await memory.check()).sound


async def test_an_erased_space_has_its_certificate_too(memory: AsyncMemory, tmp_path: Path) -> None:
    gone = await memory.forget(everything=True, verify=True)
    assert gone.certificate is not None
    assert (gone.certificate.target, gone.certificate.sessions) == ("everything", 3)
    assert list((tmp_path / "memory").iterdir()) == []


# ---------------------------------------------------------------- pieces of texts


@pytest.mark.parametrize(
    "text",
    [
        "short one",
        "Ein längerer Satz, in dem Umlaute vorkommen: schöne Grüße aus Köln!",
        'With "quotes", \\ backslashes\nand lines, which JSON writes in another way.',
        "x" * 5000,
        "Übermut",
    ],
)
def test_a_text_is_found_however_it_was_written(text: str) -> None:
    padding = "nothing to see here " * 50
    for written in (text, json.dumps(text), json.dumps(text, ensure_ascii=False)):
        for shift in range(9):
            data = ("." * shift + padding + written + padding).encode()
            assert Search(text_pieces(text)).look(data)
        assert not Search(text_pieces(text)).look((padding + written[:5] + padding).encode())


def test_a_text_is_found_across_the_pieces_that_a_file_is_read_in(tmp_path: Path) -> None:
    for before in range(200):
        (tmp_path / "file").write_bytes(b"." * before + b"a sentence that lies anywhere")
        search = Search(text_pieces("a sentence that lies anywhere"))
        assert search.look_in_chunks(raw(tmp_path / "file").chunks(64)) == before + 29
        assert search.found
