"""Like MemOS: a reply of the model that is no JSON is KeyError in `extract`. Its embedder asks
the server, and vectors of another length than the store was made for are an error."""

import json
import urllib.request
from pathlib import Path
from types import SimpleNamespace


class MemoryFactory:
    from_config = staticmethod(lambda factory: GeneralText(factory.config))


class GeneralText:
    def __init__(self, config):
        self.model = config["extractor_llm"]["config"]
        self.embedder = config["embedder"]["config"]
        store = config["vector_db"]["config"]
        self.dimension = store["vector_dimension"]
        self.path = Path(store["path"]) / "memories.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def _post(self, url, path, body):
        request = urllib.request.Request(url + path, json.dumps(body).encode())
        return json.loads(urllib.request.urlopen(request).read())

    def extract(self, messages):
        said = "\n".join(f"{m['role']}:{m['content']}" for m in messages)
        prompt = f'Return {{"memory list": [...]}}\n{said}'
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
        reply = self._post(self.model["api_base"], "/chat/completions", body)
        try:
            found = json.loads(reply["choices"][0]["message"]["content"])
        except ValueError:
            found = {}
        return [
            SimpleNamespace(memory=row["value"], metadata=SimpleNamespace(session_id=None))
            for row in found["memory list"]
        ]

    def _embed(self, texts):
        body = {"model": self.embedder["model_name_or_path"], "input": texts}
        reply = self._post(self.embedder["base_url"], "/embeddings", body)
        vectors = [row["embedding"] for row in reply["data"]]
        assert all(len(vector) == self.dimension for vector in vectors)
        return vectors

    def add(self, items):
        kept = json.loads(self.path.read_text()) if self.path.exists() else []
        vectors = self._embed([item.memory for item in items])
        kept += [
            [item.memory, item.metadata.session_id, vector]
            for item, vector in zip(items, vectors, strict=True)
        ]
        self.path.write_text(json.dumps(kept))

    def search(self, query, top_k):
        asked = self._embed([query])[0]
        kept = json.loads(self.path.read_text())
        kept.sort(key=lambda row: -sum(a * b for a, b in zip(asked, row[2], strict=True)))
        return [
            SimpleNamespace(memory=text, metadata=SimpleNamespace(session_id=session))
            for text, session, _ in kept[:top_k]
        ]
