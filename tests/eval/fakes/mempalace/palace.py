import json
from pathlib import Path


class Drawers:
    def __init__(self, folder):
        self.path = Path(folder) / "drawers.json"

    def upsert(self, documents, ids, metadatas):
        self.path.write_text(json.dumps(list(zip(documents, ids, metadatas, strict=True))))


def get_collection(folder):
    return Drawers(folder)
