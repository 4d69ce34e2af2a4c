"""The pictures of the README are those that the script draws."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
DRAWN: dict[str, str] = runpy.run_path(str(PICTURES / "draw.py"))["pictures"]()


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_as_drawn_from_the_figures(name: str) -> None:
    kept = (PICTURES / name).read_text("utf-8")
    assert kept == DRAWN[name], "run python docs/pictures/draw.py"
    assert ElementTree.fromstring(kept).tag.endswith("svg")


def test_the_readme_shows_every_picture() -> None:
    readme = (PICTURES.parents[1] / "README.md").read_text("utf-8")
    assert all(f"docs/pictures/{name}" in readme for name in DRAWN)
