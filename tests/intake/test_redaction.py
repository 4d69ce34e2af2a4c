"""A hook sees every word before anything is stored or sent to a model."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import justmem
import justmem.config
from justmem.config.opening import open_memory
from justmem.domain import SessionState
from justmem.errors import (
    InputError,
    InvalidQuestion,
    InvalidSession,
    InvalidSetting,
    NotInMemory,
)
from justmem.intake.redaction import secrets
from justmem.testing import HashEmbedder
from stories import NOW, RUN, Make, extract_history, plan, scripted

CARD = "4111 1111 1111 1111"
SESSION = {
    "id": "card",
    "at": "2024-05-01",
    "turns": [
        {"role": "user", "content": f"I ran a half marathon. My card is {CARD}."},
        {"role": "assistant", "content": "Noted."},
    ],
    "labels": {"title": f"Half marathon, paid with {CARD}"},
}
ANSWER = {"answer": "yes", "used": ["1"], "sufficient": True}


class Heard(HashEmbedder):
    """An embedder that remembers what it was given."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []

    async def embed(self, texts: Any, *, query: bool = False) -> Any:
        self.texts += texts
        return await super().embed(texts, query=query)


async def test_redacted_text_reaches_no_model_and_no_store(make: Make, tmp_path: Path) -> None:
    model = scripted(extract=extract_history, plan=plan(source=True), answer=ANSWER)
    embedder = Heard()
    memory = await make(model, redact=secrets, embedder=embedder)

    done = await memory.remember(SESSION)
    answer = await memory.ask(f"Which race did I run, with {CARD}?", at=NOW, speaker=f"Ana {CARD}")

    assert done.receipt.notes[0] == "1 of 2 turns were redacted"
    assert "the question was redacted" in answer.receipt.notes
    assert answer.evidence.question == "Which race did I run, with [card number]?"
    seen = [*embedder.texts, *(prompt.user for prompt in model.prompts), answer.model_dump_json()]
    assert not any("1111" in text for text in seen)
    session = await memory.session("card")
    assert session.turns[0].text.endswith("My card is [card number].")
    assert session.labels == {"title": "Half marathon, paid with [card number]"}
    await memory.close()
    files = [path for path in (tmp_path / "memory").iterdir() if path.is_file()]
    assert files
    assert not any(CARD[-9:].encode() in path.read_bytes() for path in files)


async def test_every_kind_of_input_is_redacted(make: Make) -> None:
    memory = await make(scripted(extract=extract_history), redact=secrets)
    await memory.keep(SESSION)
    (pending,) = await memory.waiting()
    assert "[card number]" in pending.turns[0].text
    await memory.remember_many([{**SESSION, "id": "other"}])
    assert "[card number]" in (await memory.session("other")).turns[0].text


async def test_remembering_the_same_secret_again_costs_nothing(make: Make) -> None:
    memory = await make(scripted(extract=extract_history), redact=secrets)
    await memory.remember(SESSION)
    again = await memory.remember(SESSION)
    assert again.unchanged
    assert again.receipt.notes == ("1 of 2 turns were redacted",)


async def test_words_stored_before_the_hook_was_set_are_redacted_before_they_are_sent(
    make: Make,
) -> None:
    memory = await make(scripted(extract=extract_history))
    kept = await memory.keep(SESSION["turns"], at="2024-05-01")
    model = scripted(extract=extract_history)
    again = await make(model, redact=secrets)
    (done,) = await again.retry()
    assert (done.session_id, done.state) == (kept.session_id, SessionState.STORED)
    assert "1111" not in model.prompts[0].user
    assert "1111" not in (await again.session(kept.session_id)).turns[0].text
    assert len(await again.sessions()) == 1


async def test_an_id_made_from_content_does_not_reveal_redacted_words(make: Make) -> None:
    memory = await make(redact=secrets)
    ids = {
        (
            await memory.keep([{"role": "user", "content": f"Password: {word}"}], at="2024-05-01")
        ).session_id
        for word in ("hunter2", "swordf1sh")
    }
    assert len(ids) == 1


async def test_an_id_that_would_be_redacted_is_refused(make: Make) -> None:
    memory = await make(redact=secrets)
    with pytest.raises(InvalidSession, match="another id") as raised:
        await memory.remember({**RUN, "id": f"call {CARD}"})
    assert "1111" not in str(raised.value)
    assert await memory.sessions() == []


async def test_labels_and_filters_by_them_are_redacted(make: Make) -> None:
    memory = await make(redact=lambda text: text.replace("Nora", "[name]"))
    labels = {"who": "Nora", "of Nora": "kayak"}
    turns = [{"role": "user", "content": "I bought a kayak in Graz."}]
    await memory.remember({"id": "k", "at": "2024-05-01", "turns": turns, "labels": labels})
    await memory.note("The kayak is red.", key="n", at="2024-05-01", labels=labels)
    redacted = {"who": "[name]", "of [name]": "kayak"}
    assert (await memory.session("k")).labels == redacted
    assert (await memory.note_at("n")).labels == redacted
    for asked in (labels, redacted):
        found = await memory.recall("kayak?", at=NOW, plan={}, labels=asked)
        assert {card.session_id for card in found.cards} == {"k", "note:n"}
    with pytest.raises(NotInMemory, match=r"who=\[name\] Weber") as raised:
        await memory.recall("kayak?", labels={"who": "Nora Weber"})
    assert "Nora" not in str(raised.value)


async def test_speakers_are_redacted_too(make: Make) -> None:
    memory = await make(redact=lambda text: text.replace("Ana", "[name]"))
    turns = [{"speaker": "Ana", "text": "Hello from Ana."}, {"speaker": "Ben", "text": "Hi."}]
    kept = await memory.keep({"at": "2024-05-01", "turns": turns})
    session = await memory.session(kept.session_id)
    assert [turn.speaker for turn in session.turns] == ["[name]", "Ben"]
    assert session.turns[0].text == "Hello from [name]."


async def test_a_hook_may_be_asynchronous(make: Make) -> None:
    async def hook(text: str) -> str:
        return text.replace("knee", "[part]")

    memory = await make(redact=hook)
    await memory.remember(RUN)
    assert "My [part] hurts" in (await memory.session("run")).turns[2].text


@pytest.mark.parametrize("result", [None, 7, b"bytes"])
async def test_a_hook_that_returns_no_text_stops_everything(make: Make, result: Any) -> None:
    model = scripted(extract=extract_history)
    memory = await make(model, redact=lambda text: result)
    with pytest.raises(InvalidSetting, match=f"returned a {type(result).__name__}"):
        await memory.remember(RUN)
    with pytest.raises(InvalidSetting, match="Nothing was kept or sent"):
        await memory.ask("How far?")
    assert (await memory.sessions(), model.prompts) == ([], [])


async def test_a_hook_that_fails_stops_everything_and_its_words_are_not_repeated(
    make: Make,
) -> None:
    def hook(text: str) -> str:
        raise ValueError(f"cannot parse {text}")

    memory = await make(redact=hook)
    with pytest.raises(InvalidSetting, match="failed with ValueError") as raised:
        await memory.remember_many([RUN, SESSION])
    assert "marathon" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert await memory.sessions() == []


async def test_a_question_that_is_empty_after_redaction_is_refused(make: Make) -> None:
    memory = await make(redact=lambda text: "")
    with pytest.raises(InvalidQuestion, match="empty after redaction"):
        await memory.ask("What is my PIN?")


async def test_an_export_with_text_to_be_redacted_is_not_loaded(make: Make, tmp_path: Path) -> None:
    free = await make(scripted(extract=extract_history), space="free")
    await free.remember_many([RUN, SESSION])
    file = tmp_path / "free.jsonl"
    file.write_text("".join([line async for line in free.export()]), "utf-8")
    strict = await make(redact=secrets)
    with pytest.raises(InputError, match="'card' of the file contains text to be redacted"):
        await strict.load(file)
    assert await strict.sessions() == []
    await free.forget(session="card")
    file.write_text("".join([line async for line in free.export()]), "utf-8")
    assert (await strict.load(file)).brought == 1


def shout(text: str) -> str:
    return text.replace("half", "HALF")


def test_a_hook_is_named_in_settings(tmp_path: Path) -> None:
    file = tmp_path / "justmem.toml"
    for name, kept in (("secrets", "half marathon"), (f"{__name__}:shout", "HALF marathon")):
        file.write_text(f'redact = "{name}"\nembedder = "{__name__}:Heard"\nreranker = "none"\n')
        settings = justmem.config.load(
            file, folder=tmp_path / "spaces", space=name.partition(":")[2] or "s"
        )
        memory = justmem.Memory(asyncio.run(open_memory(settings)))
        memory.keep(RUN)
        assert kept in memory.session("run").turns[0].text
        memory.close()


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("magic", "none, secrets or package.module:attribute"),
        ("no_such_package:hook", "cannot be imported"),
        (f"{__name__}:CARD", "function from text to text"),
        (17, "none, secrets or package.module:attribute"),
        (10**5000, "none, secrets or package.module:attribute"),  # too long to be written out
    ],
    ids=["unknown", "absent", "text", "number", "huge"],
)
async def test_an_object_that_is_not_a_hook_is_refused(
    tmp_path: Path, named: Any, told: str
) -> None:
    with pytest.raises(InvalidSetting, match=told):
        await justmem.open_async(
            "ana", folder=tmp_path, redact=named, embedder=HashEmbedder(8), reranker="none"
        )
    assert not os.listdir(tmp_path)
