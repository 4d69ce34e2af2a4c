"""JustMem through the same door as every other system, so that its costs are measured alike.

- Vectors are bought at the server, as by the others.
- As the system `justmem_rules` it has no model: rules make the cards and the plans.
"""

import shutil

from lines import place, serve, settings

memory = {"opened": None}


def start(message):
    import justmem  # noqa: F401  fails here if it is not installed


def system(folder):
    import justmem

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


def ingest(message):
    from justmem.domain import Session

    folder = place(message["history"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with system(folder) as built:
        done = [built.remember(Session.model_validate(each)) for each in message["sessions"]]
    return {"failed": [f"{each.session_id}: {each.reason}" for each in done if each.reason]}


def open_history(message):
    if memory["opened"] is not None:
        memory["opened"].close()
    memory["opened"] = system(place(message["history"]))


def retrieve(message):
    question = message["question"]
    evidence = memory["opened"].recall(
        question["text"], at=question["at"], speaker=question.get("speaker")
    )
    chosen = [candidate.card for candidate in evidence.chosen]
    known = {card.id for card in chosen}
    pieces = [shown(card) for card in chosen]
    if pieces:
        pieces[0]["also"] = [shown(card) for card in evidence.cards if card.id not in known]
    return {"evidence": pieces, "context": evidence.prompt(10**9)}


def shown(card):
    return {"text": card.text, "session": card.session_id, "turns": list(card.turns)}


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_history, retrieve=retrieve)
