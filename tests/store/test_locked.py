"""Locked spaces as people use them: by command, in Python, behind a server."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import justmem
from justmem import config
from justmem.cli import app
from justmem.errors import InvalidSetting
from justmem.store.files import file_name
from servers import environment, serve

MARKER = "Quetzalmarker"
KEY, OTHER = "0f" * 32, "f0" * 32
LIGHT = {"embedder": "justmem.testing:HashEmbedder", "reranker": "none"}
TALK = {
    "id": "ana-1",
    "at": "2024-05-20T14:30",
    "turns": [
        {"speaker": "Ana", "role": "user", "text": f"My parrot is called {MARKER}."},
        {"speaker": "Assistant", "role": "assistant", "text": f"What a name, {MARKER}!"},
    ],
}
Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY", "JUSTMEM_KEY"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("JUSTMEM_EMBEDDER", LIGHT["embedder"])
    monkeypatch.setenv("JUSTMEM_RERANKER", "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.json").write_text(json.dumps(TALK))

    def run(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(args))
        assert done.exit_code == code, done.output
        return str(done.output)

    return run


def holding(folder: Path, words: str = MARKER) -> list[str]:
    """The files that hold the words, but for the talk that was given."""
    return sorted(
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        and path.name != "talk.json"
        and words.lower().encode() in path.read_bytes().lower()
    )


# ---------------------------------------------------------------- commands


def test_a_space_is_locked_from_its_first_word_and_opens_with_its_key_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", "talk.json", "--space", "plain")
    assert holding(tmp_path) == ["plain.db"]
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    assert "is not encrypted" in run("stats", "--space", "plain", code=7)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "locked"))
    run("remember", "talk.json")
    assert holding(tmp_path / "locked") == []
    assert MARKER in run("recall", "What is the parrot called?")
    assert json.loads(run("stats", "--json"))["cards"] >= 1

    monkeypatch.setenv("JUSTMEM_KEY", OTHER)
    assert "encrypted with another key" in run("stats", code=7)
    monkeypatch.delenv("JUSTMEM_KEY")
    assert "is encrypted: set its key" in run("stats", code=7)


def test_a_key_is_changed_by_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No key is set" in run("rekey", "--new-file", "new", code=2)
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    run("remember", "talk.json")
    assert "--new-file" in run("rekey", code=2)
    (tmp_path / "new").write_text(OTHER + "\n")
    assert run("rekey", "--new-file", "new") == "default has the new key.\n"
    assert "encrypted with another key" in run("stats", code=7)
    assert "encrypted with another key" in run("rekey", "--new-file", "new", code=7)
    monkeypatch.setenv("JUSTMEM_KEY", OTHER)
    assert MARKER in run("cards")
    (tmp_path / "new").write_text("another passphrase")
    run("rekey", "--new-file", "new")
    monkeypatch.setenv("JUSTMEM_KEY", "another passphrase")
    assert MARKER in run("cards")
    assert holding(tmp_path) == []


def test_a_file_for_each_space_holds_its_key(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    monkeypatch.setenv("JUSTMEM_KEY_FILE", str(tmp_path / "keys" / "{space}.key"))
    assert "ana.key cannot be read" in run("remember", "talk.json", "--space", "ana", code=7)
    for space, key in (("ana", KEY), ("ben", OTHER)):
        (tmp_path / "keys" / f"{space}.key").write_text(key)
        run("remember", "talk.json", "--space", space)
    monkeypatch.delenv("JUSTMEM_KEY_FILE")
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    assert MARKER in run("cards", "--space", "ana")
    assert "another key" in run("cards", "--space", "ben", code=7)


def test_no_command_takes_a_key_as_an_argument(run: Run) -> None:
    assert "--key" not in run("rekey", "--help")
    run("--key", KEY, "stats", code=2)


def test_the_doctor_says_what_is_encrypted_and_who_may_look(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    run("remember", "talk.json", "--space", "ana")
    said = run("doctor", "--space", "ana")
    assert ", encrypted" in said
    assert "others on this machine" not in said
    monkeypatch.delenv("JUSTMEM_KEY")
    (tmp_path / "home" / "ana.db").chmod(0o644)
    (tmp_path / "home").chmod(0o755)
    said = run("doctor", "--space", "ana", code=2)
    assert "is encrypted: set its key" in said
    assert f"chmod 600 '{tmp_path / 'home' / 'ana.db'}'" in said
    assert f"chmod u=rwX,go= '{tmp_path / 'home'}'" in said


def test_copies_go_between_locked_and_plain_folders(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", "talk.json", "--space", "ana")
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    run("copy", "home", "locked")
    assert holding(tmp_path / "locked") == []
    run("copy", "locked", "again")
    assert holding(tmp_path / "again") == []
    run("copy", "again", "plain", "--plain")
    assert holding(tmp_path / "plain") == ["ana.db"]
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "again"))
    assert MARKER in run("cards", "--space", "ana")
    monkeypatch.delenv("JUSTMEM_KEY")
    assert "is encrypted" in run("copy", "locked", "nowhere", code=7)


def test_a_locked_space_is_checked_and_its_backup_is_locked(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    run("remember", "talk.json")
    assert "stored words are unchanged" in run("check")
    (tmp_path / "saved").mkdir()
    run("backup", "saved/default.db")
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["default.db"]
    assert holding(tmp_path / "saved") == []
    assert MARKER in run("cards", "--folder", "saved")
    monkeypatch.setenv("JUSTMEM_KEY", "another passphrase")
    assert "another key" in run("cards", "--folder", "saved", code=7)


def test_postgresql_is_not_locked_by_us(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUSTMEM_STORE", "postgresql://localhost/none")
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    for each in (["rekey", "--new-file", "new"], ["stats"]):
        assert "docs/encryption.md" in run(*each, code=2)


# ---------------------------------------------------------------- Python


def test_the_nearest_key_counts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.toml"
    file.write_text('key_file = "k"\n')
    load = config.load
    assert load(file).key_file == tmp_path / "k"
    monkeypatch.setenv("JUSTMEM_KEY", KEY)
    settings = load(file)
    assert settings.key is not None
    assert settings.key_file is None
    assert load(file, key_file=Path("k2")).key is None
    monkeypatch.setenv("JUSTMEM_KEY_FILE", "k3")
    with pytest.raises(InvalidSetting, match="Both key and key_file are set in the environment"):
        load(file)


# ---------------------------------------------------------------- modes

EVERYTHING = """
import json, os, sys
os.umask(int(sys.argv[1], 8))
import justmem
from pathlib import Path
from justmem.server.access_keys import Keys
from justmem.intake.sessions import as_time
here, talk = Path(sys.argv[2]), json.loads(sys.argv[3])
light = {"embedder": "justmem.testing:HashEmbedder", "reranker": "none"}
for name, more in (("plain", {}), ("locked", {"key": "a passphrase"})):
    memory = justmem.open(name, folder=here / "deep" / "home", **light, **more)
    memory.remember(talk)
    memory.forget(session="ana-1")
    memory.remember(talk)
    shown = sorted(os.listdir(here / "deep" / "home"))
    assert f"{name}.db-wal" in shown and f"{name}.db-shm" in shown
    print(json.dumps({str(p): p.stat().st_mode & 0o777 for p in sorted(here.rglob("*"))}))
    memory.close()
Keys(here / "served" / "home").add("ana", "read", ("ana",), as_time("2024-06-01"))
from pydantic import SecretStr
from justmem.store.files import Keyring
from justmem.store.sqlite import rekey
old, new = (Keyring(SecretStr(words)) for words in ("a passphrase", "another one"))
rekey(here / "deep" / "home", "locked", old, new)
print(json.dumps({str(p): p.stat().st_mode & 0o777 for p in sorted(here.rglob("*"))}))
"""


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
@pytest.mark.parametrize("umask", ["000", "177"])
def test_all_that_is_made_is_private_whatever_the_umask(tmp_path: Path, umask: str) -> None:
    here = tmp_path / "all"
    here.mkdir(0o700)
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING, umask, str(here), json.dumps(TALK)],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(seen) == 3
    for modes in seen:
        wrong = {
            path: oct(mode)
            for path, mode in modes.items()
            if mode != (0o700 if Path(path).is_dir() else 0o600)
        }
        assert wrong == {}
    assert len(seen[-1]) >= 7


# ---------------------------------------------------------------- behind a server


def test_a_server_opens_each_space_with_a_key_of_its_own(tmp_path: Path) -> None:
    keys, home = tmp_path / "keys", tmp_path / "s" / "home"
    justmem.open("eve", folder=home, key=KEY, **LIGHT).close()
    keys.mkdir(0o700)
    for stem in ("eve", "ana", file_name("Zoë & co.").removesuffix(".db")):
        (keys / f"{stem}.key").write_text(OTHER)
    with (
        serve(tmp_path / "s", f'key_file = "{keys}/{{space}}.key"') as server,
        server.owner() as owner,
    ):
        for space in ("ana", "Zoë & co."):
            kept = owner.post(f"/v1/spaces/{space}/sessions?wait=true", json=TALK)
            assert kept.status_code == 200, kept.text
        assert owner.get("/v1/spaces").json() == ["Zoë & co.", "ana", "eve"]
        asked = {"question": "What is the parrot called?"}
        assert MARKER in owner.post("/v1/spaces/ana/recall", json=asked).text
        assert holding(tmp_path / "s") == []  # the log too
        assert owner.delete("/v1/spaces/ana").status_code == 200
        assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}

        refused = owner.get("/v1/spaces/eve/sessions")
        assert refused.status_code == 500
        assert refused.json()["type"] == "urn:justmem:problem:wrong-key"
        assert str(home) not in refused.text
        assert "encrypted with another key" in server.log
        assert OTHER not in server.log
