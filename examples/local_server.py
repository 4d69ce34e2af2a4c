"""A language model on your own server: any URL with the OpenAI protocol.

This example starts a test server with three fixed replies, so that it runs everywhere. To use your
own server, change only `url`, for example to http://localhost:8000/v1.
"""

from tempfile import TemporaryDirectory

import justmem
from justmem_eval.loopback import chat_body, serve_openai

CARDS = {"cards": ["Mira | moved to Ghent | 2025-03-08 | completed | event | 1"]}
PLAN = {"op": "lookup", "period": "", "spans": False, "source": False, "rewrites": []}
ANSWER = {"answer": "In Ghent", "used": ["1"], "sufficient": True}


def main(url: str) -> None:
    with (
        TemporaryDirectory() as folder,
        justmem.open("mira", folder=folder, model=f"openai:my-model@{url}") as memory,
    ):
        chat = [{"speaker": "Mira", "text": "I moved to Ghent last Saturday."}]
        memory.remember(chat, at="2025-03-10T19:30")
        answer = memory.ask("Where does Mira live?")
        print(answer, "|", answer.citations[0].quote)
        for call in answer.receipt.calls:
            print(f"{call.stage:7} {call.model}: {call.tokens_in} in, {call.tokens_out} out")


if __name__ == "__main__":
    with serve_openai(
        [chat_body(reply, usage=(600, 60)) for reply in (CARDS, PLAN, ANSWER)]
    ) as server:
        main(server.url)
