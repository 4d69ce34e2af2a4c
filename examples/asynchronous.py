"""Asynchronous code: several sessions at once, then several questions at once."""

import asyncio
from tempfile import TemporaryDirectory

import justmem

SAID = {
    "2025-03-12": "I visited the Design Museum yesterday.",
    "2025-04-14": "I visited the Museum of Fine Arts on Sunday with Ada.",
    "2025-05-09": "I started at the harbour library on Monday.",
}
SESSIONS = [
    {"id": f"chat-{day}", "at": f"{day}T20:00", "turns": [{"speaker": "Mira", "text": said}]}
    for day, said in SAID.items()
]
QUESTIONS = ("Which museums has Mira visited?", "When did Mira start at the library?")


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
