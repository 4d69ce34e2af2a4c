"""Change what memory holds: a note, a correction with its history, and forgetting."""

from tempfile import TemporaryDirectory

import justmem

with TemporaryDirectory() as folder, justmem.open("mira", folder=folder) as memory:
    memory.note("The door code is 4711.", key="door")  # found again by its key
    (card,) = memory.remember("I live in Graz.", at="2025-05-01").cards
    fixed = memory.correct(card.id, fact="lives in Vienna", event_date="2025-02")

    for question in ("What is the door code?", "Where do I live?"):
        print(question, "->", memory.ask(question))
    for entry in memory.history(card=fixed.id):
        print(f"{entry.since}  {entry.card.text}  {entry.note}".rstrip())

    memory.forget(key="door")
    print("What is the door code? ->", memory.ask("What is the door code?"))
