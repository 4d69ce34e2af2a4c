"""Words that go once their cards are made: what works without them, and what says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem import AsyncMemory, Retention
from justmem.cli.app import app
from justmem.domain import SessionState
from justmem.errors import ModelUnavailable, NotInMemory
from justmem.memory_parts import Parts
from justmem.store.sqlite import open_store
from justmem.testing import HashEmbedder, ScriptedModel
from stories import BIKE, HISTORY, NOW, RUN, Make, by_model, extract_history, plan, scripted

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it
AT_ONCE = Retention(source_days=0)
ANSWER = {"answer": "A moss garden.", "used": ["1"], "sufficient": True}
WORDS = (b"Saiho-ji", b"legs feel", b"Sore.")  # said, and on no card


def told(**fields: object) -> ScriptedModel:
    return scripted(extract=extract_history, plan=plan(**fields), answer=ANSWER)


@pytest.fixture(params=["sqlite", "postgres"])
async def memory(request: pytest.FixtureRequest, make: Make) -> Any:
    """An empty space that drops words once their cards are made."""
    if request.param == "sqlite":
        yield await make(told(source=True, op="quote"), retention=AT_ONCE)
        return
    from justmem.store.postgres import open_store as open_postgres

    store = await open_postgres(request.getfixturevalue("database_url"), "wordless")
    found = await make(told(source=True, op="quote"), store=store, retention=AT_ONCE)
    yield found
    await found.forget(everything=True)


async def texts(memory: AsyncMemory, session: str) -> list[str]:
    return [turn.text for turn in (await memory.session(session)).turns]


async def test_the_cards_stay_and_the_words_go(memory: AsyncMemory) -> None:
    done = await memory.remember_many(HISTORY)
    assert {each.state for each in done} == {SessionState.STORED}
    assert len(await memory.cards()) == 7
    assert await texts(memory, "run") == ["", "", ""]
    assert (await memory.check()).sound


async def test_words_older_than_allowed_go_when_they_expire(make: Make) -> None:
    memory = await make(told(), retention=Retention(source_days=70))
    await memory.remember_many(HISTORY)
    soon = await memory.expiring(at=NOW)
    assert [record.id for record in soon.words] == ["run"]
    gone = await memory.expire(at=NOW)
    assert (gone.turns, gone.cards, gone.sessions) == (3, 0, 0)
    assert await texts(memory, "run") == ["", "", ""]
    assert "Saiho-ji" in " ".join(await texts(memory, "kyoto"))
    assert len(await memory.cards()) == 7
    assert (await memory.expiring(at=NOW)).words == ()


async def test_words_that_were_there_before_go_when_they_expire(make: Make) -> None:
    await (await make(told())).remember_many(HISTORY)
    memory = await make(told(), retention=AT_ONCE)
    await memory.keep({**RUN, "id": "waiting"})
    assert (await memory.expire(at=NOW)).turns == 9
    assert len((await memory.session("waiting")).turns[0].text) > 0


async def test_replay_says_that_the_words_are_not_kept_and_quotes_nobody(
    memory: AsyncMemory,
) -> None:
    await memory.remember_many(HISTORY)
    answer = await memory.ask("What was the plan for Kyoto, word for word?", at=NOW)
    evidence = answer.evidence
    assert (evidence.access, evidence.sources, evidence.sources_kept) == ("REPLAY", (), False)
    assert answer.text == "The words themselves are not kept. From the cards: A moss garden."
    assert "the words are not kept: only cards were read" in answer.receipt.notes
    assert answer.citations
    for citation in answer.citations:
        assert (citation.kept, citation.quote, citation.speaker) == (False, "", "")
        card = await memory.card(citation.card_id or "")
        assert citation.turn in card.turns
        assert citation.session_id == card.session_id


async def test_a_model_is_told_not_to_quote(make: Make) -> None:
    model = told(source=True, op="quote")
    memory = await make(model, retention=AT_ONCE)
    await memory.remember_many(HISTORY)
    await memory.ask("What was the plan for Kyoto, word for word?", at=NOW)
    answering = model.prompts[-1]
    assert "quote nobody" in answering.system
    assert "exactly as they stand" not in answering.system


async def test_the_rules_say_so_where_no_card_answers(make: Make) -> None:
    memory = await make(retention=AT_ONCE)
    await memory.remember_many(HISTORY)
    question = "What exactly did I say about my sailing boat?"
    answer = await memory.ask(question, at=NOW)
    assert answer.evidence.sources == ()
    assert answer.text == "The words themselves are not kept, and the cards do not say."


async def test_a_source_without_words_and_a_quote_say_so(memory: AsyncMemory) -> None:
    await memory.remember(RUN)
    (card, *_) = await memory.cards()
    source = await memory.source(card.id)
    assert {turn.text for _, turn in source.turns} == {""}
    assert not any(citation.kept for citation in source.citations)
    with pytest.raises(NotInMemory, match="was forgotten"):
        await memory.card("run#1")


async def test_words_stay_until_their_cards_are_made(make: Make) -> None:
    replies: list[Any] = [ModelUnavailable("Away.")]
    model = ScriptedModel(lambda prompt: replies.pop() if replies else extract_history(prompt))
    memory = await make(model, retention=AT_ONCE)
    assert (await memory.remember(RUN)).state is SessionState.FAILED
    assert all(await texts(memory, "run"))
    (done,) = await memory.retry()
    assert done.state is SessionState.STORED
    assert await texts(memory, "run") == ["", "", ""]
    assert await memory.retry() == []


async def test_the_same_session_costs_nothing_and_a_grown_one_keeps_its_cards(
    memory: AsyncMemory,
) -> None:
    await memory.remember(RUN)
    before = await memory.cards()
    assert (await memory.remember(RUN)).unchanged
    grown = {**RUN, "turns": [*RUN["turns"], *BIKE["turns"]]}
    done = await memory.remember(grown)
    assert done.state is SessionState.STORED
    assert not done.unchanged
    assert {card.id for card in before} <= {card.id for card in await memory.cards()}
    assert await texts(memory, "run") == [""] * 6


async def test_all_vectors_can_be_made_anew(make: Make) -> None:
    memory = await make(told(), retention=AT_ONCE)
    await memory.remember_many(HISTORY)
    other = await make(told(), embedder=HashEmbedder(32))
    assert await other.reembed() == 7
    assert (await other.recall("gravel bike", at=NOW)).cards


async def test_an_export_without_words_is_loaded_as_such(
    memory: AsyncMemory, make: Make, tmp_path: Path
) -> None:
    await memory.remember_many(HISTORY)
    await memory.keep({**RUN, "id": "waiting"})
    file = tmp_path / "cards.jsonl"
    file.write_text("".join([line async for line in memory.export()]), "utf-8")
    assert WORDS[0].decode() not in file.read_text("utf-8")

    other = await make(told(), space="other")
    done = await other.load(file)
    assert (done.sessions, done.cards) == (4, 7)
    assert await other.sessions() == await memory.sessions()
    assert await other.cards() == await memory.cards()
    assert await texts(other, "run") == ["", "", ""]
    assert all(await texts(other, "waiting"))
    assert (await other.load(file)).brought == 0


# ---------------------------------------------------------------- by command


def test_the_command_shows_before_it_drops(tmp_path: Path) -> None:
    import asyncio

    async def fill() -> None:
        store = await open_store(tmp_path, "default")
        parts = Parts(HashEmbedder(64), **by_model(told()))
        async with AsyncMemory(store, parts) as memory:
            await memory.remember_many(HISTORY)

    asyncio.run(fill())
    settings = tmp_path / "mine.toml"
    settings.write_text("[retention]\nsource_days = 0\n")

    def run(*args: str) -> Any:
        return CliRunner().invoke(
            app, [*args, "--folder", str(tmp_path), "--config", str(settings)]
        )

    shown = json.loads(run("expire", "--preview", "--json").stdout)
    assert (shown["forgotten"]["turns"], shown["forgotten"]["cards"]) == (9, 0)
    assert "Saiho-ji" in run("show", "kyoto").output
    assert "Forgotten: 0 cards, 0 sessions, 9 turns." in run("expire", "--yes").output
    card = json.loads(run("cards", "--json").stdout)[0]["id"]
    assert run("show", card).exit_code == 0
    source = json.loads(run("show", card, "--json").stdout)["source"]
    assert not any(citation["kept"] for citation in source["citations"])
