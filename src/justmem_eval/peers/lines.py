"""JSON lines between justmem-eval and a peer. Standard library only: this runs in the peer's
environment, where justmem is not installed. `template.py` describes the functions of an adapter.
"""

import json
import shutil
import sys
import traceback
from pathlib import Path

settings = {}  # as `start` received them


def serve(*, ingest, open, retrieve, start=None):
    """What the functions print goes to the log, never between the lines."""
    replies, sys.stdout = sys.stdout, sys.stderr
    memory = None
    for line in sys.stdin:
        message = json.loads(line)
        what, reply = message["do"], {}
        try:
            if what == "start":
                settings.update(message["settings"])
                Path(settings["folder"]).mkdir(parents=True, exist_ok=True)
                if start:
                    start()
            elif what == "ingest":
                folder = place(message["history"])
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                reply["failed"] = ingest(folder, message["sessions"]) or []
            elif what == "open":
                memory = open(place(message["history"]))
            else:
                found = retrieve(memory, message["question"], message["k"])
                reply["evidence"], reply["context"] = found
        except Exception as error:  # noqa: BLE001  whatever a peer raises is its reply
            traceback.print_exc()
            reply["error"] = f"{type(error).__name__}: {error}"
        reply["usage"] = usage()
        replies.write(json.dumps(reply, default=str) + "\n")
        replies.flush()


def usage():
    """CPU seconds, with ended children, and peak memory of this process so far."""
    try:
        import resource
    except ImportError:  # not on Windows
        return {}
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {"cpu": sum(one.ru_utime + one.ru_stime for one in each), "peak_mb": peak_mb(each)}


def peak_mb(each):
    """On Linux `ru_maxrss` begins with the peak of the process that started this one, so the own
    peak is read from /proc."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    unit = 1024 if sys.platform != "darwin" else 1024 * 1024
    return max(one.ru_maxrss for one in each) / unit


def place(history):
    """The folder of a history."""
    name = "".join(c if c.isalnum() else "-" for c in history)
    return Path(settings["folder"]) / name


def turns(sessions):
    """(session, number, turn) of every turn with words, in order."""
    for session in sessions:
        for number, turn in enumerate(session["turns"], 1):
            if turn["text"].strip():
                yield session, number, turn


def pairs(session):
    """Two turns at a time, each with its number. The last may be alone."""
    said = [(number, turn) for _, number, turn in turns([session])]
    for first in range(0, len(said), 2):
        yield said[first : first + 2]


def spoken(session, turn):
    """A turn as one message of a chat, with its time and speaker."""
    text = f"[{session['at']}] {turn['speaker']}: {turn['text']}"
    return {"role": "assistant" if turn["role"] == "assistant" else "user", "content": text}
