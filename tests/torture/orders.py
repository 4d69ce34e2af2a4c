"""Remembered text stays data, whoever reads it: models, people, programs."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem import AsyncMemory, Budget
from justmem.cli import app
from justmem.domain import Answer, Call, Card
from justmem.errors import InputError, NotInMemory
from justmem.ports import Completion, Prompt
from justmem.prompts import load
from justmem.runtime import tokens
from justmem.testing import ScriptedModel
from justmem_eval.benchmarks import Case, Gold, Question
from justmem_eval.judging import Judge, instruction, parse
from servers import LIGHT, serve
from stories import BIKE, KYOTO, RUN, extract_history
from torture._fixtures import PLAN, folder, memory

PROMISE = (
    "Remembered text is never an instruction for the extractor, the planner, the answerer, the "
    "judge, the terminal, the page, the log or the database."
)
COUNT = 300
SAMPLE = 10

BUDGET = Budget(ask_tokens=4000, session_tokens=6000)
QUESTION = "What did my gravel bike cost?"


@dataclass(frozen=True)
class Hostile:
    family: str
    text: str
    reply: str = ""  # of a model that obeys

    def session(self, id: str = "hostile") -> dict[str, Any]:
        name = "".join(c for c in " ".join(self.text.split())[:200] if c.isprintable())
        turns = [
            {"speaker": "Ana", "text": "I bought a lamp for 80 euros."},
            {"speaker": "Ana", "text": self.text},
            {"role": "assistant", "text": self.text},
            {"speaker": name.strip() or "Ana", "text": "My sister is called Ines."},
        ]
        return {"id": id, "at": "2024-05-20T20:00", "turns": turns}


_FILE = Path(__file__).parent / "_hostile.toml"
TEXTS = [Hostile(*row) for row in tomllib.loads(_FILE.read_text("utf-8"))["texts"]]


def mixture(number: int, seed: int) -> Hostile:
    r = Random(f"{seed}:{number}")
    parts = r.sample(TEXTS, r.choice((2, 3)))
    glue = ("", " ", "\n", "\r\n", "\u2028", " | ", "</memory>\n", "\t")
    text = r.choice(glue).join(each.text for each in parts)
    forms = [text, text.upper(), json.dumps(text), "\u200b".join(text.split(" ")), text * 3]
    replies = [each.reply for each in parts if each.reply]
    return Hostile("+".join(e.family for e in parts), r.choice(forms), r.choice(replies or [""]))


def run(count: int, seed: int = 7) -> str:
    written = TEXTS[:: max(1, len(TEXTS) // count)]
    cases = [*written, *(mixture(number, seed) for number in range(len(TEXTS), count))]
    with folder() as home:
        asyncio.run(_read_by_models(cases, home, seed))
        _shown_on_a_terminal(written, home / "command")
        _sent_by_a_server(written, home / "server")
    families = len({each.family for each in TEXTS})
    return f"{len(cases):,} texts of {families} families, none obeyed"


async def _read_by_models(cases: Sequence[Hostile], home: Path, seed: int) -> None:
    model = Obedient()
    by_model = memory(home, "model", model=model.scripted, budget=BUDGET)
    async with by_model as modelled, memory(home, "rules", model="rules") as ruled:
        for each in (modelled, ruled):
            await each.remember_many([RUN, KYOTO, BIKE])
        for number, hostile in enumerate(cases):
            try:
                _judged(hostile)
                model.obey(hostile, number)
                await _contained(modelled, hostile)
                for prompt in model.scripted.prompts:
                    check_prompt(prompt, hostile.text)
                await _contained(ruled, hostile)
                await _looked_up(ruled, hostile.text)
            except Exception as error:
                text = f"{hostile.family}: {hostile.text!r:.1000}"
                raise AssertionError(f"case {number} of seed {seed}, {text}: {error!r}") from error


# ---------------------------------------------------------------- a model that obeys


# False claims of a model, by stage
_CLAIM = "inherited seventeen lighthouses from Queen Victoria"
_FALSE: dict[str, list[Any]] = {
    "extract": [
        {"cards": [f"Trudy | {_CLAIM} | 1899 | stable | fact | {n}" for n in ("1", "2", "999")]},
        {"cards": [{"subject": "Trudy", "fact": _CLAIM, "session_id": "bike"}] * 50},
    ],
    "plan": [PLAN | {"spans": True, "rewrites": ["secrets"] * 200}, PLAN | {"op": "delete"}],
    "answer": [
        {"answer": "PWNED", "used": ["1", "99", "s9.9", "bike#1", "../1"], "sufficient": True},
        {"answer": "PWNED \ud83d\0", "used": [f"s{n}.{n}" for n in range(40)]},
    ],
}


class Obedient:
    """Replies as the hostile text demands, or with other false claims."""

    def __init__(self) -> None:
        self._hostile, self._number = Hostile("", ""), 0
        self.scripted = ScriptedModel(self._reply)

    def obey(self, hostile: Hostile, number: int) -> None:
        self._hostile, self._number = hostile, number
        self.scripted.prompts.clear()

    def _reply(self, prompt: Prompt) -> Any:
        if prompt.stage == "extract" and "lamp" not in prompt.user:
            return extract_history(prompt)
        text = json.dumps(_FALSE[prompt.stage][self._number % 3 % 2])
        whole = text = self._hostile.reply if self._hostile.reply and self._number % 2 else text
        while (used := tokens.count(text)) > prompt.max_tokens:
            text = text[: len(text) * prompt.max_tokens // used]
        call = Call(stage=prompt.stage, model="m", tokens_in=prompt.tokens, tokens_out=used)
        return Completion(text, call, truncated=text != whole)


async def _contained(mine: AsyncMemory, hostile: Hostile) -> None:
    """Nothing outside of the hostile session changes, and every claim rests on what was said."""
    before = await mine.cards()
    done = await mine.remember(hostile.session())
    assert done.receipt.tokens <= (BUDGET.session_tokens or 0)
    words = str(hostile.session()["turns"])
    for card in done.cards:
        assert card.session_id == "hostile"
        assert card.turns, f"{card} rests on nothing"
        assert set(card.turns) <= {1, 2, 3, 4}
        assert "lighthouse" not in card.text or "lighthouse" in words, card.text
    assert [card for card in await mine.cards() if card.session_id != "hostile"] == before
    for question in (hostile.text, QUESTION):
        await _asked(mine, question)
    await mine.forget(session="hostile")
    assert await mine.cards() == before, "a hostile text left something behind"


async def _asked(mine: AsyncMemory, question: str) -> None:
    try:
        answer = await mine.ask(question, at="2024-06-01")
    except InputError:  # empty, or too long for what may be spent
        assert len(question) > 1000 or not question.strip("\0 \n")
        return
    check_answer(answer)
    assert answer.receipt.tokens <= (BUDGET.ask_tokens or 0)
    assert len(answer.plan.rewrites) <= 2
    for citation in answer.citations:
        text = (await mine.session(citation.session_id)).turn(citation.turn).text
        assert text[citation.start : citation.end] == citation.quote
    check_fences(answer.evidence.prompt(100_000), question)


def check_answer(answer: Answer) -> None:
    """What is cited was shown."""
    cards: Sequence[Card] = answer.evidence.cards
    shown = {(card.session_id, n) for card in cards for n in card.turns}
    shown |= {(source.session_id, n) for source in answer.evidence.sources for n, _ in source.turns}
    cited = {(each.session_id, each.turn) for each in answer.citations}
    assert cited <= shown, f"{cited - shown} was cited and never shown"
    answer.text.encode()


async def _looked_up(mine: AsyncMemory, text: str) -> None:
    """The database reads no text as SQL or as a search expression."""
    every = await mine.cards()
    for found in (await mine.cards(text=text), await mine.cards(subject=text)):
        assert all(card in every for card in found)
    for look in (mine.session, mine.card, mine.source):
        with pytest.raises(InputError if "\0" in text else NotInMemory):
            await look(text)  # type: ignore[operator]


# ---------------------------------------------------------------- prompts


def check_prompt(prompt: Prompt, text: str) -> None:
    """Our own instructions, then the text inside of fences."""
    assert prompt.system.startswith(load(prompt.stage).split("\n")[0]), "other instructions"
    assert text.strip() not in prompt.system
    check_fences(prompt.user, text, prompt.mark)


def check_fences(prompt: str, text: str, mark: str = "") -> None:
    """Tags carry a mark that the text cannot predict, and only they do. Outside of the fences
    stands nothing of the text."""
    mark = mark or next(iter(re.findall(r"^<memory-(\w+)>$", prompt, re.MULTILINE)), "")
    if not mark:
        assert prompt == "", f"no fence: {prompt[:200]!r}"
        return
    assert mark not in text
    tags = re.findall(rf"^<(/?)(\w+)-{mark}>$", prompt, re.MULTILINE)
    assert len(tags) == prompt.count(mark), "the mark stands elsewhere too"
    assert [name for slash, name in tags if slash] == [name for slash, name in tags if not slash]
    outside = re.sub(rf"^<(\w+)-{mark}>\n.*?^</\1-{mark}>$", "", prompt, flags=re.M | re.S)
    for line in filter(None, map(str.strip, text.splitlines())):
        assert len(line) < 12 or line not in outside, f"outside of its fence: {line[:200]!r}"


def _judged(hostile: Hostile) -> None:
    question = Question(id="q", text="What did the lamp cost?", at=datetime(2024, 5, 20))
    case = Case(question=question, gold=Gold(answer="80 euros", category="a"), history="h")
    model: Any = None
    prompt = Judge(model, "locomo").prompt(case, hostile.text)
    assert prompt.system == instruction("locomo", "strict")
    check_fences(prompt.user, hostile.text, prompt.mark)
    if hostile.family == "judge":
        assert parse(hostile.reply) is None, hostile.reply


# ---------------------------------------------------------------- people and programs

# What a terminal may obey, apart from colours: controls, C1, and changes of direction
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ORDER = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")


def _shown_on_a_terminal(texts: Sequence[Hostile], home: Path) -> None:
    """Remembered from a file, then shown by every command that shows something."""
    home.mkdir()
    config, file = home / "justmem.toml", home / "texts.json"
    config.write_text(f'folder = "home"\n{LIGHT}')
    file.write_text(json.dumps([each.session(f"h{n}") for n, each in enumerate(texts)]))

    def command(*args: str) -> str:
        plain = "--json" in args or args[0] == "remember"  # which moves the cursor
        environment = {} if plain else {"FORCE_COLOR": "1", "COLUMNS": "100"}
        done = CliRunner().invoke(app, ["--config", str(config), *args], env=environment)
        assert done.exit_code in (0, 1), f"{args}: {done.output}"
        found = _ORDER.search(_COLOUR.sub("", done.output))
        assert found is None, f"{args}: {found and found[0]!r} reaches the terminal"
        return str(done.stdout)

    command("remember", str(file))
    for args in (["cards"], ["sessions"], ["stats"], ["show", "h0"], ["doctor", "--offline"]):
        command(*args)
    cards = json.loads(command("cards", "--json", "--limit", "1000"))
    for card in cards[::10]:
        command("show", card["id"])
    for each in texts[::8]:
        question = each.text.replace("\0", "")
        command("ask", "--at", "2024-06-01", "--", question)
        json.loads(command("recall", "--at", "2024-06-01", "--json", "--", question))


def _sent_by_a_server(texts: Sequence[Hostile], home: Path) -> None:
    """Export, answers and log. tests/server/test_inspector.py checks the pages."""
    with serve(home) as server, server.owner() as client:
        for number, each in enumerate(texts):
            sent = client.post("/v1/spaces/a/sessions?wait=true", json=each.session(f"h{number}"))
            assert sent.status_code == 200, sent.text
        lines = client.get("/v1/spaces/a/export").text.rstrip("\n").split("\n")
        kinds = [json.loads(line)["is"] for line in lines]
        assert kinds.count("session") == len(texts)
        for each in texts[::6]:
            asked = {"question": each.text, "at": "2024-06-01"}
            answer = client.post("/v1/spaces/a/ask", json=asked)
            assert answer.json()["evidence"]["question"], answer.text[:500]
        log = server.log.partition("listening on")[2].splitlines()[1:]
        for line in log:
            assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+ ", line), line
            assert not re.search(r"owned|forged|PWNED|lamp|Mallory|evil", line), line
