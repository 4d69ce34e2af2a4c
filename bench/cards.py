"""What a card costs to write down, and how often code catches one that its turns do not say.

    python bench/cards.py --data folder

On LoCoMo's recorded cards: the tokens (o200k) of a card as an object, as a row and as its bare
words (ADR 1); and how many hold on their own turns, beside how many do not when they are given to
another session, and how many of those are held back, not moved to some turn there (ADR 5).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

from justmem import extract as drafts
from justmem.domain import Session
from justmem.runtime import tokens
from justmem_eval.benchmarks import locomo, recorded

FIELDS = ("subject", "fact", "event_date", "status", "kind")
ONE_WORD = 1e-9  # any share at all


def row(card: Mapping[str, Any]) -> str:
    turns = ",".join(map(str, card["turns"]))
    return json.dumps(" | ".join([*(str(card[name]) for name in FIELDS), turns]))


def as_object(card: Mapping[str, Any]) -> str:
    return json.dumps({name: card[name] for name in (*FIELDS, "turns")}, separators=(",", ":"))


def words(card: Mapping[str, Any]) -> str:
    return f"{card['subject']} {card['fact']}"


def kept(cards: Sequence[Mapping[str, Any]], session: Session, share: float) -> tuple[int, int]:
    """How many of the cards are taken: (on the turns they name, on those or any other)."""
    with patch.object(drafts, "_SHARE_IN_NAMED_TURNS", share):
        read = [draft for draft in drafts.CardsReply.model_validate(list(cards)).cards if draft]
        spoken = [drafts._stems(turn.text) for turn in session.turns]
        turns = [drafts._provenance(draft, spoken) for draft in read]
    named = sum(bool(t) and set(t) <= set(d.turns) for d, t in zip(read, turns, strict=True))
    return named, sum(map(bool, turns))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, required=True)
    data = options.parse_args().data
    benchmark = locomo.load(data)
    made = recorded.read("locomo", data).cards
    cards = [card for each in made.values() for card in each]
    print(f"{len(cards):,} recorded cards, tokens of one")
    for name, write in (("object", as_object), ("row", row), ("words", words)):
        print(f"  {name:<10} {mean(tokens.count(write(card)) for card in cards):>6.1f}")
    sessions = {
        (history, session.id): session
        for history in dict.fromkeys(case.history for case in benchmark.cases)
        for session in benchmark.history(history).sessions
    }
    places = [place for place in made if place in sessions]
    others = dict(zip(places, [*places[1:], *places[:1]], strict=True))
    total = sum(len(made[place]) for place in places)
    print("\nshare of words      on their own turns      on those of another session")
    print("asked for                         hold      do not hold      held back")
    for name, share in (("15 %", drafts._SHARE_IN_NAMED_TURNS), ("one word", ONE_WORD)):
        own, foreign, anywhere = 0, 0, 0
        for place in places:
            own += kept(made[place], sessions[place], share)[0]
            there, moved = kept(made[place], sessions[others[place]], share)
            foreign, anywhere = foreign + there, anywhere + moved
        held, caught = 1 - foreign / total, 1 - anywhere / total
        print(f"{name:<16} {own:>12,} of {total:,} {held:>16.0%} {caught:>14.0%}")


if __name__ == "__main__":
    main()
