"""MemPalace, the package `mempalace`. It needs no model and no key.

- One turn is one drawer (it keeps texts word for word), so each has an exact source.
- Search is its own `search_memories`. MEMPALACE_STRATEGY=union adds its keyword candidates.
- Its embedder is its own too: it fetches a small local model when first used.
"""

import os

from lines import serve, turns


def start():
    import mempalace  # noqa: F401  fails here if it is not installed


def ingest(folder, sessions):
    from mempalace.palace import get_collection

    ids, documents, metadatas = [], [], []
    for session, number, turn in turns(sessions):
        ids.append(f"{session['id']}#{number}")
        documents.append(f"{turn['speaker']}: {turn['text']}")
        metadatas.append(
            {
                "wing": "conversation",
                "room": session["id"],
                "source_file": ids[-1],
                "chunk_index": 0,
                "filed_at": session["at"],
            }
        )
    get_collection(str(folder)).upsert(documents=documents, ids=ids, metadatas=metadatas)


def retrieve(memory, question, k):
    from mempalace.searcher import search_memories

    strategy = os.environ.get("MEMPALACE_STRATEGY", "vector")
    found = search_memories(question["text"], memory, n_results=k, candidate_strategy=strategy)
    if found.get("error"):
        raise RuntimeError(found["error"])
    lines = [f"[{hit.get('created_at', '')}] {hit['text']}" for hit in found["results"]]
    return [drawer(hit) for hit in found["results"]], "\n".join(lines)


def drawer(hit):
    session, _, number = hit["source_path"].rpartition("#")
    return {"text": hit["text"], "session": session, "turns": [int(number)]}


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=str, retrieve=retrieve)
