"""JustMem through the same door as every other system, so that its costs are measured alike.

- Vectors are bought at the server, as by the others.
- As the system `justmem_rules` it has no model: rules make the cards and the plans.
"""

from lines import serve, settings

import justmem
from justmem.domain import Session


def system(folder):
    server = settings["base_url"]
    rules = settings["system"] == "justmem_rules"
    return justmem.open(
        "memory",
        folder=folder,
        model="rules" if rules else f"openai:{settings['model']}@{server}",
        answerer="rules",
        embedder=f"openai:{settings['embedder']}@{server}",
        dimensions=settings["dimensions"],
        api_key=settings["api_key"],
        reranker="none",
        redact="none",
    )


def ingest(folder, sessions):
    with system(folder) as built:
        done = [built.remember(Session.model_validate(each)) for each in sessions]
    return [f"{each.session_id}: {each.reason}" for each in done if each.reason]


def retrieve(memory, question, k):
    speaker = question.get("speaker")
    evidence = memory.recall(question["text"], at=question["at"], speaker=speaker)
    chosen = [candidate.card for candidate in evidence.chosen]
    known = {card.id for card in chosen}
    pieces = [shown(card) for card in chosen]
    if pieces:
        pieces[0]["also"] = [shown(card) for card in evidence.cards if card.id not in known]
    return pieces, evidence.prompt(10**9)


def shown(card):
    return {"text": card.text, "session": card.session_id, "turns": list(card.turns)}


if __name__ == "__main__":
    serve(ingest=ingest, open=system, retrieve=retrieve)
