"""LightMem, the repository zjunlp/LightMem (the published package of that name is empty).

- Name local models of its own in this environment: LIGHTMEM_EMBEDDER (a sentence-transformers
  model; LIGHTMEM_DIMENSIONS is the length of its vectors, 384 if not set) and LIGHTMEM_COMPRESSOR
  (llmlingua-2). Without the second, nothing is compressed or cut into topics.
- Between two people every turn is sent as the user's, with the speaker in the fields that its own
  LoCoMo script uses, since it reads the user's side alone.
- What it retrieves carries no source: recall is by text alignment, as documented. The time and
  weekday before each text are for the reader and are not aligned.
- Its vector store deletes the folder when opened, unless `on_disk` is true.
"""

import os

from lines import serve, settings, turns


def system(folder):
    from lightmem.memory.lightmem import LightMemory

    dimensions = int(os.environ.get("LIGHTMEM_DIMENSIONS", "384"))
    return LightMemory.from_config(
        {
            **compression(),
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
                    "embedding_dims": dimensions,
                    "model_kwargs": {"device": "cpu"},
                },
            },
            "retrieve_strategy": "embedding",
            "embedding_retriever": {
                "model_name": "qdrant",
                "configs": {
                    "collection_name": "memory",
                    "embedding_model_dims": dimensions,
                    "path": str(folder),
                    "on_disk": True,
                },
            },
            "update": "offline",
        }
    )


def compression():
    compressor = os.environ.get("LIGHTMEM_COMPRESSOR")
    if not compressor:
        return {"pre_compress": False, "topic_segment": False}
    lingua = {"model_name": compressor, "device_map": "cpu", "use_llmlingua2": True}
    return {
        "pre_compress": True,
        "pre_compressor": {"model_name": "llmlingua-2", "configs": {"llmlingua_config": lingua}},
        "topic_segment": True,
        "precomp_topic_shared": True,
        "topic_segmenter": {"model_name": "llmlingua-2"},
    }


def ingest(folder, sessions):
    built = system(folder)
    rounds = [messages for session in sessions for messages in exchanges(session)]
    for number, messages in enumerate(rounds, 1):
        last = number == len(rounds)
        built.add_memory(messages=messages, force_segment=last, force_extract=last)
    built.construct_update_queue_all_entries()
    built.offline_update_all_entries(score_threshold=0.8)
    built.embedding_retriever.client.close()  # one process holds the files at a time


def exchanges(session):
    """Each turn of the user with the reply that follows, in the shape LightMem takes."""
    spoken = [turn for _, _, turn in turns([session])]
    names = sorted({turn["speaker"] for turn in spoken if turn["role"] != "assistant"})
    for turn, following in zip(spoken, [*spoken[1:], None]):  # noqa: B905  Python 3.9 has no strict
        if turn["role"] == "assistant":
            continue
        replied = following is not None and following["role"] == "assistant"
        common = {
            "time_stamp": session["at"],
            "speaker_id": f"speaker_{'ab'[names.index(turn['speaker']) % 2]}",
            "speaker_name": turn["speaker"],
        }
        reply = following["text"] if replied else ""
        yield [
            {"role": "user", "content": turn["text"], **common},
            {"role": "assistant", "content": reply, **common},
        ]


def retrieve(memory, question, k):
    found = memory.retrieve(question["text"], limit=k)
    texts = found.splitlines() if isinstance(found, str) else [str(item) for item in found]
    return [{"text": text.split(" ", 2)[-1]} for text in texts], "\n".join(texts)  # time, weekday


if __name__ == "__main__":
    serve(ingest=ingest, open=system, retrieve=retrieve)
