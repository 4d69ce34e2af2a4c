"""Remember a conversation, ask about it, and show the sources and the cost."""

from tempfile import TemporaryDirectory

import justmem

CHAT = [
    {"role": "user", "content": "I moved to Ghent last Saturday. I am allergic to walnuts."},
    {"role": "assistant", "content": "Noted! Any plans for the new kitchen?"},
    {"role": "user", "content": "I will bake rye bread for Ilse on Sunday."},
]

# Without `folder`, the memory is kept in your data folder.
with TemporaryDirectory() as folder, justmem.open("mira", folder=folder) as memory:
    memory.remember(CHAT, at="2025-03-10T19:30")

    for question in (
        "When did I move to Ghent?",
        "What will I bake for Ilse?",
        "What is the name of my dentist?",
    ):
        answer = memory.ask(question)
        print(question, "->", answer)
        for citation in answer.citations:
            print(f"    {citation.said_at:%Y-%m-%d}, {citation.speaker}: “{citation.quote}”")

    print(f"The last answer cost {answer.receipt.tokens} tokens.")
