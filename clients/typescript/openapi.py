"""Write the OpenAPI document of the server to openapi.json, for the types of the client."""

import json
import tempfile
from datetime import datetime
from pathlib import Path

from justmem.config import load
from justmem.server.application import api
from justmem.server.state import Server

HERE = Path(__file__).parent

with tempfile.TemporaryDirectory() as folder:
    settings = load(folder=folder, embedder="justmem.testing:HashEmbedder", reranker="none")
    server = Server(settings, clock=datetime.now, keys=None)
    schema = api(server).openapi()
    (HERE / "openapi.json").write_text(json.dumps(schema), "utf-8")
