"""Spaces that keep cards but not the words they come from: what works, and what says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem import AsyncMemory, SessionState
from justmem.cli.app import app
from justmem.errors import InvalidSetting, ModelUnavailable, NotInMemory, SourceNotKept
from justmem.stores.opening import open_store
from justmem.testing import HashEmbedder, ScriptedModel
from stories import BIKE, HISTORY, KYOTO, NOW, RUN, Make, by_model, extract_history, plan, scripted

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it
ANSWER = {"answer": "A moss garden.", "used": ["1"], "sufficient": True}
WORDS = (b"Saiho-ji", b"legs feel", b"Sore.")  # said, and on no card


def told(**fields: object) -> ScriptedModel:
    return scripted(extract=extract_history, plan=plan(**fields), answer=ANSWER)


@pytest.fixture(params=["sqlite", "postgres"])
async def memory(request: pytest.FixtureRequest, make: Make) -> Any:
    """An empty space that drops its sources."""
    if request.param == "sqlite":
        yield await make(told(source=True, op="quote"), sources="drop")
        return
    from justmem.stores.postgres import open_store as open_postgres

    store = await open_postgres(request.getfixturevalue("database_url"), "sourceless")
    found = await make(told(source=True, op="quote"), store=store, sources="drop")
    yield found
    await found.forget(everything=True)


async def test_the_cards_stay_and_the_words_go(memory: AsyncMemory) -> None:
    done = await memory.remember_many(HISTORY)
    assert {each.state for each in done} == {SessionState.STORED}
    assert len(await memory.cards()) == 7
    with pytest.raises(SourceNotKept, match="cards without their sources"):
        await memory.session("run")
    assert (await memory.stats()).sources == "drop"
    (record, *_) = await memory.sessions()
    assert (record.id, record.turns) == ("run", 3)


async def test_replay_says_that_the_words_are_not_kept_and_quotes_nobody(
    memory: AsyncMemory,
) -> None:
    await memory.remember_many(HISTORY)
    answer = await memory.ask("What was the plan for Kyoto, word for word?", at=NOW)
    evidence = answer.evidence
    assert (evidence.access, evidence.sources, evidence.sources_kept) == ("REPLAY", (), False)
    assert answer.text == "The words themselves are not kept. From the cards: A moss garden."
    assert "the words are not kept in this space: cards stand alone" in answer.receipt.notes
    assert answer.citations
    for citation in answer.citations:
        assert (citation.kept, citation.quote, citation.speaker) == (False, "", "")
        card = await memory.card(citation.card_id or "")
        assert citation.turn in card.turns
        assert citation.session_id == card.session_id


async def test_a_model_is_told_not_to_quote(make: Make) -> None:
    model = told(source=True, op="quote")
    memory = await make(model, sources="drop")
    await memory.remember_many(HISTORY)
    await memory.ask("What was the plan for Kyoto, word for word?", at=NOW)
    answering = model.prompts[-1]
    assert "quote nobody" in answering.system
    assert "exactly as they stand" not in answering.system


async def test_the_rules_say_so_where_no_card_answers(make: Make) -> None:
    memory = await make(sources="drop")
    await memory.remember_many(HISTORY)
    question = "What exactly did I say about my sailing boat?"
    answer = await memory.ask(question, at=NOW)
    assert answer.evidence.sources == ()
    assert answer.text == "The words themselves are not kept, and the cards do not say."
    steps = [step async for step in memory.follow(question, at=NOW)]
    assert [step for step in steps if isinstance(step, str)] == [answer.text]


async def test_every_kind_of_question_works_without_words(memory: AsyncMemory, make: Make) -> None:
    await memory.remember_many(HISTORY)
    found = await memory.recall("What did the gravel bike cost?", at=NOW)
    assert "gravel bike" in found.cards[0].fact
    assert not any("#" in card.id for card in found.cards)


async def test_a_quote_and_a_source_are_named_errors(memory: AsyncMemory) -> None:
    await memory.remember(RUN)
    (card, *_) = await memory.cards()
    with pytest.raises(SourceNotKept):
        await memory.source(card.id)
    with pytest.raises(SourceNotKept):
        await memory.card("run#1")
    with pytest.raises(NotInMemory):
        await memory.session("never there")


async def test_words_stay_until_their_cards_are_made(make: Make) -> None:
    replies: list[Any] = [ModelUnavailable("Away.")]
    model = ScriptedModel(lambda prompt: replies.pop() if replies else extract_history(prompt))
    memory = await make(model, sources="drop")
    assert (await memory.remember(RUN)).state is SessionState.FAILED
    assert len((await memory.session("run")).turns) == 3
    (done,) = await memory.retry()
    assert done.state is SessionState.STORED
    with pytest.raises(SourceNotKept):
        await memory.session("run")
    assert await memory.retry() == []


async def test_a_changed_session_replaces_its_cards_and_the_same_costs_nothing(
    memory: AsyncMemory,
) -> None:
    await memory.remember_many(HISTORY)
    assert (await memory.remember(RUN)).unchanged
    changed = await memory.remember({**KYOTO, "id": "run"})
    assert changed.state is SessionState.STORED
    assert {card.kind for card in await memory.cards(session="run")} >= {"preference"}
    with pytest.raises(SourceNotKept):
        await memory.session("run")
    assert (await memory.forget(session="run")).cards == 3


async def test_the_words_are_not_in_the_file_either(make: Make, tmp_path: Path) -> None:
    memory = await make(told(), sources="drop")
    await memory.remember_many(HISTORY)
    # Still open: the file is small, so it was rewritten at once.
    left = b"".join(path.read_bytes() for path in sorted((tmp_path / "memory").iterdir()))
    assert b"gravel bike" in left
    assert [word for word in WORDS if word in left] == []


async def test_a_large_file_is_rewritten_when_it_is_closed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("justmem.stores.sqlite._SWEPT_AT_ONCE", 0)
    memory = await make(told(), sources="drop")
    await memory.remember_many(HISTORY)
    await memory.close()
    left = b"".join(path.read_bytes() for path in sorted((tmp_path / "memory").iterdir()))
    assert [word for word in WORDS if word in left] == []


async def test_what_a_space_does_is_its_own_to_say(make: Make) -> None:
    await (await make(told(), sources="drop")).remember(RUN)
    again = await make(told())  # told nothing: it drops all the same
    await again.remember(BIKE)
    with pytest.raises(SourceNotKept):
        await again.session("bike")
    wrong = await make(told(), sources="keep")
    with pytest.raises(InvalidSetting, match="for good"):
        await wrong.remember(KYOTO)


async def test_a_setting_does_not_drop_words_that_are_there(make: Make) -> None:
    await (await make(told())).remember(RUN)
    wrong = await make(told(), sources="drop")
    with pytest.raises(InvalidSetting, match="drop-sources"):
        await wrong.recall("How fast?")
    assert len((await wrong.session("run")).turns) == 3


async def test_all_vectors_can_be_made_anew(make: Make) -> None:
    memory = await make(told(), sources="drop")
    await memory.remember_many(HISTORY)
    other = await make(told(), embedder=HashEmbedder(32))
    assert await other.reembed() == 7
    assert (await other.recall("gravel bike", at=NOW)).cards


async def test_dropping_is_entered_in_the_audit(make: Make) -> None:
    memory = await make(told())
    await memory.remember_many(HISTORY)
    gone = await memory.drop_sources()
    assert gone.entry is not None
    assert (gone.entry.verb, dict(gone.entry.counts)) == ("drop_sources", {"turns": 9})
    assert (await memory.drop_sources()).entry is None
    assert (await memory.check_audit()).whole


# ---------------------------------------------------------------- taken along


async def test_an_export_of_cards_alone_is_loaded_as_such(
    memory: AsyncMemory, make: Make, tmp_path: Path
) -> None:
    await memory.remember_many(HISTORY)
    await memory.keep({**RUN, "id": "waiting"})
    file = tmp_path / "cards.jsonl"
    file.write_text("".join([line async for line in memory.export()]), "utf-8")
    assert all(word.decode() not in file.read_text("utf-8") for word in WORDS[:1])

    other = await make(told(), space="other")
    done = await other.load(file)
    assert (done.sessions, done.cards) == (4, 7)
    assert (await other.stats()).sources == "drop"
    assert await other.sessions() == await memory.sessions()
    assert await other.cards() == await memory.cards()
    with pytest.raises(SourceNotKept):
        await other.session("run")
    assert len((await other.session("waiting")).turns) == 3
    assert (await other.load(file)).brought == 0
    shown = "".join([line async for line in memory.export(format="markdown")])
    assert "3 turns, whose words are not kept." in shown


async def test_words_of_a_file_are_not_kept_where_none_are(
    memory: AsyncMemory, make: Make, tmp_path: Path
) -> None:
    worded = await make(told(), space="worded")
    await worded.remember_many(HISTORY)
    file = tmp_path / "words.jsonl"
    file.write_text("".join([line async for line in worded.export()]), "utf-8")
    assert (await memory.load(file)).cards == 7
    with pytest.raises(SourceNotKept):
        await memory.session("kyoto")
    assert (await memory.recall("gravel bike", at=NOW)).cards
    assert (await memory.load(file)).brought == 0


# ---------------------------------------------------------------- by command


def test_the_command_shows_before_it_drops(tmp_path: Path) -> None:
    import asyncio

    async def fill() -> None:
        store = await open_store(tmp_path, "default")
        async with AsyncMemory(store, HashEmbedder(64), **by_model(told())) as memory:
            await memory.remember_many(HISTORY)
            await memory.keep({**RUN, "id": "waiting"})

    asyncio.run(fill())

    def run(*args: str) -> Any:
        return CliRunner().invoke(app, [*args, "--home", str(tmp_path)])

    shown = json.loads(run("drop-sources", "--preview", "--json").stdout)
    assert shown == {"preview": True, "turns": 9, "waiting": 1}
    assert run("drop-sources").exit_code == 2  # nobody to ask
    assert "Saiho-ji" in run("show", "kyoto").output
    done = run("drop-sources", "--yes")
    assert "9 turns gone; the cards stay. 1 session keep their words" in done.output
    assert "not kept" in run("show", "kyoto").output
    card = json.loads(run("cards", "--json").stdout)[0]["id"]
    assert "The words it comes from are not kept." in run("show", card).output
    assert json.loads(run("show", card, "--json").stdout)["source"] is None
    assert "not kept: cards only" in run("stats").output
