"""Runs a real small language model behind an OpenAI-style HTTP server until stdin closes.

python llama.py MODEL.gguf    prints the server's address on the first line of stdout.
"""

from __future__ import annotations

import sys


def main(path: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.ui = False
    params.warmup = False
    params.sampling.seed = 7
    server = xllamacpp.Server(params)
    print(f"\naddress={server.listening_address}", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
