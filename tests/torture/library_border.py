"""The library's border: every public method of Memory, `open`, and justmem.toml."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import justmem
from justmem import Memory, Turn, config
from justmem.domain import KINDS, STATUSES, Session, dump
from justmem.errors import InputError, InvalidSetting, JustMemError
from justmem.testing import HashEmbedder
from stories import HISTORY
from torture import odd

METHODS = tuple(
    name
    for name, each in vars(Memory).items()
    if not name.startswith("_") and inspect.isfunction(each)
)
_MOST = 40  # sessions: more makes every case slower and tests nothing else


def _words(*known: str) -> Callable[[Random], Any]:
    return lambda r: r.choice(known) if r.random() < 0.5 else odd.text(r)


def _session(r: Random) -> Any:
    if r.random() < 0.1:
        turns = (Turn(speaker=odd.name(r), text=odd.text(r)),)
        return Session.model_construct(id=odd.name(r), at=odd.moment(r), turns=turns)
    return odd.session(r)


# By the name of a parameter: what may stand there. Whatever is not named here gets odd text.
VALUES: Mapping[str, Callable[[Random], Any]] = {
    "question": _words(*odd.ASKED),
    "at": odd.moment,
    "kind": _words(*KINDS),
    "status": _words(*STATUSES),
    "limit": lambda r: r.choice((1, 5, 1000, odd.number(r))),
    "offset": lambda r: r.choice((0, 1, odd.number(r))),
    "everything": lambda r: r.random() < 0.1,
    "sessions": lambda r: [odd.session(r) for _ in range(r.randrange(4))],
    "subject": odd.name,
    "speaker": odd.name,
    "id": odd.name,
}


class Library:
    """One memory, reopened whenever a case ends it."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self._folder = folder
        self._where: dict[str, Any] = {"store": store} if store else {"folder": folder / "home"}
        self._open()

    def _open(self) -> None:
        self.memory = justmem.open(
            "library", embedder=HashEmbedder(64), reranker="none", model="rules", **self._where
        )
        if not self.memory.sessions():
            self.memory.remember_many(HISTORY)

    def close(self) -> None:
        with suppress(JustMemError):
            self.memory.close()

    def attempt(self, r: Random) -> str:
        """What was done, and whether it was let in."""
        if self._where.get("folder") and r.random() < 0.15:
            return self._opening(r) if r.random() < 0.5 else self._settings(r)
        method = r.choice(METHODS)
        given = self._arguments(r, method)
        before = self._held()
        try:
            done = getattr(self.memory, method)(**given)
            if inspect.isgenerator(done):
                list(done)
            if method == "by":  # what is done in that name is entered with it
                done.cards(limit=1)
        except JustMemError as error:
            self._check_refusal(method, error, before)
            return f"{method}: {type(error).__name__}"
        self._tidy(method, given)
        return f"{method}: ok"

    def _check_refusal(self, method: str, error: JustMemError, before: Any) -> None:
        sentence(error)
        assert isinstance(error, InputError), f"{method}: not the caller's fault? {error!r}"
        assert self._held() == before, f"{method} was refused and changed the store"

    def _arguments(self, r: Random, method: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for parameter in inspect.signature(getattr(self.memory, method)).parameters.values():
            if parameter.default is not inspect.Parameter.empty and r.random() < 0.5:
                continue
            given[parameter.name] = self._value(r, method, parameter.name)
        return given

    def _value(self, r: Random, method: str, name: str) -> Any:
        if name == "on_done":
            return r.choice((None, repr, "repr", 3))
        if r.random() < 0.12:
            return odd.wrong(r)
        if name == "path":
            return f"{self._folder}/{odd.name(r)}"
        if name == "session" and method in ("remember", "keep"):
            return _session(r)
        if name in VALUES:
            return VALUES[name](r)
        if r.random() < 0.5:
            return r.choice(self._ids())
        return odd.text(r)

    def _ids(self) -> list[str]:
        sessions = [each.id for each in self.memory.sessions()]
        return [*sessions, *(each.id for each in self.memory.cards(limit=20)), "run#1", "run#99"]

    def _held(self) -> Any:
        memory = self.memory
        sums = dump(memory.stats())
        words = [dump(each) for each in (*memory.sessions(), *memory.cards(), *memory.waiting())]
        return {name: sums[name] for name in sums if name not in ("bytes", "spent_tokens")}, words

    def _tidy(self, method: str, given: Mapping[str, Any]) -> None:
        if method == "close" or given.get("everything"):
            self.close()
            self._open()
        if len(self.memory.sessions()) > _MOST:
            self.memory.forget(everything=True)
            self.close()
            self._open()

    # ------------------------------------------------------------ open, justmem.toml

    def _opening(self, r: Random) -> str:
        given: dict[str, Any] = {
            "folder": self._folder / "opened",
            "embedder": HashEmbedder(8),
            "reranker": "none",
        }
        for name in r.sample([*config.Settings.model_fields], r.randrange(1, 3)):
            given[name] = _setting(r, name)
        try:
            justmem.open(**{"space": odd.mostly(r, odd.name), **given}).close()
        except JustMemError as error:
            sentence(error)
            return f"open: {type(error).__name__}"
        return "open: ok"

    def _settings(self, r: Random) -> str:
        file = self._folder / "odd.toml"
        file.write_bytes(odd.settings(r))
        try:
            config.load(file)
        except InvalidSetting as error:
            sentence(error)
            return "justmem.toml: InvalidSetting"
        return "justmem.toml: ok"


def _setting(r: Random, name: str) -> Any:
    """Nothing that would fetch weights or wait for a server elsewhere."""
    if name in ("embedder", "reranker"):
        specs = ("none", "justmem.testing:nothing", "no.such:thing", "onnx:nothing", "openai:")
        return odd.mostly(r, lambda r: r.choice((*specs, "rerank:x", "x@y", odd.text(r))))
    if name == "store":
        return r.choice(("postgresql://u@127.0.0.1:1/x", "mysql://x", "", "postgresql://[", "\0"))
    if name == "budget":
        return odd.mostly(r, lambda r: {r.choice(("cards", "dense", "x")): odd.number(r)})
    if name == "server":
        return odd.mostly(r, lambda r: {r.choice(("port", "origins", "x")): odd.wrong(r)})
    return odd.mostly(r, odd.text) if r.random() < 0.6 else odd.wrong(r)


def sentence(error: JustMemError) -> None:
    said = str(error)
    assert len(said) > 10, f"{type(error).__name__} says only {said!r}"
    assert len(said) < 5000, f"{type(error).__name__} says {len(said)} characters"
    said.encode("utf-8", "surrogateescape")  # as names of files may be
