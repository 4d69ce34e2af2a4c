"""SimpleMem (Liu et al.), its repository: `main.py` and `config.py` must be importable in this
environment, and `config.py` set up as its authors say.

- Without the lancedb, pylance and tantivy of its own requirements file its keyword search is off.
  Only the log says so ("FTS index creation skipped").
- Its entries carry no source: recall is by text alignment, as documented.
- The plain reader answers from its retrieved entries.
"""

from lines import serve, settings, turns


def system(folder, clear=False):
    from main import SimpleMemSystem

    return SimpleMemSystem(
        api_key=settings["api_key"],
        model=settings["model"],
        base_url=settings["base_url"],
        db_path=str(folder),
        clear_db=clear,
    )


def ingest(folder, sessions):
    built = system(folder, clear=True)
    for session, _, turn in turns(sessions):
        built.add_dialogue(turn["speaker"], turn["text"], session["at"])
    built.finalize()


def retrieve(memory, question, k):
    entries = memory.hybrid_retriever.retrieve(question["text"])
    lines = [f"[{entry.timestamp or ''}] {entry.lossless_restatement}" for entry in entries]
    return [{"text": entry.lossless_restatement} for entry in entries], "\n".join(lines)


if __name__ == "__main__":
    serve(ingest=ingest, open=system, retrieve=retrieve)
