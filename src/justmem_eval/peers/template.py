"""How to add a system: copy this file, fill in five functions, and try it with

    justmem-eval peer-check my_adapter.py --python ENV/bin/python --model openai:NAME

before a long run:

    justmem-eval run --system NAME --adapter my_adapter.py --python ENV/bin/python ...

The script runs in the system's own environment. `lines` is found there without being installed.
Each function gets one message and returns one reply; what it prints goes to the log. An exception
is reported with its text and costs the message that it happened in.

    start     {"settings": {...}}. An exception here ends the run.
    ingest    {"history": ID, "sessions": [{"id", "at", "turns": [{"speaker", "role", "text"}]}]}
              `at` is an ISO time. `role` is "user" or "assistant"; between two people both are
              "user". Turns are numbered from 1. A text may be empty: `turns` leaves those out.
              Reply {"failed": ["ID: why"]} for sessions that could not be built.
    open      {"history": ID}
    retrieve  {"question": {"id", "text", "at"}, "k": 10}
    answer    {"question": {...}, "context": TEXT}

Settings: base_url (the meter: send every model and embedding call there), api_key, model,
embedder (as that server knows it), dimensions (of its vectors) and folder (yours to write in).

After `ingest` the process is killed. A new one gets `open`. So `ingest` must have written
everything to disk when it returns.

This one remembers nothing but the words it was given, and finds by the words it was asked.
"""

import json
import re

from lines import place, serve, turns

memory = {"notes": []}


def start(message):
    """`settings` holds the settings already, and the folder is there."""


def ingest(message):
    """Build the memory of a history and write it to disk."""
    notes = [
        {"text": f"{turn['speaker']}: {turn['text']}", "session": session["id"], "turns": [number]}
        for session, number, turn in turns(message)
    ]
    place(message["history"]).write_text(json.dumps(notes))


def open_history(message):
    memory["notes"] = json.loads(place(message["history"]).read_text())


def retrieve(message):
    """`context` is what a reader is shown. `evidence` lists all pieces in it, the best first; the
    first ten count for recall@10, all of them for "everything read".

    Name `session` and `turns` of each piece if the system knows them. If it knows only the
    session, name that; if nothing, leave both out: the text is then aligned by its words. A whole
    session is no source: every turn that is named counts as claimed. `also` lists pieces that the
    reader is shown together with this one."""
    wanted = words(message["question"]["text"])
    best = sorted(memory["notes"], key=lambda note: -len(wanted & words(note["text"])))
    evidence = best[: message["k"]]
    return {"evidence": evidence, "context": "\n".join(note["text"] for note in evidence)}


def answer(message):
    """{"answer": ...} if the system answers itself; {} leaves it to the plain reader, which
    sees the context and is the same for all."""
    return {}


def words(text):
    return set(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_history, retrieve=retrieve, answer=answer)
