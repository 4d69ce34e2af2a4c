"""Like LightMem: the store deletes its folder when opened, unless `on_disk` is true."""

import json
import shutil
from pathlib import Path


class LightMemory:
    def __init__(self, config):
        store = config["embedding_retriever"]["configs"]
        self.folder = Path(store["path"])
        if not store.get("on_disk") and self.folder.is_dir():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(config))
        self.embedding_retriever = self.client = self

    from_config = classmethod(lambda cls, config: cls(config))

    def add_memory(self, messages, force_segment, force_extract):
        with (self.folder / "messages.jsonl").open("a") as file:
            file.write(json.dumps(messages) + "\n")

    def construct_update_queue_all_entries(self):
        pass

    def offline_update_all_entries(self, score_threshold):
        pass

    def close(self):
        pass

    def retrieve(self, query, limit):
        path = self.folder / "messages.jsonl"
        kept = [json.loads(line)[0] for line in path.open()] if path.exists() else []
        asked = set(query.lower().strip("?").split())
        kept.sort(key=lambda said: -len(asked & set(said["content"].lower().split())))
        return [
            f"{said['time_stamp']} Mon {said['speaker_name']} said: {said['content']}"
            for said in kept[:limit]
        ]
