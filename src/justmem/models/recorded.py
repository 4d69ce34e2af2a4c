"""Records a model's replies and replays them, so that a run can be repeated without a key or cost.

The file is JSON Lines, one line per reply. Its key is a hash of the prompt, the model's name and
the sample number.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from pathlib import Path

from justmem.domain import Call, dump
from justmem.errors import InvalidFile, InvalidSetting, ModelUnavailable
from justmem.ports import Completion, LanguageModel, Prompt, Searched
from justmem.ports.traces import Traces
from justmem.runtime import private_files


class RecordedModel:
    """Replays the replies in `path`. With an `inner` model, it records missing replies.

    A replayed call has the tokens of the recorded call and `attempts=0`."""

    def __init__(self, path: Path | str, inner: LanguageModel | None = None) -> None:
        self._path = Path(path)
        self._inner = inner
        self._lock = threading.Lock()
        self._damaged = 0
        self._replies: dict[str, Completion] = {}
        self.name, self.context = self._read()

    @property
    def records(self) -> bool:
        """Whether replies are written to the file, in plain text."""
        return self._inner is not None

    def __repr__(self) -> str:
        return f"RecordedModel({str(self._path)!r}, {self.name!r})"

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        key = prompt_key(self.name, prompt, sample)
        known = self._replies.get(key)
        if known is not None:
            call = known.call.model_copy(update={"attempts": 0, "seconds": 0.0})
            return Completion(text=known.text, call=call, truncated=known.truncated)
        if self._inner is None:
            damaged = f" and {self._damaged} damaged lines" if self._damaged else ""
            raise ModelUnavailable(
                f"{self._path} holds {len(self._replies)} replies{damaged}, but none to this "
                f"{prompt.stage} prompt (sample {sample}). Record it: open the file with the model "
                "to record as `inner`."
            )
        completion = await self._inner.complete(prompt, sample=sample)
        await asyncio.to_thread(self._record, key, sample, completion)
        return completion

    # ------------------------------------------------------------ forgetting

    async def holding(self, traces: Traces) -> int:
        return len(await asyncio.to_thread(self._lines_with, traces))

    async def forget(self, traces: Traces) -> int:
        return await asyncio.to_thread(self._forget, traces)

    async def remains(self, traces: Traces) -> Searched:
        found = await self.holding(traces)
        path = str(self._path)
        size = self._path.stat().st_size if self._path.exists() else 0
        return Searched(files=(path,), bytes=size, remains=(path,) if found else ())

    def _lines_with(self, traces: Traces) -> list[bytes]:
        return [line for line in self._lines() if _holds(line, traces)]

    def _forget(self, traces: Traces) -> int:
        """Rewrites the file without the lines that hold a trace. A reply that another process adds
        at that moment is lost. It can be recorded again."""
        with self._lock:
            lines = self._lines()
            stay = [line for line in lines if not _holds(line, traces)]
            if len(stay) == len(lines):
                return 0
            try:
                _replace(self._path, b"".join(line + b"\n" for line in stay))
            except OSError as error:
                raise InvalidFile(
                    f"What was to be forgotten is recorded in {self._path}, and the file cannot be "
                    f"changed ({error.strerror}). Nothing was forgotten: correct its permissions."
                ) from error
            known = {key for line in stay if (key := _key(line)) is not None}
            self._replies = {key: self._replies[key] for key in self._replies if key in known}
            return len(lines) - len(stay)

    # ------------------------------------------------------------ the file

    def _lines(self) -> list[bytes]:
        try:
            lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        except OSError as error:
            raise InvalidFile(f"{self._path} cannot be read ({error.strerror}).") from error
        return [line for line in lines if line.strip()]

    def _record(self, key: str, sample: int, completion: Completion) -> None:
        line = {
            "key": key,
            "model": self.name,
            "context": self.context,
            "sample": sample,
            "text": completion.text,
            "truncated": completion.truncated,
            "call": dump(completion.call),
        }
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            try:
                _append(self._path, data)
            except OSError as error:
                raise InvalidFile(
                    f"The reply could not be recorded in {self._path} ({error.strerror}). "
                    "Make room, or record elsewhere."
                ) from error
            self._replies[key] = completion

    def _read(self) -> tuple[str, int]:
        """Loads the replies. The name and context are the inner model's, or the recorded ones."""
        name, context = (self._inner.name, self._inner.context) if self._inner else ("", 0)
        for line in self._lines():
            try:
                entry = json.loads(line)
                call = Call.model_validate(entry["call"])
                recorded = entry["model"], entry["context"]
                self._replies[entry["key"]] = Completion(entry["text"], call, entry["truncated"])
            except (ValueError, KeyError, TypeError):
                self._damaged += (
                    1  # an incomplete line of a killed process: it can be recorded again
                )
                continue
            if self._inner is None:
                name, context = recorded
        if self._damaged and not self._replies:
            raise InvalidFile(f"{self._path} is not a recording of a model's replies.")
        if not name:
            raise InvalidSetting(
                f"{self._path} holds no recorded replies. Record some first: open it with the "
                "model to record as `inner`."
            )
        return name, context


def prompt_key(model: str, prompt: Prompt, sample: int) -> str:
    parts = [
        model,
        prompt.stage,
        prompt.system,
        prompt.unmarked,
        json.dumps(prompt.schema, sort_keys=True),
        prompt.max_tokens,
        sample,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _holds(line: bytes, traces: Traces) -> bool:
    """Whether the reply in this line holds any of the traces. A damaged line is searched as a
    whole."""
    try:
        entry = json.loads(line)
        said = f"{entry['text']}\n{entry['call']['error']}"
    except (ValueError, KeyError, TypeError):
        return bool(traces.found(line))
    return bool(traces.found_in_text(said))


def _key(line: bytes) -> str | None:
    try:
        return str(json.loads(line)["key"])
    except (ValueError, KeyError, TypeError):
        return None


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(path.name + ".new")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, path.stat().st_mode & 0o777)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _append(path: Path, line: bytes) -> None:
    """Writes a line in one call, so that several processes can record into one file."""
    private_files.folder(path.parent)
    file = private_files.append(path)  # private: replies contain words of the user
    try:
        if os.lseek(file, 0, os.SEEK_END) and _last_byte(file) != b"\n":
            line = b"\n" + line  # the last line is incomplete
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def _last_byte(file: int) -> bytes:
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1)
