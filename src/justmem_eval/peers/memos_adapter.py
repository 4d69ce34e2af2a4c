"""MemOS, the package `memos` of MemTensor/MemOS.

- Its general textual memory is used, over a local vector file: its graph memory wants a database
  server of its own.
- Memories carry no source: recall is by text alignment, as documented.
- The embedder is reached through the meter as well (`settings["embedder"]`); MEMOS_DIMENSION says
  how long its vectors are (1536).
"""

import os
import shutil
from pathlib import Path

from lines import safe, serve

memory = {"settings": {}, "opened": None}


def start(message):
    memory["settings"] = message["settings"]
    Path(message["settings"]["folder"]).mkdir(parents=True, exist_ok=True)


def system(folder):
    from memos.configs.memory import MemoryConfigFactory
    from memos.memories.factory import MemoryFactory

    settings = memory["settings"]
    model = {
        "model_name_or_path": settings["model"],
        "api_key": settings["api_key"],
        "api_base": settings["base_url"],
        "temperature": 0.0,
        "max_tokens": 8192,
    }
    embedder = {
        "provider": "openai",
        "model_name_or_path": settings["embedder"],
        "api_key": settings["api_key"],
        "base_url": settings["base_url"],
    }
    vectors = {
        "collection_name": "memory",
        "distance_metric": "cosine",
        "vector_dimension": int(os.environ.get("MEMOS_DIMENSION", "1536")),
        "path": str(folder),
    }
    return MemoryFactory.from_config(
        MemoryConfigFactory(
            backend="general_text",
            config={
                "extractor_llm": {"backend": "openai", "config": model},
                "embedder": {"backend": "universal_api", "config": embedder},
                "vector_db": {"backend": "qdrant", "config": vectors},
            },
        )
    )


def ingest(message):
    folder = place(message["history"])
    shutil.rmtree(folder, ignore_errors=True)
    built = memory["opened"] = system(folder)
    for session in message["sessions"]:
        said = [
            {
                "role": turn["role"],
                "content": f"[{session['at']}] {turn['speaker']}: {turn['text']}",
            }
            for turn in session["turns"]
            if turn["text"].strip()
        ]
        built.add(built.extract(said))


def spoken(session, turn):
    return f"[{session['at']}] {turn['speaker']}: {turn['text']}"


def open_history(message):
    memory["opened"] = None  # its vector file can be held by one at a time
    memory["opened"] = system(place(message["history"]))


def retrieve(message):
    found = memory["opened"].search(message["question"]["text"], top_k=message["k"])
    texts = [item.memory for item in found]
    return {"evidence": [{"text": text} for text in texts], "context": "\n".join(texts)}


def answer(message):
    return {}


def place(history):
    return Path(memory["settings"]["folder"]) / safe(history)


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_history, retrieve=retrieve, answer=answer)
