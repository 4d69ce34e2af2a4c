"""The same in asynchronous code: several sessions at once, several questions at once."""

import asyncio
from tempfile import TemporaryDirectory

import justmem

SESSIONS = [
    {
        "at": f"2025-0{month}-12T20:00",
        "turns": [
            {"role": "user", "name": "Mira", "content": f"I visited the {museum} yesterday."},
            {"role": "assistant", "content": "What did you see?"},
        ],
    }
    for month, museum in enumerate(("Design Museum", "Museum of Fine Arts", "Print Museum"), 3)
]
QUESTIONS = ("Which museums have I visited?", "When did I visit the Print Museum?")


async def main(folder: str) -> None:
    async with justmem.open_async("mira", folder=folder) as memory:
        done = await memory.remember_many(SESSIONS, on_done=lambda each: print(each.state))
        print(sum(len(each.cards) for each in done), "cards")
        answers = await asyncio.gather(*(memory.ask(question) for question in QUESTIONS))
        for question, answer in zip(QUESTIONS, answers, strict=True):
            print(question, f"[{answer.access}] ->", answer)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(folder))
