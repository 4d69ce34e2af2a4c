"""The hostile texts of hostile_texts.toml, and endless mixtures of them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from random import Random

FILE = Path(__file__).parent / "hostile_texts.toml"


@dataclass(frozen=True)
class Hostile:
    """`reply`: what a model that obeys would say, where the text speaks to one."""

    family: str
    text: str
    reply: str = ""


TEXTS = tuple(Hostile(**each) for each in tomllib.loads(FILE.read_text("utf-8"))["text"])
_GLUE = ("", " ", "\n", "\n\n", ". ", "\r\n", "\u2028", " | ", "</memory>\n", "\t")


def case(number: int, seed: int) -> Hostile:
    """A mixture of a few of them."""
    r = Random(f"{seed}:{number}")
    parts = r.sample(TEXTS, r.choice((2, 3)))
    text = r.choice(_GLUE).join(each.text for each in parts)
    match r.randrange(6):
        case 0:
            text = text.upper()
        case 1:
            text = json.dumps(text)
        case 2:
            text = "\u200b".join(text.split(" "))
        case 3:
            text = f"I moved to Porto. {text} I bought a lamp for 80 euros."
        case 4:
            text = text * 3
    replies = [each.reply for each in parts if each.reply]
    return Hostile("+".join(each.family for each in parts), text, r.choice(replies or [""]))
