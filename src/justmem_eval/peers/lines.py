"""JSON lines between justmem-eval and a peer. Standard library only: this runs in the peer's
environment, where justmem is not installed.

    serve(ingest=..., open=..., retrieve=...)

Each is a function of the message that returns the reply. What it prints goes to the log, never
between the lines. `start` and `answer` are optional: without `answer` the plain reader answers.
"""

import json
import sys
import traceback
from pathlib import Path

settings = {}  # as `start` received them


def serve(**handlers):
    replies, sys.stdout = sys.stdout, sys.stderr  # libraries print: keep the wire clean
    for line in sys.stdin:
        if not line.strip():
            continue
        message = json.loads(line)
        try:
            if message["do"] == "start":
                settings.update(message["settings"])
                Path(settings["folder"]).mkdir(parents=True, exist_ok=True)
            reply = dict(handlers.get(message["do"], nothing)(message) or {"ok": True})
        except Exception as error:  # noqa: BLE001  whatever a peer raises is its reply
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        reply["usage"] = usage()
        replies.write(json.dumps(reply, default=str) + "\n")
        replies.flush()


def usage():
    """CPU seconds and peak memory of this process and its ended children so far."""
    try:
        import resource
    except ImportError:  # not on Windows
        return {}
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return {
        "cpu": sum(one.ru_utime + one.ru_stime for one in each),
        "peak_mb": max(one.ru_maxrss for one in each) / unit,
    }


def turns(message):
    """(session, number, turn) of everything in an ingest message, in order."""
    for session in message["sessions"]:
        for number, turn in enumerate(session["turns"], 1):
            if turn["text"].strip():
                yield session, number, turn


def safe(name):
    """An id as a folder or user name."""
    return "".join(c if c.isalnum() else "-" for c in name)


def place(history):
    """Where the adapter keeps a history, in the folder that it may write in."""
    return Path(settings["folder"]) / safe(history)


def nothing(message):
    return {}
