"""LightMem, the package `lightmem` of zjunlp/LightMem.

- Two local models of its own are needed; name them in this environment as LIGHTMEM_COMPRESSOR
  (llmlingua-2) and LIGHTMEM_EMBEDDER (a sentence-transformers model).
- Between two people every turn is sent as the user's, with the speaker's name, since it reads
  the user's side alone.
- What it retrieves carries no source: recall is by text alignment, as documented.
"""

import os
import shutil
from pathlib import Path

from lines import safe, serve

memory = {"settings": {}, "opened": None}


def start(message):
    memory["settings"] = message["settings"]
    Path(message["settings"]["folder"]).mkdir(parents=True, exist_ok=True)


def system(folder):
    from lightmem.memory.lightmem import LightMemory

    settings = memory["settings"]
    device = os.environ.get("LIGHTMEM_DEVICE", "cpu")
    lingua = {
        "model_name": os.environ["LIGHTMEM_COMPRESSOR"],
        "device_map": device,
        "use_llmlingua2": True,
    }
    return LightMemory.from_config(
        {
            "pre_compress": True,
            "pre_compressor": {
                "model_name": "llmlingua-2",
                "configs": {"llmlingua_config": lingua},
            },
            "topic_segment": True,
            "precomp_topic_shared": True,
            "topic_segmenter": {"model_name": "llmlingua-2"},
            "messages_use": "user_only",
            "metadata_generate": True,
            "text_summary": True,
            "memory_manager": {
                "model_name": "openai",
                "configs": {
                    "model": settings["model"],
                    "api_key": settings["api_key"],
                    "max_tokens": 16000,
                    "openai_base_url": settings["base_url"],
                },
            },
            "extract_threshold": 0.1,
            "index_strategy": "embedding",
            "text_embedder": {
                "model_name": "huggingface",
                "configs": {
                    "model": os.environ["LIGHTMEM_EMBEDDER"],
                    "embedding_dims": 384,
                    "model_kwargs": {"device": device},
                },
            },
            "retrieve_strategy": "embedding",
            "embedding_retriever": {
                "model_name": "qdrant",
                "configs": {
                    "collection_name": "memory",
                    "embedding_model_dims": 384,
                    "path": str(folder),
                },
            },
            "update": "offline",
        }
    )


def ingest(message):
    folder = place(message["history"])
    shutil.rmtree(folder, ignore_errors=True)
    built = memory["opened"] = system(folder)
    sessions = message["sessions"]
    for number, session in enumerate(sessions, 1):
        rounds = list(exchanges(session))
        for place_in, messages in enumerate(rounds, 1):
            last = number == len(sessions) and place_in == len(rounds)
            built.add_memory(messages=messages, force_segment=last, force_extract=last)
    built.construct_update_queue_all_entries()
    built.offline_update_all_entries(score_threshold=0.8)


def exchanges(session):
    """Each turn of the user with the reply that follows, in the shape LightMem takes."""
    spoken = [turn for turn in session["turns"] if turn["text"].strip()]
    assisted = any(turn["role"] == "assistant" for turn in spoken)
    for number, turn in enumerate(spoken):
        if turn["role"] == "assistant":
            continue
        reply = spoken[number + 1]["text"] if assisted and number + 1 < len(spoken) else ""
        said = turn["text"] if assisted else f"{turn['speaker']}: {turn['text']}"
        yield [
            {"role": "user", "content": said, "time_stamp": session["at"]},
            {"role": "assistant", "content": reply, "time_stamp": session["at"]},
        ]


def open_history(message):
    memory["opened"] = system(place(message["history"]))


def retrieve(message):
    found = memory["opened"].retrieve(message["question"]["text"], limit=message["k"])
    texts = found.splitlines() if isinstance(found, str) else [str(item) for item in found]
    return {"evidence": [{"text": text} for text in texts], "context": "\n".join(texts)}


def answer(message):
    return {}


def place(history):
    return Path(memory["settings"]["folder"]) / safe(history)


if __name__ == "__main__":
    serve(start=start, ingest=ingest, open=open_history, retrieve=retrieve, answer=answer)
