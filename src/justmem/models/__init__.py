"""Models, on this machine and on servers.

openai           language models and embedders behind an OpenAI-compatible URL
http_client      requests to a model server: retries, time limits, errors
onnx             embedding and reranking on this machine
e5               multilingual-e5-small from its 4-bit file
weights          the files of local models: downloads and pinned hashes; manifest.toml lists them
"""
