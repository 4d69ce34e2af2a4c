"""Taking a memory along: exports that can be loaded again, on either store, and read by people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_copying import filled

from justmem import AsyncMemory, acting_as
from justmem.errors import InputError, InvalidFile
from justmem.language.languages import LANGUAGES
from justmem.memory_parts import Parts
from justmem.ports import Store, StoredSession
from justmem.store.engine import storage
from justmem.testing import HashEmbedder
from justmem.transfer import whole_sessions
from justmem.transfer.lines import SessionLine
from stories import BIKE, HISTORY, KYOTO, NOW, RUN, by_rules, extract_history, scripted

pytest_plugins = ["postgres_fixtures"]

QUESTIONS = (
    "What did my bike cost?",
    "What did you suggest for the second day in Kyoto?",
    "When did I run my half marathon?",
    "What is wrong with my knee?",
)
Opened = Callable[..., Awaitable[AsyncMemory]]


@pytest.fixture(params=["sqlite", "postgres"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """opened(space) -> a memory in that space, on the store of the moment."""
    places: dict[str, Any] = {}
    made: list[AsyncMemory] = []

    async def opened(space: str, kind: str | None = None, **parts: Any) -> AsyncMemory:
        kind = kind or request.param
        if kind not in places:
            postgres = kind == "postgres"
            where = request.getfixturevalue("database_url") if postgres else tmp_path / "memory"
            places[kind] = storage(where)
        store = await places[kind].open(space)
        embedder = parts.pop("embedder", HashEmbedder(64))
        made.append(AsyncMemory(store, Parts(embedder, **{**by_rules(), **parts})))
        return made[-1]

    yield opened
    for memory in made:
        await memory.close()
    for kind, place in places.items():
        for space in await place.spaces() if kind == "postgres" else ():
            await (await place.open(space)).forget(everything=True)
        await place.close()


async def written(memory: AsyncMemory, path: Path, **options: Any) -> Path:
    lines = [line async for line in memory.export(**options)]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    return path


def store_of(memory: AsyncMemory) -> Store:
    return memory._store


async def prints(memory: AsyncMemory) -> list[dict[str, Any]]:
    return [SessionLine.of(whole, vectors=True) async for whole in whole_sessions(store_of(memory))]


async def answers(memory: AsyncMemory) -> list[Any]:
    found = []
    for question in QUESTIONS:
        evidence = await memory.recall(question, at=NOW)
        answer = await memory.ask(question, at=NOW)
        cards = sorted(each.card.id for each in evidence.chosen)
        found.append((cards, evidence.sources, answer.text, answer.citations))
    return found


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("vectors", [True, False])
async def test_a_loaded_memory_gives_the_same_answers(
    opened: Opened, tmp_path: Path, vectors: bool
) -> None:
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    file = await written(memory, tmp_path / "ana.jsonl", vectors=vectors)
    other = "postgres" if hasattr(store_of(memory), "path") else "sqlite"
    again = await opened("ana again", other)
    done = await again.load(file)
    assert (done.sessions, done.brought) == (3, 3)
    assert (done.embedded == 0) == vectors
    assert await prints(again) == await prints(memory)
    assert await answers(again) == await answers(memory)
    assert [s.state for s in await again.sessions()] == [s.state for s in await memory.sessions()]


async def test_everything_a_store_can_hold_comes_back(opened: Opened, tmp_path: Path) -> None:
    memory = await opened("ana", embedder=Named("onnx:small", 8))
    await filled(store_of(memory))
    file = await written(memory, tmp_path / "ana.jsonl", vectors=True)
    again = await opened("again", embedder=Named("onnx:small", 8))
    done = await again.load(file)
    assert (done.forgotten, done.embedded) == (1, 0)
    assert await prints(again) == await prints(memory)
    assert await again.waiting() == await memory.waiting()
    ignored = {"bytes": 0, "space": ""}
    found = [await store_of(each).metadata() for each in (memory, again)]
    one, other = (replace(e, stats=e.stats.model_copy(update=ignored)) for e in found)
    assert one == other


class Named(HashEmbedder):
    def __init__(self, name: str, dim: int) -> None:
        super().__init__(dim)
        self.name = name


async def test_another_embedder_makes_new_vectors(opened: Opened, tmp_path: Path) -> None:
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    file = await written(memory, tmp_path / "ana.jsonl", vectors=True)
    again = await opened("again", embedder=Named("another", 32))
    done = await again.load(file)
    assert done.embedded > 0
    assert (await again.recall(QUESTIONS[0], at=NOW)).cards
    assert (await again.stats()).embedder == "another"


async def test_a_forgotten_card_stays_forgotten_on_both_sides(
    opened: Opened, tmp_path: Path
) -> None:
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    file = await written(memory, tmp_path / "before.jsonl")
    gone = (await memory.cards(session="bike"))[0]
    await memory.forget(card=gone.id)
    later = await written(memory, tmp_path / "after.jsonl")
    # Loading what was exported before does not bring it back.
    await memory.forget(session="bike")
    await memory.load(file)
    assert gone.id not in [card.id for card in await memory.cards()]
    assert (await memory.load(file)).brought == 0
    # And who loads what was exported after will not see it either.
    again = await opened("again")
    await again.load(later)
    await again.remember({**BIKE, "at": "2024-05-21"})
    assert gone.id not in [card.id for card in await again.cards()]


# ---------------------------------------------------------------- interrupted, repeated, mixed


class SwitchedOff(Exception):
    pass


async def test_an_interrupted_load_continues(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("justmem.transfer.BATCH", 1)
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    file = await written(memory, tmp_path / "ana.jsonl")
    again = await opened("again")

    def told(done: int, total: int) -> None:
        if done == 2:
            raise SwitchedOff

    with pytest.raises(SwitchedOff):
        await again.load(file, on_loaded=told)
    assert len(await again.sessions()) == 2
    done = await again.load(file)
    assert (done.sessions, done.brought) == (3, 1)
    assert (await again.load(file)).brought == 0
    assert await prints(again) == await prints(memory)


async def test_existing_sessions_stay_when_others_are_loaded(
    opened: Opened, tmp_path: Path
) -> None:
    memory = await opened("ana")
    await memory.remember_many([RUN, BIKE])
    file = await written(memory, tmp_path / "ana.jsonl")
    again = await opened("again")
    await again.remember_many([KYOTO, RUN])
    assert (await again.load(file)).brought == 1
    assert [record.id for record in await again.sessions()] == ["run", "kyoto", "bike"]


@pytest.mark.parametrize("change", ["words", "cards"])
async def test_a_session_that_differs_is_not_replaced_and_nothing_is_stored(
    opened: Opened, tmp_path: Path, change: str
) -> None:
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    file = await written(memory, tmp_path / "ana.jsonl")
    parts = {"extractor": _by_model()} if change == "cards" else {}
    again = await opened("again", **parts)
    await again.remember(KYOTO if change == "cards" else {**KYOTO, "at": "2023-05-20"})
    before = await prints(again)
    with pytest.raises(InputError, match="'kyoto' that differs"):
        await again.load(file)
    assert await prints(again) == before


# ---------------------------------------------------------------- files that are not whole


async def file_of(opened: Opened, path: Path) -> list[dict[str, Any]]:
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    await memory.forget(card=(await memory.cards())[0].id)
    return (await written(memory, path, vectors=True)).read_bytes().splitlines(keepends=True)


def signed(lines: Sequence[bytes]) -> bytes:
    """With a last line that agrees with the others: as one who means harm would write it."""
    *body, last = lines
    end = {**json.loads(last), "sha256": hashlib.sha256(b"".join(body)).hexdigest()}
    return b"".join(body) + json.dumps(end).encode() + b"\n"


def edited(line: bytes, **fields: Any) -> bytes:
    value = {**json.loads(line), **fields}
    return json.dumps({k: v for k, v in value.items() if v is not None}).encode() + b"\n"


async def test_a_changed_file_stores_nothing(opened: Opened, tmp_path: Path) -> None:
    lines = await file_of(opened, tmp_path / "ana.jsonl")
    again = await opened("again")
    (head, session, end) = (lines[0], lines[1], lines[-1])
    flipped = bytearray(b"".join(lines))
    flipped[len(head) + 60] ^= 1
    newer = edited(head, justmem=3)
    said, card = json.loads(session)["session"], json.loads(session)["cards"][0]

    def with_session(**fields: Any) -> bytes:
        return signed([head, edited(session, **fields), *lines[2:]])

    passage = {"session_id": said["id"], "turn": 1, "start": 0, "end": 999}
    wrong: list[tuple[bytes, str]] = [
        (b"", "not an export"),
        (b"PK\x03\x04 a zip file", "not an export"),
        (b'{"id": "s1", "turns": []}\n', "justmem remember"),
        (b"".join([newer, *lines[1:]]), "upgrade"),
        (b"".join([edited(head, justmem=1), *lines[1:]]), "earlier format.*version that wrote it"),
        (b"".join(lines[:-1]), "cut short"),
        (b"".join(lines[:-1]) + end[:-20], "damaged at line"),
        (b"".join([*lines[:2], *lines[3:]]), "checksum does not match"),
        (b"".join([lines[0], lines[2], lines[1], *lines[3:]]), "checksum does not match"),
        (bytes(flipped), "damaged|checksum does not match"),
        (b"".join([*lines, session]), "checksum does not match"),
        (signed([head, session, *lines[1:]]), "occurs twice"),
        (signed([head, session, end]), "it has 1 of 3 sessions"),
        (signed([head, b"[]\n", *lines[1:]]), "unknown kind"),
        (signed([head, b'{"is":"song"}\n', *lines[1:]]), "'song' is an unknown kind"),
        (signed([head, head, *lines[1:]]), "second line 'export'"),
        (with_session(mood="good"), "mood"),
        (with_session(session={**said, "turns": []}), "0 turns"),
        (with_session(session={**said, "at": "soon"}), "at: "),
        (with_session(session={**said, "id": "\ud800"}), "hex escape"),
        (with_session(session={**said, "id": "a\0b"}, cards=[], passages=[]), "NUL character"),
        (with_session(tokens=2**70), "tokens: "),
        (with_session(tokens=-1), "tokens: "),
        (with_session(done=9), "9 of its 3 turns"),
        (with_session(cards=[{**card, "turns": [9]}]), "turn that does not exist"),
        (with_session(cards=[{**card, "turns": []}]), "turn that does not exist"),
        (with_session(cards=[{**card, "session_id": "x"}]), "another session"),
        (with_session(cards=[{**card, "id": "a\0b"}]), "NUL"),
        (with_session(passages=[passage]), "not in the text"),
        (with_session(card_vectors="AAAA"), "number of vectors differs"),
        (with_session(card_vectors="?"), "damaged at line"),
    ]
    for number, (content, sentence) in enumerate(wrong):
        file = tmp_path / f"wrong {number}.jsonl"
        file.write_bytes(content)
        with pytest.raises(InvalidFile, match=sentence):
            await again.load(file)
    assert await again.sessions() == []
    assert await again.log() == []
    with pytest.raises(InvalidFile, match="cannot be read"):
        await again.load(tmp_path / "missing.jsonl")


# ---------------------------------------------------------------- the lines themselves


async def test_the_lines_match_the_docs(opened: Opened, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in await file_of(opened, tmp_path / "ana.jsonl")]
    kinds = [line["is"] for line in lines]
    assert kinds == ["export", *["session"] * 3, "end"]
    head, first, end = lines[0], lines[1], lines[-1]
    assert (head["justmem"], head["space"], head["sessions"]) == (2, "ana", 3)
    assert len(head["forgotten"]) == 1
    said = first["session"]
    assert said["turns"][0] == {"speaker": "User", "text": RUN["turns"][0]["content"]}
    assert (said["id"], said["at"], first["state"]) == ("run", "2024-03-11T18:00:00", "stored")
    assert {"id", "subject", "fact", "turns", "session_id"} <= set(lines[2]["cards"][0])
    assert set(end) == {"is", "sha256"}


async def test_an_export_reads_a_few_sessions_at_a_time(opened: Opened, tmp_path: Path) -> None:
    """However much there is, a few sessions are in memory at a time."""
    memory = await opened("ana")
    await memory.remember_many([{**RUN, "id": f"run {n}"} for n in range(45)])
    held: list[int] = []
    kind = type(store_of(memory))
    asked = kind.read

    async def counted(self: Any, ids: Sequence[str]) -> Sequence[StoredSession]:
        held.append(len(ids))
        return await asked(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "read", counted)
        lines = memory.export()
        assert json.loads(await anext(lines))["is"] == "export"
        assert json.loads(await anext(lines))["is"] == "session"
        assert held == [20]
        await lines.aclose()


async def test_loading_is_in_the_log(opened: Opened, tmp_path: Path) -> None:
    await file_of(opened, tmp_path / "ana.jsonl")
    again = await opened("again")
    with acting_as("ben"):
        await again.load(tmp_path / "ana.jsonl")
    (entry,) = await again.log()
    assert (entry.actor, entry.verb, entry.counts["sessions"]) == ("ben", "load", 3)
    assert (await again.check_log()).whole


async def test_a_session_forgotten_while_an_export_runs_is_left_out(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("justmem.transfer.BATCH", 1)
    memory = await opened("ana")
    await memory.remember_many(HISTORY)
    lines = memory.export()
    text = await anext(lines) + await anext(lines)
    await memory.forget(session="kyoto")
    text += "".join([line async for line in lines])
    assert "Kyoto" not in text
    (tmp_path / "ana.jsonl").write_text(text, "utf-8")
    assert (await (await opened("again")).load(tmp_path / "ana.jsonl")).brought == 2


def _by_model() -> Any:
    from justmem.extract import ModelExtractor

    return ModelExtractor(scripted(extract=extract_history), LANGUAGES)
