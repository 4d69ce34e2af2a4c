import json
from pathlib import Path


def search_memories(query, palace_path, n_results, candidate_strategy):
    path = Path(palace_path) / "drawers.json"
    if not path.exists():
        return {"error": "No palace found", "results": []}
    asked = set(query.lower().strip("?").split())
    kept = json.loads(path.read_text())
    kept.sort(key=lambda row: -len(asked & set(row[0].lower().split())))
    results = [
        {"text": text, "source_path": meta["source_file"], "created_at": meta["filed_at"]}
        for text, _, meta in kept[:n_results]
    ]
    return {"results": results}
