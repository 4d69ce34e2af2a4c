"""MemPalace, the package `mempalace`. It needs no model and no key.

- One turn is one drawer (it keeps texts word for word), so each has an exact source.
- Search is its own `search_memories`. MEMPALACE_STRATEGY=union adds its keyword candidates.
- Its embedder is its own too: it fetches a small local model when first used.
"""

import os
import shutil

from lines import place, serve, turns

memory = {"opened": None}


def start(message):
    import mempalace  # noqa: F401  fails here if it is not installed


def ingest(message):
    from mempalace.palace import get_collection

    folder = place(message["history"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ids, documents, metadatas = [], [], []
    for session, number, turn in turns(message):
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


def open_history(message):
    memory["opened"] = str(place(message["history"]))


def retrieve(message):
    from mempalace.searcher import search_memories

    found = search_memories(
        message["question"]["text"],
        memory["opened"],
        n_results=message["k"],
        candidate_strategy=os.environ.get("MEMPALACE_STRATEGY", "vector"),
    )
    if found.get("error"):
        raise RuntimeError(found["error"])
    evidence = [drawer(hit) for hit in found["results"]]
    lines = [f"[{hit.get('created_at', '')}] {hit['text']}" for hit in found["results"]]
    return {"evidence": evidence, "context": "\n".join(lines)}


def drawer(hit):
    session, _, number = hit["source_path"].rpartition("#")
    return {"text": hit["text"], "session": session, "turns": [int(number)]}


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_history, retrieve=retrieve)
