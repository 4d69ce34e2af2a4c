"""SimpleMem (Liu et al.), its repository: `main.py` and `config.py` must be importable in this
environment, and `config.py` set up as its authors say.

- Its entries carry no source: recall is by text alignment, as documented.
- The plain reader answers from its retrieved entries.
"""

import shutil

from lines import place, serve, settings, turns

memory = {"opened": None}


def system(folder, clear):
    from main import SimpleMemSystem

    return SimpleMemSystem(
        api_key=settings["api_key"],
        model=settings["model"],
        base_url=settings["base_url"],
        db_path=str(folder),
        clear_db=clear,
    )


def ingest(message):
    folder = place(message["history"])
    shutil.rmtree(folder, ignore_errors=True)
    built = system(folder, clear=True)
    for session, _, turn in turns(message):
        built.add_dialogue(turn["speaker"], turn["text"], session["at"])
    built.finalize()


def open_history(message):
    memory["opened"] = system(place(message["history"]), clear=False)


def retrieve(message):
    entries = memory["opened"].hybrid_retriever.retrieve(message["question"]["text"])
    lines = [f"[{entry.timestamp or ''}] {entry.lossless_restatement}" for entry in entries]
    evidence = [{"text": entry.lossless_restatement} for entry in entries]
    return {"evidence": evidence, "context": "\n".join(lines)}


if __name__ == "__main__":
    serve(ingest=ingest, open=open_history, retrieve=retrieve)
