"""How to add a system: copy this file, fill in the functions, and try it with

    justmem-eval peer-check my_adapter.py --python ENV/bin/python --model openai:NAME

before a long run:

    justmem-eval run --system my_adapter.py --python ENV/bin/python --model openai:NAME ...

The script runs in the system's own environment. `lines` is found there without being installed.
What it prints goes to the log. An exception is reported with its text and costs the message that
it happened in; in `start` it ends the run.

`settings` holds base_url (the meter: send every model and embedding call there), api_key, model,
embedder (as that server knows it), dimensions (of its vectors) and folder (yours to write in).

After `ingest` the process is killed. A new one opens the memory. So `ingest` must have written
everything to disk when it returns.

This one remembers nothing but the words it was given, and finds by the words it was asked.
"""

import json
import re

from lines import serve, turns


def start():
    """Optional: prepare what does not depend on a history."""


def ingest(folder, sessions):
    """Build the memory of a history in its folder, which is empty.

    A session is {"id", "at", "turns": [{"speaker", "role", "text"}]}. `at` is an ISO time. `role`
    is "user" or "assistant"; between two people both are "user". Turns are numbered from 1. A
    text may be empty: `turns` leaves those out. Return ["ID: why"] for sessions that failed."""
    notes = [
        {"text": f"{turn['speaker']}: {turn['text']}", "session": session["id"], "turns": [number]}
        for session, number, turn in turns(sessions)
    ]
    (folder / "notes.json").write_text(json.dumps(notes))


def open_memory(folder):
    """Return the memory as `retrieve` needs it."""
    return json.loads((folder / "notes.json").read_text())


def retrieve(memory, question, k):
    """Evidence and context for a question, {"id", "text", "at"}. The context is what a reader is
    shown: one plain reader answers for all systems. The evidence lists all pieces in it, the best
    first; the first ten count for recall@10, all of them for "everything read".

    Name `session` and `turns` of each piece if the system knows them. If it knows only the
    session, name that; if nothing, leave both out: the text is then aligned by its words. A whole
    session is no source: every turn that is named counts as claimed. `also` lists pieces that the
    reader is shown together with this one."""
    wanted = words(question["text"])
    best = sorted(memory, key=lambda note: -len(wanted & words(note["text"])))
    evidence = best[:k]
    return evidence, "\n".join(note["text"] for note in evidence)


def words(text):
    return set(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_memory, retrieve=retrieve)
