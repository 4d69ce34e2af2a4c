"""The pages at `/`, in a real browser against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from browser import Browser, chromium
from justmem.server.application import PAGES
from justmem_eval.loopback import Respond, serve_openai
from replies import error_body
from servers import Running, serve, until
from stories import HISTORY

HOSTILE = {
    "id": "hostile <b>id</b>",
    "at": "2024-05-25T10:00",
    "turns": [
        {
            "speaker": "<img src=x onerror=owned=1>",
            "text": "😀 I bought a <script>owned=1</script> lamp for <img src=/x onerror=owned=1> "
            "80 euros.",
        }
    ],
}
VIEWS = [
    "#/",
    "#/key",
    "#/space/ana/ask",
    "#/space/ana/cards",
    "#/space/ana/sessions",
    "#/space/ana/session/bike",
    "#/space/ana/forget?session=bike",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("inspected")) as running:
        yield running


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def owner(server: Running) -> Iterator[httpx.Client]:
    """An admin in whose server the space `ana` holds the history, and nothing else."""
    with server.owner() as client:
        client.delete("/v1/spaces/ana")
        for session in HISTORY:
            remember(client, session)
        yield client


@pytest.fixture
def page(chrome: Browser, server: Running, owner: httpx.Client) -> Iterator[Browser]:
    """The pages with the owner's key entered, on a desktop. Nothing that happens may be an error
    of the page, break its policy, or ask anybody but the server."""
    chrome.view(1180, 900)
    chrome.requested.clear()
    chrome.complaints.clear()
    chrome.open(f"{server.url}/")
    chrome.js("sessionStorage.clear()")
    chrome.open(f"{server.url}/")
    chrome.write("[type=password]", owner.headers["authorization"].removeprefix("Bearer "))
    chrome.press("Enter", 13, "\r")
    chrome.wait_for("ana", "main table")
    yield chrome
    assert chrome.complaints == []
    asked = {url for url in chrome.requested if not url.startswith((server.url, "about:", "data:"))}
    assert asked == set()


def remember(client: httpx.Client, session: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/v1/spaces/ana/sessions?wait=true", json=session)
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


def go(page: Browser, hash: str) -> None:
    """To a view, and until it has what it shows."""
    page.js(f"location.hash = {json.dumps(hash)}")
    page.until(
        f"location.hash === {json.dumps(hash)} && !document.querySelector('[aria-busy=true]')"
    )
    page.until("document.querySelector('#space').hidden || document.querySelector('.counts span')")


def ask(page: Browser, question: str) -> None:
    go(page, "#/space/ana/ask")
    page.write("textarea", question)
    page.press("Enter", 13, "\r")
    page.until("document.querySelector('.receipt') && !document.querySelector('[aria-busy=true]')")


# ---------------------------------------------------------------- the way through


def test_an_answer_shows_its_plan_its_evidence_its_price_and_its_words(page: Browser) -> None:
    go(page, "#/space/ana/ask")
    page.wait_for("gravel bike", ".asked .cards")  # what memory holds, before the first question
    ask(page, "When did I buy the gravel bike?")
    assert "20 May 2024" in page.text(".answer")
    assert "LOOKUP" in page.text(".access")
    assert "nearest cards are read" in page.text(".access")
    assert "gravel bike" in page.text(".scored tbody tr")
    assert re.search(r"\d\.\d\d", page.text(".scored tbody tr td.figure"))
    lines = page.js("[...document.querySelectorAll('.receipt svg')].map(e => e.ariaLabel)")
    assert lines == ["This answer: 0 tokens", "Whole history: 130 tokens"]
    assert "20 May 2024" in page.js("document.querySelector('#said').textContent")


def test_a_citation_opens_its_conversation_at_the_exact_words(page: Browser) -> None:
    ask(page, "When did I buy the gravel bike?")
    page.click(".citation")
    page.until("document.querySelector('dialog[open] mark')")
    assert page.text("dialog mark") == "Bought a gravel bike today to spare my knee, 1,450 euros."
    assert "What colour?" in page.text("dialog")
    page.press("Escape", 27)
    page.until("!document.querySelector('dialog').open")
    assert page.js("document.activeElement.className") == "citation"
    go(page, "#/space/ana/cards")
    page.js("history.back()")
    page.until("document.querySelector('.answer')")


def test_a_question_about_the_words_shows_the_source(page: Browser) -> None:
    ask(page, "What exactly was the plan you gave me for Kyoto?")
    assert "REPLAY" in page.text(".access")
    assert "original words" in page.text(".access")
    assert "Saiho-ji moss garden" in page.text(".steps .turns")


def test_a_question_may_say_when_it_is_asked(page: Browser) -> None:
    go(page, "#/space/ana/ask")
    page.click(".ask summary")
    page.js("document.querySelector('[type=datetime-local]').value = '2024-04-30T12:00'")
    ask(page, "When did I buy the gravel bike?")
    assert "30 Apr 2024" in page.text(".steps")
    assert "gravel" not in page.text(".scored")
    assert page.text(".answer") == "That is not in memory."


def test_a_card_opens_its_conversation_with_its_words_marked(page: Browser) -> None:
    go(page, "#/space/ana/cards")
    page.write("[type=search]", "riding group")
    page.wait_for("1 card", ".summary")
    page.click(".cards a")
    page.until("document.querySelector('main mark')")
    assert "joined the Tuesday riding group" in page.text("main mark")
    assert page.js("document.activeElement.tagName") == "H1"
    assert "riding group" in page.js("document.title")


def test_cards_are_filtered_by_kind_and_by_session(page: Browser) -> None:
    go(page, "#/space/ana/cards?kind=event&session=run")
    shown = page.text(".cards")
    assert "half marathon" in shown
    assert "gravel" not in shown
    page.js("""(() => {
        const kind = document.querySelector('#f-kind');
        kind.value = 'list';
        kind.dispatchEvent(new Event('change', {bubbles: true}));
    })()""")
    page.wait_for("No cards match", ".results")


def test_the_newest_cards_come_first_page_by_page(page: Browser, owner: httpx.Client) -> None:
    for part in range(3):
        turns = [
            {"role": "user", "text": f"I bought lamp number {part * 30 + n} yesterday."}
            for n in range(30)
        ]
        remember(owner, {"id": f"lamps-{part}", "at": f"2024-07-0{part + 1}", "turns": turns})
    go(page, "#/space/ana/cards?text=lamp")
    assert "1–50 of 90 cards" in page.text(".summary")
    assert "number 89" in page.text(".cards li")
    page.click(".pager button:nth-of-type(3)")
    page.wait_for("51–90 of 90 cards", ".summary")
    assert "number 39" in page.text(".cards li")
    page.js("history.back()")
    page.wait_for("1–50 of 90 cards", ".summary")


# ---------------------------------------------------------------- forgetting


def test_forgetting_a_card_shows_first_what_goes(page: Browser, owner: httpx.Client) -> None:
    cards = owner.get("/v1/spaces/ana/cards", params={"text": "gravel"}).json()
    ask(page, "When did I buy the gravel bike?")
    go(page, f"#/space/ana/card/{cards[0]['id']}")
    page.click(".button.danger")
    page.wait_for("This would forget 1 card", ".forgetting")
    assert "gravel bike" in page.text(".forgetting .cards")
    assert "conversation it comes from stays" in page.text(".forgetting")
    assert owner.get(f"/v1/spaces/ana/cards/{cards[0]['id']}").status_code == 200
    page.click(".confirm button.danger")
    page.wait_for("Forgotten: 1 card", ".forgetting")
    assert "Forgotten" in page.js("document.querySelector('#said').textContent")
    assert owner.get(f"/v1/spaces/ana/cards/{cards[0]['id']}").status_code == 404
    go(page, "#/space/ana/ask")
    assert page.text(".answer") == ""  # an answer from before is not kept


@pytest.mark.parametrize(
    ("what", "shown", "left"),
    [
        ("session=bike", "1 session, 3 turns", ["run", "kyoto"]),
        ("period=2024-03-01/2024-04-30", "2 sessions", ["bike"]),
        ("subject=User", "This would forget", ["run", "kyoto", "bike"]),
    ],
)
def test_what_the_preview_shows_is_forgotten(
    page: Browser, owner: httpx.Client, what: str, shown: str, left: list[str]
) -> None:
    go(page, f"#/space/ana/forget?{what}")
    page.wait_for(shown, ".forgetting h2")
    page.click(".confirm button.danger")
    page.wait_for("Forgotten", ".forgetting h2")
    sessions = owner.get("/v1/spaces/ana/sessions").json()
    assert [record["id"] for record in sessions] == left
    assert what != "subject=User" or owner.get("/v1/spaces/ana/cards").json() == []


def test_forgetting_a_turn_with_a_certificate(page: Browser, owner: httpx.Client) -> None:
    go(page, "#/space/ana/forget?turn=bike%231")
    page.wait_for("This would forget", ".forgetting h2")
    page.click("#f-verify")
    page.click(".confirm button.danger")
    page.wait_for("Remains: 0", ".certificate")
    assert owner.get("/v1/spaces/ana/sessions/bike").json()["turns"][0]["text"] == ""
    go(page, "#/space/ana/session/bike")
    page.wait_for("forgotten", ".turns")


def test_the_whole_space_goes_only_when_its_name_is_typed(
    page: Browser, owner: httpx.Client
) -> None:
    go(page, "#/space/ana/forget")
    page.click("input[value=everything]")
    page.click("form.forget button.main")
    page.wait_for("3 sessions, 9 turns", ".forgetting h2")
    page.write(".confirm input", "an")
    page.click(".confirm button.danger")
    assert owner.get("/v1/spaces/ana").status_code == 200
    page.write(".confirm input", "ana")
    page.click(".confirm button.danger")
    page.wait_for("Forgotten", ".forgetting h2")
    assert owner.get("/v1/spaces/ana").status_code == 404


# ---------------------------------------------------------------- sessions and keys


def test_a_failed_session_says_why_and_can_be_tried_again(
    page: Browser, owner: httpx.Client, tmp_path: Path
) -> None:
    refusal = Respond(error_body("this model is not served here"), status=404)
    with (
        serve_openai(lambda _: refusal) as model,
        serve(tmp_path / "failing", f'extractor = "openai:m@{model.url}"\n') as failing,
    ):
        key = failing.key("ana")
        with failing.client(key) as client:
            client.post("/v1/spaces/ana/sessions", json=HISTORY[0])
            until(
                lambda: client.get("/v1/spaces/ana/sessions/run/status").json()["state"] == "failed"
            )
        page.open(f"{failing.url}/#/space/ana/sessions?state=failed")
        page.write("[type=password]", key)
        page.press("Enter", 13, "\r")
        page.wait_for("failed", ".sessions tbody")
        assert "not served here" in page.text(".reason")
        page.click("[aria-label='Retry session run']")
        page.until("document.querySelector('#said').textContent.includes('run is failed')")
        page.wait_for("Retry", ".sessions tbody")
        page.requested[:] = [url for url in page.requested if not url.startswith(failing.url)]


def test_a_key_that_is_not_known_is_asked_for_again(page: Browser) -> None:
    go(page, "#/key")
    page.write("[type=password]", "jm_nobody_nothing")
    page.press("Enter", 13, "\r")
    page.wait_for("not known to the server", "main")
    assert page.js("document.activeElement.tagName") == "INPUT"
    assert page.js("Object.keys(localStorage).length + document.cookie.length") == 0


def test_a_key_that_may_only_read_is_told_so(page: Browser, server: Running) -> None:
    page.js(f"sessionStorage.setItem('justmem.key', '{server.key('ana', right='read')}')")
    go(page, "#/space/ana/forget?session=bike")
    page.wait_for("right `write`", ".forgetting")


# ---------------------------------------------------------------- remembered text is text


def test_markup_in_memories_is_shown_as_text(page: Browser, owner: httpx.Client) -> None:
    cards = remember(owner, HOSTILE)["cards"]
    assert cards
    ask(page, "Who bought a lamp for 80 euros?")
    go(page, "#/space/ana/cards?text=lamp")
    assert "<script>owned=1</script>" in page.text(".cards")
    go(page, f"#/space/ana/card/{cards[0]['id']}")
    page.until("document.querySelector('main mark')")
    said = HOSTILE["turns"][0]["text"]
    # An emoji before it is one character to the server and two to the browser.
    assert page.js("document.querySelector('main mark').textContent") in said
    assert page.text("main .turn .text") == said
    assert "<img src=x" in page.text(".speaker")
    go(page, "#/space/ana/sessions")
    assert "hostile <b>id</b>" in page.text(".sessions")
    go(page, "#/space/ana/session/hostile%20%3Cb%3Eid%3C%2Fb%3E")
    page.wait_for("lamp", ".turns")
    assert page.js("document.querySelectorAll('img, script:not([type=module])').length") == 0
    assert page.js("typeof owned") == "undefined"


def test_the_marked_words_are_the_cited_ones_after_an_emoji(
    page: Browser, owner: httpx.Client
) -> None:
    long = "😀😀😀 " + "The weather was mild and nothing happened all day long. " * 4
    text = f"{long}I bought a brass lamp yesterday. The evening was quiet and it rained."
    cards = remember(owner, {**HOSTILE, "id": "emoji", "turns": [{"role": "user", "text": text}]})
    card = next(card for card in cards["cards"] if "lamp" in card["fact"])
    source = owner.get(f"/v1/spaces/ana/cards/{card['id']}").json()["source"]
    go(page, f"#/space/ana/card/{card['id']}")
    page.until("document.querySelector('main mark')")
    assert page.text("main mark") == source["citations"][0]["quote"]
    assert "lamp" in page.text("main mark")


def test_the_policy_stops_what_a_page_may_not_do(page: Browser) -> None:
    page.js("""(() => {
        const script = document.createElement('script');
        script.textContent = 'owned = 1';
        document.body.append(script);
    })()""")
    assert page.js("typeof owned") == "undefined"
    assert any("Content Security Policy" in each for each in page.complaints)
    page.complaints.clear()


def test_no_file_parses_text_as_html_or_names_another_host() -> None:
    for path in PAGES.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in text, path
        assert not re.search(r"https?://", text), path
        assert not re.search(r"\sstyle=|\son\w+=", text), path


# ---------------------------------------------------------------- for everyone


def test_every_control_has_a_name_and_every_view_one_title(page: Browser) -> None:
    for hash in VIEWS:
        go(page, hash)
        check_structure(page)


def check_structure(page: Browser) -> None:
    controls = page.controls()
    assert controls
    assert [role for role, name in controls if not name.strip()] == []
    assert page.js("document.querySelectorAll('h1').length") == 1
    assert page.js("document.querySelectorAll('main').length") == 1
    assert page.js("[...document.querySelectorAll('[tabindex]')].every(e => e.tabIndex <= 0)")
    ids = page.js("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    levels = page.js("[...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])")
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(page: Browser, scheme: str) -> None:
    page.view(1180, 900, scheme=scheme)
    ask(page, "When did I buy the gravel bike?")
    for hash in VIEWS:
        go(page, hash)
        assert page.js(CONTRAST) == [], hash
    dark = page.js("getComputedStyle(document.body).backgroundColor") == "rgb(22, 22, 21)"
    assert dark == (scheme == "dark")


def test_a_phone_shows_all_without_scrolling_sideways(page: Browser) -> None:
    page.view(360, 740)
    ask(page, "When did I buy the gravel bike?")
    for hash in VIEWS:
        go(page, hash)
        page.until("document.documentElement.scrollWidth === 360")


def test_words_without_end_do_not_widen_a_phone(page: Browser, owner: httpx.Client) -> None:
    endless = {"role": "user", "text": f"I bought a {'lamp' * 80} yesterday."}
    remember(owner, {"id": "s" * 150, "at": "2024-07-01", "turns": [endless]})
    page.view(360, 740)
    ask(page, f"When did I buy the {'lamp' * 80}?")
    for hash in ("ask", "cards", "sessions", f"session/{'s' * 150}"):
        go(page, f"#/space/ana/{hash}")
        page.until("document.documentElement.scrollWidth === 360")


def test_everything_can_be_done_from_the_keyboard(page: Browser) -> None:
    page.open(page.js("location.origin + '/#/space/ana/cards'"))
    page.until("document.querySelector('.cards a')")
    page.press("Tab", 9)
    assert page.text(":focus") == "Skip to the content"
    page.press("Enter", 13, "\r")
    assert page.js("document.activeElement.id") == "main"
    reached: list[str] = []
    for _ in range(8):
        page.press("Tab", 9)
        reached.append(page.js("document.activeElement.id || document.activeElement.className"))
        assert page.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    filters = ["text", "kind", "status", "subject", "session", "order"]
    names = ["words" if name == "text" else name for name in filters]
    assert reached == [*(f"f-{name}" for name in names), "unseen", "told"]
    page.press("Enter", 13, "\r")
    page.until("document.querySelector('main mark')")


# Every element with text of its own, against the nearest background: 4.5 to 1, or 3 if large.
CONTRAST = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((each) => {
      each /= 255;
      return each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!(parts(colour)[3] === 0)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const weak = [];
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.closest('.unseen, :disabled')) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(style.color), light(behind(element))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24;
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) {
      weak.push([element.textContent.slice(0, 40), style.color, behind(element)]);
    }
  }
  return weak;
})()"""
