"""What people and programs get to see of a hostile text: on a terminal, in an export, on a page
and in a log."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from rich.console import Console
from typer.testing import CliRunner

from browser import Browser, chromium
from justmem.cli import app, render
from justmem.cli.terminal import plain
from justmem.domain import Answer, Citation, Receipt, Remembered, SessionRecord, SessionState
from servers import LIGHT, Running, serve
from torture.hostile import Hostile
from torture.orders_prompts import AT, evidence_of, session_of

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Anything a terminal may obey, once colours are taken away: controls, C1, and turned writing.
_ORDER = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f]")


def check(hostile: Hostile) -> None:
    """All that the command draws, on a terminal with colours."""
    text = hostile.text
    evidence = evidence_of(text, speaker=text)
    session = session_of(text)
    cited = Citation(
        session_id=text, turn=2, speaker=text, said_at=AT, quote=text, start=0, end=len(text)
    )
    source = evidence.sources[0].model_copy(update={"citations": (cited,)})
    receipt = Receipt(notes=(text,))
    reason = {"state": SessionState.FAILED, "reason": text}
    done = Remembered(session_id=text, receipt=receipt, **reason)
    record = SessionRecord(id=text, at=AT, digest="d", turns=4, **reason)
    answer = Answer(
        text=text, sufficient=True, citations=(cited,), evidence=evidence, receipt=receipt
    )
    for drawn in (
        render.answer(answer),
        render.evidence(evidence),
        render.card(evidence.cards[0], source),
        render.card(evidence.cards[1], source, marked=True),
        render.session(session),
        render.cards(evidence.cards),
        render.sessions([record]),
        render.remembered([done], {text: "2024-05-20"}),
    ):
        stream = io.StringIO()
        Console(file=stream, force_terminal=True, markup=False, emoji=False, width=100).print(drawn)
        harmless(stream.getvalue())
    for one_line in (True, False):
        harmless(plain(text, one_line=one_line))


def harmless(drawn: str) -> None:
    found = _ORDER.search(_STYLE.sub("", drawn))
    assert found is None, f"{found[0]!r} reaches the terminal"


# ---------------------------------------------------------------- the whole command


def check_command(texts: Sequence[Hostile], folder: Path) -> None:
    """Remembered from a file, then shown by every command that shows anything."""
    folder.mkdir()
    config = folder / "justmem.toml"
    config.write_text(f'folder = "home"\n{LIGHT}')
    sessions = [
        session_of(each.text).model_copy(update={"id": f"h{n}"}) for n, each in _some(texts)
    ]
    file = folder / "texts.json"
    file.write_text(json.dumps([each.model_dump(mode="json") for each in sessions]))

    def done(*args: str) -> str:
        result = CliRunner().invoke(app, ["--config", str(config), *args])
        assert result.exit_code in (0, 1), f"{args}: {result.output}"
        harmless(result.output)
        return str(result.stdout)

    done("remember", str(file))
    for args in (["cards"], ["sessions"], ["stats"], ["doctor", "--offline"], ["show", "h0"]):
        done(*args)
        if args[0] != "doctor":
            json.loads(done(*args, "--json"))
    cards = json.loads(done("cards", "--json", "--limit", "1000"))
    assert cards, "nothing was made of the texts"
    for card in cards[::10]:
        done("show", card["id"])
    for each in texts[::8]:
        asked = each.text.replace("\0", "")
        done("ask", "--at", "2024-06-01", "--", asked)
        json.loads(done("recall", "--at", "2024-06-01", "--json", "--", asked))


def _some(texts: Sequence[Hostile]) -> list[tuple[int, Hostile]]:
    return list(enumerate(texts))


# ---------------------------------------------------------------- the server, its pages, its log


def check_server(texts: Sequence[Hostile], folder: Path) -> None:
    with serve(folder) as server, server.owner() as client:
        for n, each in enumerate(texts):
            told = session_of(each.text).model_dump(mode="json", exclude_none=True)
            told |= {"id": f"h{n} " + " ".join(each.text.split())[:80]}
            if not told["id"].isprintable():
                told["id"] = f"h{n}"
            answer = client.post("/v1/spaces/ana/sessions?wait=true", json=told)
            assert answer.status_code == 200, answer.text
        _exported(client, texts)
        _streamed(client, texts)
        (folder / "chromium").mkdir()
        with chromium(folder / "chromium") as browser:
            _shown(browser, server, client)
        _logged(server)


def _exported(client: httpx.Client, texts: Sequence[Hostile]) -> None:
    lines = client.get("/v1/spaces/ana/export").text.rstrip("\n").split("\n")
    values = [json.loads(line) for line in lines]
    assert values[0]["is"] == "export"
    assert values[-1]["is"] == "end"
    told = [value for value in values if value["is"] == "session"]
    assert values[0]["sessions"] == len(texts) == len(told)
    said = {turn["text"] for value in told for turn in value["turns"]}
    for each in texts:
        assert each.text.replace("\0", "") in said


def _streamed(client: httpx.Client, texts: Sequence[Hostile]) -> None:
    """A text cannot pass for an event of the stream."""
    for each in texts[::6]:
        body = {"question": each.text, "at": "2024-06-01"}
        heard = client.post(
            "/v1/spaces/ana/ask", json=body, headers={"accept": "text/event-stream"}
        ).text
        events = [piece.split("\n") for piece in heard.strip().split("\n\n")]
        names = [lines[0] for lines in events]
        assert all(len(lines) == 2 for lines in events), heard[:500]
        assert names.count("event: answer") == names.count("event: receipt") == 1


def _shown(browser: Browser, server: Running, client: httpx.Client) -> None:
    """Every view with every text in it, in a real browser."""
    key = client.headers["authorization"].removeprefix("Bearer ")
    browser.view(1180, 900)
    browser.open(f"{server.url}/")
    browser.write("[type=password]", key)
    browser.press("Enter", 13, "\r")
    browser.wait_for("ana", "main table")
    first = client.get("/v1/spaces/ana/sessions?limit=1000").json()["sessions"]
    views = ["#/", "#/space/ana/cards", "#/space/ana/timeline", "#/space/ana/sessions"]
    views += [f"#/space/ana/session/{quote(each['id'], safe='')}" for each in first[::9]]
    views += ["#/space/ana/session/%3Cimg%20src=x%20onerror=owned=1%3E", "#/javascript:owned=1"]
    views += ["#/space/ana/constructor", "#/space/__proto__/toString", "#/space/%3Cb%3E/cards"]
    for view in views:
        browser.js(f"location.hash = {json.dumps(view)}")
        browser.until(
            f"location.hash === {json.dumps(view)} && !document.querySelector('[aria-busy=true]')"
        )
        _untouched(browser, view)
    away = [url for url in browser.requested if not _own(url, server)]
    assert away == [], f"the page asked for {away}"
    assert browser.complaints == []


def _own(url: str, server: Running) -> bool:
    return url.startswith((server.url, "about:", "data:"))


def _untouched(browser: Browser, view: str) -> None:
    """No script ran, and nothing became an element that the pages do not make themselves."""
    assert browser.js("window.owned === undefined"), f"a text ran as a script in {view}"
    made: Any = browser.js(
        "[...document.querySelectorAll('body script, iframe, object, embed, base, "
        'img:not([src^="/"]), svg[onload], [onerror], [onclick], [onload], [onfocus], '
        '[onmouseover], a[href^="javascript:"], form[action]\')].map(e => e.outerHTML)'
    )
    assert [each for each in made if 'src="/' not in each] == [], f"{made} in {view}"


def _logged(server: Running) -> None:
    """No words in the log, and no line that it did not write itself."""
    lines = server.log.splitlines()
    start = next(n for n, line in enumerate(lines) if "listening on" in line)
    for line in lines[start:]:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ \S+ ", line), line
        assert not re.search(r"owned|forged|PWNED|lamp|Mallory|evil", line), line
