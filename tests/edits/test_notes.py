"""note, notes, note_at, forget(key=), and the filters of recall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from justmem.errors import InputError, InvalidSession, NotInMemory
from justmem.store.sqlite import open_store
from stories import Make, by_model, scripted

NOW = datetime(2024, 6, 1, 12, 0)


def clock() -> datetime:
    return NOW


async def test_a_note_is_stored_exactly_as_given_and_found(make: Make) -> None:
    model = scripted()  # it would fail if it were asked
    memory = await make(**by_model(model), clock=clock)
    text = '  {"text": "I am allergic to walnuts."}\n'
    card = await memory.note(text, key="allergy")
    assert (card.fact, card.text, card.kind, card.session_id) == (
        text,
        text,
        "note",
        "note:allergy",
    )
    assert model.prompts == []
    found = await memory.recall("Which walnuts allergic?", plan={}, at=NOW)
    assert [each.id for each in found.cards] == [card.id]
    assert (await memory.card(card.id)) == card
    assert (await memory.source(card.id)).turns[0][1].text == text
    assert [entry.card for entry in await memory.history(card=card.id)] == [card]
    assert await memory.sessions() == []
    assert (await memory.stats()).kinds == {"note": 1}


async def test_a_note_is_replaced_by_its_key(make: Make) -> None:
    memory = await make(clock=clock)
    await memory.note("The budget is 900 euros.", key="budget")
    await memory.note("The budget is 700 euros.", key="budget", value={"euros": 700})
    (note,) = await memory.notes()
    assert (note.key, note.text, note.value) == (
        "budget",
        "The budget is 700 euros.",
        {"euros": 700},
    )
    assert [card.fact for card in await memory.cards()] == ["The budget is 700 euros."]
    await memory.note("The budget is 700 euros.", key="budget", value={"euros": 701})
    assert (await memory.note_at("budget")).value == {"euros": 701}


@pytest.mark.parametrize(
    "value",
    [
        b'{"b": 1.0,  "a": "\\u00e9", "n": 1e3}',
        {"b": [1, 2.5, None, True], "a": "\u00e9 \U0001f6f6"},
        "plain text",
        0,
        [],
    ],
    ids=str,
)
async def test_a_value_comes_back_as_it_was(make: Make, value: Any) -> None:
    memory = await make(clock=clock)
    await memory.note("A value.", key="k", value=value)
    note = await memory.note_at("k")
    if isinstance(value, bytes):
        assert note.value_json.encode() == value
    else:
        assert note.value == value


async def test_notes_are_listed_by_prefix_and_forgotten_by_key(make: Make) -> None:
    memory = await make(clock=clock)
    for key in ("pets/cat", "pets/dog", "town"):
        await memory.note(f"About {key}.", key=key)
    assert [note.key for note in await memory.notes("pets/")] == ["pets/cat", "pets/dog"]
    done = await memory.forget(key="pets/cat", verify=True)
    assert (done.cards, done.certificate.target) == (1, "note pets/cat")
    with pytest.raises(NotInMemory, match="pets/cat"):
        await memory.note_at("pets/cat")
    with pytest.raises(NotInMemory, match="pets/cat"):
        await memory.forget(key="pets/cat")
    assert len(await memory.notes()) == 2


async def test_a_note_expires(make: Make) -> None:
    memory = await make(clock=clock)
    await memory.note("The door code is 4711.", key="door", until="2024-06-02", at="2024-05-01")
    assert (await memory.recall("What is the door code?", at="2024-06-01")).cards
    assert not (await memory.recall("What is the door code?", at="2024-06-03")).cards
    assert (await memory.note_at("door")).until == datetime(2024, 6, 2)
    for as_of, valid in (("2024-06-01", True), ("2024-06-02", False), ("2024-04-30", False)):
        evidence = await memory.recall("The door code?", at="2024-07-01", as_of=as_of)
        assert bool(evidence.cards) == valid
    await memory.expire(at="2024-06-03")
    assert await memory.cards() == []


EARLY, LATE = timezone(timedelta(hours=-5)), timezone(timedelta(hours=9))


@pytest.mark.parametrize("zone", [None, EARLY, LATE])
async def test_an_offset_and_an_epoch_of_until_become_the_time_of_the_clock(
    make: Make, zone: timezone | None
) -> None:
    now = datetime(2030, 1, 1, 12, tzinfo=zone)
    memory = await make(clock=lambda: now)
    until = now.astimezone() + timedelta(minutes=30)
    forms: list[Any] = [until, until.astimezone(EARLY), until.astimezone(LATE).isoformat()]
    for given in (*forms, until.timestamp(), str(int(until.timestamp() * 1000))):
        card = await memory.note("The door code is 4711.", key="door", until=given)
        assert card.until == datetime(2030, 1, 1, 12, 30)
    for given in (now.astimezone(LATE), now.timestamp()):
        with pytest.raises(InputError, match="in the past"):
            await memory.note("The door code is 4711.", key="door", until=given)


async def test_a_note_expires_to_the_millisecond(make: Make) -> None:
    now = NOW
    memory = await make(clock=lambda: now)
    until = NOW + timedelta(milliseconds=300)
    await memory.note("The door code is 4711.", key="door", until=until)
    now = until - timedelta(milliseconds=1)
    assert [note.key for note in await memory.notes()] == ["door"]
    assert (await memory.recall("Is the door code 4711?")).cards
    now = until
    assert await memory.notes() == []
    assert not (await memory.recall("Is the door code 4711?")).cards  # nor quoted as a turn
    with pytest.raises(NotInMemory):
        await memory.note_at("door")


async def test_wrong_notes_change_nothing(make: Make) -> None:
    memory = await make(clock=clock)
    for wrong in (
        {"until": "2024-05-31"},
        {"at": "2023-01-01", "until": "2023-02-01"},
        {"at": "2030-01-01", "until": "2029-01-01"},
        {"value": b"[NaN]"},
        {"until": "soon"},
        {"value": float("nan")},
        {"value": b"{"},
        {"value": {1, 2}},
        {"value": "x" * 1_000_001},
        {"key": ""},
        {"key": "k" * 191},
        {"labels": {"a": 3}},
        {"text": "  "},
        {"text": 3},
    ):
        with pytest.raises(InputError):
            await memory.note(**{"text": "A text.", **wrong})
    assert await memory.notes() == []
    with pytest.raises(InvalidSession, match="note:"):
        await memory.append([{"role": "user", "text": "Hi there."}], id="note:k", at=NOW)


async def test_notes_and_labels_survive_export_and_import(make: Make, tmp_path: Path) -> None:
    memory, other = await make(clock=clock), await make(space="other", clock=clock)
    await memory.note(
        "The budget is 900.", key="b", value=[1], labels={"p": "x"}, until="2025-01-01"
    )
    session = {"id": "s", "at": "2024-05-01", "labels": {"p": "y"}}
    await memory.remember({**session, "turns": [{"speaker": "Mira", "text": "I moved to Porto."}]})
    file = tmp_path / "export.jsonl"
    file.write_text("".join([line async for line in memory.export()]))
    await other.load(file)
    assert await other.notes() == await memory.notes()
    assert (await other.sessions())[0].labels == {"p": "y"}
    assert (await other.check()).sound


async def test_a_note_waits_for_its_card_after_a_crash(make: Make, tmp_path: Path) -> None:
    memory = await make(clock=clock)
    store = await open_store(tmp_path / "memory", "test")
    from justmem.edits import notes

    given = notes.as_note("A text.", key="k", value=None, at=NOW, until=None, labels=None, now=NOW)
    await store.keep(given)
    await store.close()
    assert (await memory.note_at("k")).text == "A text."
    (done,) = await memory.retry()
    assert [card.kind for card in done.cards] == ["note"]


# ---------------------------------------------------------------- filters


async def test_recall_is_filtered_by_labels_sessions_days_and_a_limit(make: Make) -> None:
    memory = await make(clock=clock)
    for n, project in enumerate(["kitchen", "garden", "kitchen"], 1):
        turns = [{"speaker": "Mira", "text": f"I paid {n}00 euros for tiles."}]
        labels = {"project": project}
        session = {"id": f"s{n}", "at": f"2024-05-0{n}", "turns": turns, "labels": labels}
        await memory.remember(session)
    await memory.note("Tiles cost 5 euros each.", key="tiles", labels={"project": "kitchen"})

    async def found(**where: Any) -> list[str]:
        evidence = await memory.recall("What did the tiles cost, euros?", at=NOW, **where)
        return sorted(card.session_id for card in evidence.cards)

    assert await found() == ["note:tiles", "s1", "s2", "s3"]
    assert await found(labels={"project": "kitchen"}) == ["note:tiles", "s1", "s3"]
    assert await found(sessions=["s2", "s3"]) == ["s2", "s3"]
    assert await found(labels={"project": "kitchen"}, sessions=["s2", "s3"]) == ["s3"]
    assert await found(since="2024-05-02", until="2024-05-03") == ["s2", "s3"]
    assert len(await found(limit=2)) == 2
    with pytest.raises(NotInMemory, match="s9"):
        await found(sessions=["s9"])
    with pytest.raises(NotInMemory, match="project=attic"):
        await found(labels={"project": "attic"})


async def test_recall_as_of_a_day_shows_what_was_true_then(make: Make) -> None:
    memory = await make(clock=clock)
    for at, text in (
        ("2023-01-10", "I live in Graz."),
        ("2024-03-05", "I live in Vienna now."),
    ):
        await memory.remember([{"speaker": "Mira", "text": text}], at=at)

    async def current(**when: Any) -> list[str]:
        evidence = await memory.recall("Where does Mira live?", at=NOW, **when)
        return [card.fact for card in evidence.cards if card.id not in evidence.earlier]

    assert await current() == ["said: I live in Vienna now."]
    assert await current(as_of="2023-06-01") == ["said: I live in Graz."]
    assert await current(as_of="2022-06-01") == []
    planned = "I am going to move to Linz on 1 June 2026."
    await memory.remember([{"speaker": "Mira", "text": planned}], at="2024-04-01")
    assert f"said: {planned}" in await current(as_of="2024-04-02"), "it was known on that day"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"limit": 0}, "at least 1"),
        ({"since": "soon"}, "since must be a day"),
        ({"as_of": "2999-01-01"}, "between 1900 and 2100"),
        ({"since": "2024-02-01", "until": "2024-01-01"}, "before since"),
        ({"sessions": "chat"}, "list of ids"),
        ({"labels": 3}, "Labels must be"),
    ],
)
async def test_an_invalid_filter_is_explained(make: Make, wrong: Any, says: str) -> None:
    memory = await make()
    with pytest.raises(InputError, match=says):
        await memory.recall("Where do I live?", **wrong)


async def test_labels_can_be_set_later_and_are_kept(make: Make) -> None:
    memory = await make()
    session = {"id": "s", "at": "2024-05-01", "turns": [{"speaker": "Mira", "text": "I sing."}]}
    await memory.remember(session)
    assert (await memory.remember({**session, "labels": {"a": "b"}})).unchanged
    assert (await memory.sessions())[0].labels == {"a": "b"}
    await memory.append([{"speaker": "Mira", "text": "I dance."}], id="s")
    assert (await memory.sessions())[0].labels == {"a": "b"}
    await memory.append(
        {"turns": [{"speaker": "Mira", "text": "I ski."}], "labels": {"c": "d"}}, id="s"
    )
    assert (await memory.sessions())[0].labels == {"c": "d"}
