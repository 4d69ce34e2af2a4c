"""A conversation of two people: each turn has a speaker and a text, and both are remembered."""

from tempfile import TemporaryDirectory

import justmem

TEA = {
    "id": "tea",
    "at": "2025-02-02T16:00",
    "turns": [
        {"speaker": "Noor", "text": "I sold the old motorbike on Friday, to a man from Leuven."},
        {"speaker": "Pavel", "text": "I joined a choir last week. I sing bass."},
        {"speaker": "Noor", "text": "When is the first concert?"},
        {"speaker": "Pavel", "text": "The first concert is on June 14."},
    ],
}

with TemporaryDirectory() as folder, justmem.open("friends", folder=folder) as memory:
    for card in memory.remember(TEA).cards:
        print(f"{card.event_date!s:>22}  {card.text}")
    print()
    for question in ("When did Noor sell the motorbike?", "When is the first concert?"):
        print(question, "->", memory.ask(question))
