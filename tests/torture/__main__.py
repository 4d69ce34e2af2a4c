"""`make torture`: tries to break every promise, and prints one line for each."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import traceback
from pathlib import Path

# One thread for arithmetic: the checks are many small steps in several processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Instead of this folder, whose module names would hide others.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from torture import SEED, Promise, promises, table  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    known = {promise.name: promise for promise in promises()}
    options = _options(arguments, list(known))
    if options.page:
        _write_page()
        return 0
    chosen = [known[name] for name in options.only or known]
    broken = [each.name for each in chosen if not _held(each, options)]
    print(  # noqa: T201
        f"{len(chosen) - len(broken)} of {len(chosen)} promises held, seed {options.seed}"
        + (f"; broken: {', '.join(broken)}" if broken else "")
    )
    return 1 if broken else 0


def _options(arguments: list[str] | None, names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--only", action="append", choices=names, help="one promise; repeatable")
    parser.add_argument("--count", type=int, help="how often, instead of each promise's own count")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of random choices ({SEED})")
    parser.add_argument("--minutes", type=float, help="how long, for soak")
    parser.add_argument("--page", action="store_true", help="rewrite the table of docs/promises.md")
    return parser.parse_args(arguments)


def _write_page() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "promises.md"
    text = page.read_text("utf-8")
    page.write_text(re.sub(r"(?:^\|.*\n)+", table(), text, count=1, flags=re.MULTILINE), "utf-8")


def _held(promise: Promise, options: argparse.Namespace) -> bool:
    start = time.perf_counter()
    count = options.count or promise.count
    try:
        said, verdict = promise.run(count, seed=options.seed, minutes=options.minutes), "PASS"
    except Exception as error:  # noqa: BLE001  the other promises are tried too
        traceback.print_exc()
        said, verdict = f"{type(error).__name__}: {str(error).splitlines()[:1]}", "FAIL"
    seconds = time.perf_counter() - start
    print(f"{verdict}  {promise.name:<10} {seconds:6.0f} s  {promise.text}  [{said}]", flush=True)  # noqa: T201
    return verdict == "PASS"


if __name__ == "__main__":
    sys.exit(main())
