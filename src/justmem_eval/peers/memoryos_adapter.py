"""MemoryOS (Kang et al.), its package `memoryos`.

- It keeps exchanges: turns are taken two by two, each with its speaker's name.
- `get_response` writes the question and its answer into memory, so it is not used; the plain
  reader answers from the retrieved context.
- Retrieval counts visits in its files: every history is opened from a copy, so that the memory
  stays as it was built.
- Pages keep the words of their exchange and are matched back to their turns by them.
- MemoryOS throws away an exchange without a reply, so a last turn without one gets "(no reply)".
- Evidence comes in this order: pages found, knowledge, short-term pages. The short-term pages are
  the same for every question.
"""

import json
import shutil

from lines import place, serve, settings

memory = {"opened": None, "places": {}}


def system(folder):
    from memoryos import Memoryos

    return Memoryos(
        user_id="user",
        openai_api_key=settings["api_key"],
        openai_base_url=settings["base_url"],
        data_storage_path=str(folder),
        llm_model=settings["model"],
    )


def ingest(message):
    folder = place(message["history"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    built, places = system(folder), {}
    for session in message["sessions"]:
        said = [(n, t) for n, t in enumerate(session["turns"], 1) if t["text"].strip()]
        for first in range(0, len(said), 2):
            pair = said[first : first + 2]
            texts = [f"{turn['speaker']}: {turn['text']}" for _, turn in pair]
            reply = texts[1] if len(texts) > 1 else "(no reply)"
            # Its own format: it parses the time again when it looks for heat.
            built.add_memory(texts[0], reply, timestamp=session["at"].replace("T", " ")[:19])
            places[texts[0]] = [session["id"], [number for number, _ in pair]]
    (folder / "places.json").write_text(json.dumps(places))


def open_history(message):
    kept = place(message["history"])
    copy = kept.with_name(kept.name + "-open")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(kept, copy)
    memory["opened"] = system(copy)
    memory["places"] = json.loads((kept / "places.json").read_text())


def retrieve(message):
    opened, asked = memory["opened"], message["question"]["text"]
    found = opened.retriever.retrieve_context(user_query=asked, user_id="user")
    recent = opened.short_term_memory.get_all()
    pages = found["retrieved_pages"]
    known = [k["knowledge"] for k in found["retrieved_user_knowledge"]]
    known += [k["knowledge"] for k in found["retrieved_assistant_knowledge"]]
    evidence = [exchange(page) for page in pages]
    evidence += [{"text": text} for text in known]
    evidence += [exchange(page) for page in recent]
    profile = opened.get_user_profile_summary() or ""
    lines = [
        f"[{page.get('timestamp', '')}] {exchange(page)['text']}" for page in [*pages, *recent]
    ]
    return {"evidence": evidence, "context": "\n".join([profile, *known, *lines])}


def exchange(page):
    text = f"{page.get('user_input', '')}\n{page.get('agent_response', '')}".strip()
    session, turns = memory["places"].get(page.get("user_input", ""), (None, None))
    return {"text": text, "session": session, "turns": turns} if session else {"text": text}


if __name__ == "__main__":
    serve(ingest=ingest, open=open_history, retrieve=retrieve)
