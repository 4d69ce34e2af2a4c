"""A chat that remembers. Type a few lines, then an empty one to stop.

Here memory itself replies. In an assistant, put the evidence from `recall` into its prompt.
"""

from datetime import datetime
from tempfile import TemporaryDirectory

import justmem


def chat(memory: justmem.Memory) -> None:
    chat_id = f"chat-{datetime.now():%Y%m%d-%H%M%S}"
    while said := _line("you: "):
        answer = memory.ask(said)
        reply = answer.text if answer.sufficient else "I did not know that. I do now."
        print("memory:", reply)
        turns = [{"role": "user", "content": said}, {"role": "assistant", "content": reply}]
        memory.append(turns, id=chat_id)  # the session grows, and only the new turns are read
    print(f"\nRemembered {len(memory.cards())} cards:")
    for card in memory.cards():
        print("-", card.text)


def _line(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        return ""


if __name__ == "__main__":
    with TemporaryDirectory() as folder, justmem.open("me", folder=folder) as memory:
        chat(memory)
