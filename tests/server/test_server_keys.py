"""Who may do what: keys, what they open, and what they must not reveal."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from justmem.errors import InputError, InvalidFile, NotInMemory
from justmem.server.access_keys import Key, Keys
from servers import Running, command, environment, serve
from stories import BIKE

MADE = datetime(2024, 6, 1)


# ---------------------------------------------------------------- the file


def test_a_key_is_found_by_its_secret_and_stored_without_it(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    token = keys.add("laptop", "write", ("ana",), MADE)
    found = keys.find(token)
    assert found is not None
    assert (found.name, found.right, found.spaces) == ("laptop", "write", ("ana",))
    kept = keys.path.read_text()
    secret = token.split("_", 2)[2]
    assert secret not in kept
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("change", ["", "x", "jm", "jm_", "jm__", "no", "é" * 50])
def test_nothing_else_is_a_key(tmp_path: Path, change: str) -> None:
    keys = Keys(tmp_path)
    token = keys.add("laptop", "write", ("ana",), MADE)
    prefix, id, secret = token.split("_", 2)
    assert keys.find(change) is None
    assert keys.find(f"{prefix}_{id}_{change}") is None
    assert keys.find(f"{prefix}_{change}_{secret}") is None
    assert keys.find(f"xx_{id}_{secret}") is None


def test_two_keys_with_one_secret_would_have_different_hashes(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.add("a", "read", ("ana",), MADE)
    keys.add("b", "read", ("ana",), MADE)
    first, second = json.loads(keys.path.read_text())["keys"]
    assert first["salt"] != second["salt"]


def test_a_revoked_key_is_refused_by_a_server_that_knew_it(tmp_path: Path) -> None:
    held = Keys(tmp_path)
    token = held.add("laptop", "write", ("ana",), MADE)
    key = held.find(token)
    assert key is not None
    Keys(tmp_path).revoke(key.id)  # another process
    assert held.find(token) is None
    with pytest.raises(NotInMemory, match="keys list"):
        held.revoke(key.id)


def test_an_unreadable_key_file_lets_nobody_in(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    token = keys.add("laptop", "write", ("ana",), MADE)
    keys.path.write_text("{broken")
    for _ in range(2):
        with pytest.raises(InvalidFile, match=r"keys\.json"):
            keys.find(token)


def test_two_commands_cannot_change_the_keys_at_once(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    keys.path.with_suffix(".new").touch()
    with pytest.raises(InputError, match="Another command"):
        keys.add("laptop", "write", ("ana",), MADE)


@pytest.mark.parametrize(
    ("pattern", "space", "opens"),
    [
        ("ana", "ana", True),
        ("ana", "Ana", False),
        ("ana", "ana2", False),
        ("team-*", "team-red", True),
        ("team-*", "team", False),
        ("*", "anything\nat all", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
    ],
)
def test_a_star_is_the_only_wildcard(pattern: str, space: str, opens: bool) -> None:
    key = Key(id="id", name="name", right="read", spaces=(pattern,))
    assert key.opens(space) is opens


# ---------------------------------------------------------------- the command


def justmem(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("--folder", str(folder), *args),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )


def test_keys_are_made_listed_and_revoked_by_the_command(tmp_path: Path) -> None:
    made = justmem(tmp_path, "keys", "add", "laptop", "--opens", "ana", "--opens", "team-*")
    token = made.stdout.strip()
    assert re.fullmatch(r"jm_[0-9a-f]{12}_[\w-]{43}", token)
    listed = json.loads(justmem(tmp_path, "keys", "list", "--json").stdout)
    assert listed[0]["spaces"] == ["ana", "team-*"]
    assert token.split("_", 2)[2] not in json.dumps(listed)
    assert justmem(tmp_path, "keys", "revoke", listed[0]["id"]).returncode == 0
    assert Keys(tmp_path).find(token) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_without_keys_only_this_machine_is_served(tmp_path: Path, host: str) -> None:
    done = justmem(tmp_path, "serve", "--no-keys", "--host", host)
    assert done.returncode == 2
    assert "loopback" in done.stderr


# ---------------------------------------------------------------- the server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("keys")) as running:
        with running.owner() as owner:
            for space in ("ana", "bob"):
                owner.post(f"/v1/spaces/{space}/sessions?wait=true", json=BIKE)
        yield running


REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/spaces/{}", None),
    ("DELETE", "/v1/spaces/{}", None),
    ("GET", "/v1/spaces/{}/cards", None),
    ("GET", "/v1/spaces/{}/cards/c123", None),
    ("GET", "/v1/spaces/{}/sessions", None),
    ("GET", "/v1/spaces/{}/sessions/bike", None),
    ("GET", "/v1/spaces/{}/sessions/bike/status", None),
    ("GET", "/v1/spaces/{}/sessions/bike/quarantined", None),
    ("POST", "/v1/spaces/{}/sessions", BIKE),
    ("POST", "/v1/spaces/{}/retry?session=bike", None),
    ("POST", "/v1/spaces/{}/retry", None),
    ("POST", "/v1/spaces/{}/recall", {"question": "bike?"}),
    ("POST", "/v1/spaces/{}/ask", {"question": "bike?"}),
    ("POST", "/v1/spaces/{}/forget", {"session": "bike"}),
    ("GET", "/v1/spaces/{}/export", None),
    ("GET", "/v1/spaces/{}/about?subject=bike", None),
    ("GET", "/v1/spaces/{}/log", None),
    ("GET", "/v1/spaces/{}/log/check", None),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
@pytest.mark.parametrize("right", ["read", "write", "admin"])
def test_a_space_of_others_looks_like_one_that_is_not_there(
    server: Running, right: Any, method: str, path: str, body: Any
) -> None:
    with server.client(server.key("ana", right=right)) as client:
        there = client.request(method, path.format("bob"), json=body)
        absent = client.request(method, path.format("xyz"), json=body)
    assert there.status_code == absent.status_code == 404
    assert there.text.replace("bob", "xyz") == absent.text
    keep = {"date"}
    assert {k: v for k, v in there.headers.items() if k not in keep} == {
        k: v for k, v in absent.headers.items() if k not in keep
    }
    assert not (server.home / "xyz.db").exists()


def test_a_list_of_spaces_holds_those_the_key_opens(server: Running) -> None:
    with server.client(server.key("an*")) as client:
        assert client.get("/v1/spaces").json() == ["ana"]


@pytest.mark.parametrize(
    ("right", "refused"),
    [
        (
            "read",
            {
                "/sessions",
                "/retry?session=bike",
                "/retry",
                "/forget",
                "",
                "/log",
                "/log/check",
            },
        ),
        ("write", {"", "/log", "/log/check"}),
    ],
)
def test_each_right_allows_only_its_routes(server: Running, right: Any, refused: set[str]) -> None:
    with server.client(server.key("ana", right=right)) as client:
        for method, path, body in REQUESTS:
            reads = method == "GET" and "/log" not in path
            if reads or path.endswith(("recall", "ask")):
                assert client.request(method, path.format("ana"), json=body).status_code != 403
            elif path.removeprefix("/v1/spaces/{}") in refused:
                answer = client.request(method, path.format("ana"), json=body)
                assert answer.status_code == 403, path
                assert answer.json()["type"] == "urn:justmem:problem:key-too-weak"


def test_revocation_takes_effect_with_the_next_request(server: Running) -> None:
    token = server.key("ana")
    with server.client(token) as client:
        assert client.get("/v1/spaces/ana").status_code == 200
        Keys(server.home).revoke(token.split("_")[1])
        answer = client.get("/v1/spaces/ana")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer jm_x_y", "Basic YTpi", "jm_x_y"])
@pytest.mark.parametrize("path", ["/v1/spaces", "/v1/spaces/ana", "/metrics", "/mcp", "/v1/models"])
def test_without_a_key_nothing_is_revealed(server: Running, path: str, header: str | None) -> None:
    headers = {} if header is None else {"authorization": header}
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        answer = httpx.request(method, server.url + path, headers=headers, trust_env=False)
        assert answer.status_code == 401, method


def test_a_page_elsewhere_cannot_use_a_browser_to_get_in(server: Running) -> None:
    with server.client(server.key("ana")) as client:
        for origin in ("https://evil.example", "null", "http://localhost:1", "http://["):
            answer = client.get("/v1/spaces/ana", headers={"origin": origin})
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
        assert client.get("/v1/spaces/ana", headers={"origin": server.url}).status_code == 200


def test_without_keys_other_host_names_are_refused(tmp_path: Path) -> None:
    with serve(tmp_path / "open", "", "--no-keys") as running, running.client(None) as client:
        assert client.get("/v1/spaces").json() == []
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
            assert client.get("/v1/spaces", headers={"host": host}).status_code in (400, 403)
        text = {"content-type": "text/plain"}
        posted = client.post("/v1/spaces/a/recall", content=b'{"question":"x"}', headers=text)
        assert posted.status_code == 422


def test_configured_origins_are_allowed(tmp_path: Path) -> None:
    origin = "https://app.example"
    with serve(tmp_path / "cors", server=f'origins = ["{origin}"]') as running:
        with running.client(running.key("ana")) as client:
            answer = client.get("/v1/spaces", headers={"origin": origin})
            assert answer.headers["access-control-allow-origin"] == origin
            refused = client.get("/v1/spaces", headers={"origin": "https://other.example"})
            assert refused.status_code == 403
        with running.client(None) as client:
            asked = {"origin": origin, "access-control-request-method": "POST"}
            assert client.options("/v1/spaces/ana/ask", headers=asked).status_code == 200


def test_a_change_that_leaves_size_and_time_is_noticed(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    token = keys.add("ana", "read", ("ana",), MADE)
    assert keys.find(token) is not None
    before = os.stat(keys.path)
    text = keys.path.read_text("utf-8")
    id = token.split("_")[1]
    with open(keys.path, "r+", encoding="utf-8") as file:  # in place: the same file
        file.write(text.replace(id, id[::-1]))
    os.utime(keys.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(keys.path)
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )
    assert keys.find(token) is None
