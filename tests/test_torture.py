"""Every promise, tried a few times here; `make torture` tries each as often as docs/promises.md
says."""

from __future__ import annotations

import pytest

from pages import ROOT
from torture import Promise, promises, table

PROMISES = promises()


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.name for promise in PROMISES])
def test_a_promise_holds(promise: Promise) -> None:
    assert promise.run(promise.sample)


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.name for promise in PROMISES])
def test_a_promise_says_what_it_is_and_how_often_it_is_tried(promise: Promise) -> None:
    assert promise.text.endswith(".")
    assert 0 < promise.sample <= promise.count


def test_the_page_lists_every_promise_as_often_as_it_is_tried() -> None:
    page = (ROOT / "docs" / "promises.md").read_text("utf-8")
    assert table() in page, "make torture ARGS=--page writes the table"
    for promise in PROMISES:
        assert f"**{promise.name}**" in page, f"docs/promises.md says no limits of {promise.name}"
