"""mem0, the package `mem0ai`.

- It is given two turns at a time, as in its authors' own LoCoMo runs. Each memory keeps these two
  turns as its source. (A session at a time takes fewer calls, but then each memory could name only
  the whole session, which is no source.)
- Vectors are bought at the server that the model is at (`embedder` and `dimensions`).
- Its keyword search wants spaCy and fastembed in this environment; without them it is dense only.
"""

import os
from pathlib import Path

from lines import pairs, serve, settings, spoken

USER = "user"


def start():
    folder = Path(settings["folder"])
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = str(folder / "mem0")  # else it writes into the home folder
    import mem0  # noqa: F401  fails here if it is not installed


def system(folder):
    from mem0 import Memory

    server = {"api_key": settings["api_key"], "openai_base_url": settings["base_url"]}
    vectors = {
        "collection_name": "memory",
        "path": str(folder / "vectors"),
        "embedding_model_dims": settings["dimensions"],
        "on_disk": True,
    }
    # Without `embedding_dims`, which it would pass on: many servers refuse that parameter.
    embedder = {**server, "model": settings["embedder"]}
    return Memory.from_config(
        {
            "llm": {"provider": "openai", "config": {**server, "model": settings["model"]}},
            "embedder": {"provider": "openai", "config": embedder},
            "vector_store": {"provider": "qdrant", "config": vectors},
            "history_db_path": str(folder / "history.db"),
        }
    )


def ingest(folder, sessions):
    built = system(folder)
    for session in sessions:
        for pair in pairs(session):
            source = {"session": session["id"], "turns": [number for number, _ in pair]}
            built.add(
                [spoken(session, turn) for _, turn in pair],
                user_id=USER,
                metadata={**source, "at": session["at"]},
            )
    built.vector_store.client.close()
    built.close()


def retrieve(memory, question, k):
    found = memory.search(question["text"], filters={"user_id": USER}, top_k=k)["results"]
    lines = [f"[{item['metadata']['at']}] {item['memory']}" for item in found]
    return [shown(item["memory"], item["metadata"]) for item in found], "\n".join(lines)


def shown(text, source):
    return {"text": text, "session": source["session"], "turns": source["turns"]}


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=system, retrieve=retrieve)
