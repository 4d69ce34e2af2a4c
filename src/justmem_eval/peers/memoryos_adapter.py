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
- It loads `all-MiniLM-L6-v2` by name.
"""

import json
import shutil

from lines import pairs, serve, settings


def system(folder):
    from memoryos import Memoryos

    return Memoryos(
        user_id="user",
        openai_api_key=settings["api_key"],
        openai_base_url=settings["base_url"],
        data_storage_path=str(folder),
        llm_model=settings["model"],
    )


def ingest(folder, sessions):
    built, places = system(folder), {}
    for session in sessions:
        for pair in pairs(session):
            texts = [f"{turn['speaker']}: {turn['text']}" for _, turn in pair]
            reply = texts[1] if len(texts) > 1 else "(no reply)"
            # Its own format: it parses the time again when it looks for heat.
            built.add_memory(texts[0], reply, timestamp=session["at"].replace("T", " ")[:19])
            places[texts[0]] = [session["id"], [number for number, _ in pair]]
    (folder / "places.json").write_text(json.dumps(places))


def open_memory(folder):
    copy = folder.with_name(folder.name + "-open")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return system(copy), json.loads((folder / "places.json").read_text())


def retrieve(memory, question, k):
    opened, places = memory
    found = opened.retriever.retrieve_context(user_query=question["text"], user_id="user")
    known = [*found["retrieved_user_knowledge"], *found["retrieved_assistant_knowledge"]]
    known = [each["knowledge"] for each in known]
    pages, recent = found["retrieved_pages"], opened.short_term_memory.get_all()
    evidence = [exchange(page, places) for page in pages]
    evidence += [{"text": text} for text in known]
    evidence += [exchange(page, places) for page in recent]
    profile = opened.get_user_profile_summary() or ""
    lines = [f"[{page.get('timestamp', '')}] {said(page)}" for page in [*pages, *recent]]
    return evidence, "\n".join([profile, *known, *lines])


def said(page):
    return f"{page.get('user_input', '')}\n{page.get('agent_response', '')}".strip()


def exchange(page, places):
    session, turns = places.get(page.get("user_input", ""), (None, None))
    return {"text": said(page), "session": session, "turns": turns}


if __name__ == "__main__":
    serve(ingest=ingest, open=open_memory, retrieve=retrieve)
