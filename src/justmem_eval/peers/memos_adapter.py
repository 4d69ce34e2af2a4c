"""MemOS, the package `memos` of MemTensor/MemOS.

- Its general textual memory is used, over a local vector file: its graph memory wants a database
  server of its own.
- Each memory is marked with the session it was extracted from. Its turn is found by text
  alignment within that session.
- The embedder is reached through the meter as well (`embedder` and `dimensions` in the settings).
- A reply of the model that is no JSON raises KeyError in `extract`: that session is lost and
  reported, the others are kept.
"""

from lines import serve, settings, spoken, turns


def system(folder):
    from memos.configs.memory import MemoryConfigFactory
    from memos.memories.factory import MemoryFactory

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
        "vector_dimension": settings["dimensions"],
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


def ingest(folder, sessions):
    built, failed = system(folder), []
    for session in sessions:
        said = [spoken(session, turn) for _, _, turn in turns([session])]
        try:
            found = built.extract(said)
        except KeyError as error:
            failed.append(f"{session['id']}: {type(error).__name__}: {error}")
            continue
        for item in found:
            item.metadata.session_id = session["id"]
        built.add(found)
    return failed


def retrieve(memory, question, k):
    found = memory.search(question["text"], top_k=k)
    evidence = [{"text": item.memory, "session": item.metadata.session_id} for item in found]
    return evidence, "\n".join(item.memory for item in found)


if __name__ == "__main__":
    serve(ingest=ingest, open=system, retrieve=retrieve)
