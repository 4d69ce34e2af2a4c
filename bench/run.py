"""Every benchmark that needs no database: `make bench`, `make bench ARGS=--full`.

    recall.py   a whole recall and a whole remember, against their floors
    store.py    the embedded store's own work, against a bare numpy scan and a bare file read
    locked.py   a locked space beside the same one in plain
    models.py   local models: batching, threads, what determinism costs

bench/spaces.py opens many spaces in turn. bench/server.py and bench/postgres.py
start servers of their own, bench/cards.py reads a benchmark's data: they are run by themselves.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SIZES = ["1000", "10000", "100000"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--full", action="store_true", help="A million cards too: 15 GB of disk.")
    sizes = [*SIZES, "1000000"] if options.parse_args().full else SIZES
    for name, *arguments in (
        ("recall.py", "--cards", *sizes),
        ("store.py", "--cards", *sizes),
        ("locked.py", "--cards", *SIZES),
        ("models.py",),
    ):
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, str(HERE / name), *arguments], check=True)


if __name__ == "__main__":
    main()
