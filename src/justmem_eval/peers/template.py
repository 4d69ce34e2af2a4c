"""How to add a system: copy this file, fill in five functions, run

    justmem-eval run --system NAME --adapter my_adapter.py --python ENV/bin/python ...

It runs in the system's own environment. `settings` holds base_url (the meter: send every model
and embedding call there), api_key, model, embedder and folder (yours to write in). This one
remembers nothing but the words it was given, and finds by the words it was asked.
"""

import json
import re
from pathlib import Path

from lines import safe, serve, turns

memory = {"settings": {}, "notes": []}


def start(message):
    memory["settings"] = message["settings"]
    Path(message["settings"]["folder"]).mkdir(parents=True, exist_ok=True)


def ingest(message):
    """Build the memory of a history and keep it: the process may be restarted at any time."""
    notes = [
        {"text": f"{turn['speaker']}: {turn['text']}", "session": session["id"], "turns": [number]}
        for session, number, turn in turns(message)
    ]
    place(message["history"]).write_text(json.dumps(notes))


def open_history(message):
    memory["notes"] = json.loads(place(message["history"]).read_text())


def retrieve(message):
    """`context` is what a reader is shown. Name `session` and `turns` of each piece if the
    system knows them; otherwise leave them out, and the text is aligned by its words."""
    wanted = words(message["question"]["text"])
    best = sorted(memory["notes"], key=lambda note: -len(wanted & words(note["text"])))
    evidence = best[: message["k"]]
    return {"evidence": evidence, "context": "\n".join(note["text"] for note in evidence)}


def answer(message):
    """{"answer": ...} if the system answers itself; {} leaves it to the plain reader, which
    sees the context and is the same for all."""
    return {}


def place(history):
    return Path(memory["settings"]["folder"]) / f"{safe(history)}.json"


def words(text):
    return set(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_history, retrieve=retrieve, answer=answer)
