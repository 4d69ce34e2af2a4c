"""A-Mem (Xu et al.), the paper's own repository: `memory_layer.py` and `test_advanced.py` must be
importable in this environment.

- `memory_layer` uses `re` without importing it, and every note silently loses its keywords: the
  missing name is supplied here, nothing else is changed.
- Its own answer prompts depend on the gold category (and for category 5 show the gold answer):
  they are not used. The plain reader answers from its retrieved context.
- Notes are made in the order of the turns, so each has an exact source.
- It loads `all-MiniLM-L6-v2` by name.
"""

import json
import os
import pickle
import re

from lines import serve, settings, turns


def start():
    os.environ["OPENAI_BASE_URL"] = settings["base_url"]
    os.environ["OPENAI_API_KEY"] = settings["api_key"]
    import memory_layer

    memory_layer.re = re


def agent():
    from test_advanced import advancedMemAgent

    return advancedMemAgent(settings["model"], "openai", 10, 0.5)


def ingest(folder, sessions):
    built, places = agent(), []
    for session, number, turn in turns(sessions):
        built.add_memory(f"Speaker {turn['speaker']}says : {turn['text']}", time=session["at"])
        places.append([session["id"], number])
    (folder / "notes.pickle").write_bytes(pickle.dumps(built.memory_system.memories))
    built.memory_system.retriever.save(str(folder / "index.pickle"), str(folder / "index.npy"))
    (folder / "places.json").write_text(json.dumps(places))


def open_memory(folder):
    opened = agent()
    # Our own file of a moment ago, not a stranger's.
    opened.memory_system.memories = pickle.loads((folder / "notes.pickle").read_bytes())
    opened.memory_system.retriever = opened.memory_system.retriever.load(
        str(folder / "index.pickle"), str(folder / "index.npy")
    )
    return opened, json.loads((folder / "places.json").read_text())


def retrieve(memory, question, k):
    opened, places = memory
    keywords = opened.generate_query_llm(question["text"])
    found = [int(i) for i in opened.memory_system.retriever.search(keywords, k)]
    notes = list(opened.memory_system.memories.values())

    def shown(i):
        session, turn = places[i]
        return {"text": notes[i].content, "session": session, "turns": [turn]}

    def linked(i):
        """A-Mem shows up to k + 1 linked notes below each note that it finds."""
        return [shown(link) for link in notes[i].links[: k + 1] if 0 <= link < len(notes)]

    evidence = [{**shown(i), "also": linked(i)} for i in found]
    return evidence, opened.retrieve_memory(keywords, k=k)


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_memory, retrieve=retrieve)
