"""Secrets are in no log, error, receipt, reply or `repr`: one is planted in every setting that
takes one, and everything that is said is looked through."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import justmem
from justmem import config
from justmem.cli import app
from justmem.config import opening
from justmem.errors import JustMemError
from justmem.store.engine import storage
from justmem_eval.loopback import Request, Respond, serve_openai
from replies import error_body
from servers import serve

SECRETS = {
    "api_key": "sk-plantedapi0123456789",
    "upstream_key": "uk-plantedupstream0123456789",
    "key": "5ec4e7" * 10 + "beef",
    "store": "plantedstorepassword",
    "url": "plantedurlpassword",
}
SPACE_KEY = "JUSTMEM_KEY"
TALK = {
    "id": "ana-1",
    "at": "2024-05-20T14:30",
    "turns": [{"speaker": "Ana", "role": "user", "text": "I moved to Porto last week."}],
}

Said = list[str]


def no_secret(said: Said) -> None:
    whole = "\n".join(said)
    found = [line for line in whole.splitlines() if any(map(line.__contains__, SECRETS.values()))]
    assert found == []
    assert whole.strip()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    """What was said; at the end it is looked through, with all that was logged."""
    caplog.set_level(logging.DEBUG)
    heard: Said = []
    yield heard
    no_secret([*heard, *(record.getMessage() for record in caplog.records), caplog.text])


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY", SPACE_KEY]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rude() -> Iterator[str]:
    """A model server that says the key it was sent back, in every error."""

    def reply(request: Request) -> Respond:
        sent = request.headers.get("authorization", "")
        return Respond(error_body(f"Incorrect API key provided: {sent}"), status=401)

    with serve_openai(reply) as served:
        yield served.url.replace("://", f"://ana:{SECRETS['url']}@")


def planted(url: str, **more: Any) -> dict[str, Any]:
    return {
        "model": f"openai:m@{url}",
        "embedder": f"openai:e@{url}",
        "dimensions": 4,
        "reranker": "none",
        "api_key": SECRETS["api_key"],
        "upstream_key": SECRETS["upstream_key"],
        "key": SECRETS["key"],
        "server": {"upstream": url},
        **more,
    }


def raised(said: Said, work: Callable[[], Any]) -> None:
    """The error with all its causes, as a log or a terminal would show it."""
    with pytest.raises(JustMemError) as caught:
        work()
    error: BaseException | None = caught.value
    said += traceback.format_exception(caught.value)
    while error is not None:
        said += [str(error), repr(error), repr(error.__dict__)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_settings_and_all_that_is_made_of_them_show_nothing(rude: str, said: Said) -> None:
    settings = config.load(**planted(rude))
    said += [repr(settings), str(settings), settings.model_dump_json(include={"key", "api_key"})]
    made = opening.build_parts(settings)
    values = [getattr(made, field.name) for field in fields(made)]
    parts = [made, *values, *(getattr(part, "model", None) for part in values)]
    said += [repr(part) for part in (*parts, opening.keyring(settings))]
    with justmem.open(**planted(rude)) as memory:
        store = memory.asynchronous
        said += [repr(memory), repr(store), repr(vars(memory)), repr(memory.stats())]
    address = f"postgresql://ana:{SECRETS['store']}@127.0.0.1:1/memory"
    said += [repr(config.load(store=address)), repr(storage(address))]
    said.append(repr(opening.keyring(config.load(key_file="key"))))


def test_a_server_that_repeats_the_key_does_not_bring_it_into_errors_and_receipts(
    rude: str, said: Said
) -> None:
    with justmem.open(**planted(rude)) as memory:
        remembered = memory.remember(TALK)
        said += [repr(remembered), remembered.model_dump_json()]
        said += [repr(each) for each in memory.sessions()]
        raised(said, lambda: memory.ask("Where does Ana live?"))  # the embedder refuses, too
    light = planted(rude, model="rules", embedder="justmem.testing:HashEmbedder")
    with justmem.open("ben", **light) as memory:
        memory.remember(TALK)
        found = memory.recall("Where does Ana live?")
        said += [repr(found), found.model_dump_json()]
    with justmem.open("eve", **planted(rude, model="rules")) as memory:
        said.append(repr(memory.remember(TALK)))


@pytest.mark.parametrize("name", ["api_key", "upstream_key", "key", "store"])
def test_a_secret_of_the_wrong_shape_is_not_repeated(name: str, said: Said) -> None:
    raised(said, lambda: config.load(**{name: [SECRETS[name]]}))
    raised(said, lambda: config.load(**{name: {"value": SECRETS[name]}}))


def test_wrong_settings_are_named_without_their_secrets(rude: str, said: Said) -> None:
    for wrong in (
        {"store": f"mysql://ana:{SECRETS['store']}@host/memory"},
        {"store": f"postgresql://ana:{SECRETS['store']}@host:port/memory"},
        {"model": f"openai@{rude}"},
        {"model": f"openai:m@x@{rude}"},
        {"embedder": f"openai:e@http://ana:{SECRETS['url']}@[/v1", "api_key": "x", "dimensions": 4},
        {"model": f"openai:m@{rude}", "timeout": -1, "key": SECRETS["key"]},
        {"key": SECRETS["key"][:7]},
        {"key": SECRETS["key"], "key_file": "both"},
    ):
        raised(said, lambda wrong=wrong: justmem.open(**wrong).close())  # type: ignore[misc]
    (Path("justmem.toml")).write_text(f'key = "{SECRETS["key"]}"\n')
    raised(said, lambda: config.load("justmem.toml"))


def test_a_wrong_key_is_not_repeated(said: Said, tmp_path: Path) -> None:
    light = {"embedder": "justmem.testing:HashEmbedder", "reranker": "none"}
    justmem.open("ana", key="f0" * 32, **light).close()
    raised(said, lambda: justmem.open("ana", key=SECRETS["key"], **light))
    (tmp_path / "key").write_text(SECRETS["key"] + "\nmore\n")
    raised(said, lambda: justmem.open("ana", key_file="key", **light))
    (tmp_path / "key").write_text(SECRETS["key"])
    raised(said, lambda: justmem.open("ana", key_file="key", **light))


COMMANDS = (
    ["doctor"],
    ["doctor", "--json"],
    ["doctor", "--offline", "--json"],
    ["remember", "talk.json"],
    ["remember", "talk.json", "--json"],
    ["ask", "Where?", "--json"],
    ["ask", "Where?", "--debug"],
    ["recall", "Where?", "--debug"],
    ["stats", "--json"],
    ["sessions", "--json"],
    ["rekey", "--new-file", "talk.json"],
    ["--model", "openai:m@nowhere", "stats", "--debug"],
    ["keys", "list", "--json"],
)


def test_no_command_prints_a_secret(
    rude: str, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS["api_key"])
    monkeypatch.setenv("JUSTMEM_UPSTREAM_KEY", SECRETS["upstream_key"])
    monkeypatch.setenv(SPACE_KEY, SECRETS["key"])
    monkeypatch.setenv("JUSTMEM_MODEL", f"openai:m@{rude}")
    monkeypatch.setenv("JUSTMEM_EMBEDDER", "justmem.testing:HashEmbedder")
    monkeypatch.setenv("JUSTMEM_RERANKER", "none")
    (tmp_path / "talk.json").write_text(json.dumps(TALK))
    for command in COMMANDS:
        done = CliRunner().invoke(app, command)
        said.append(f"{command} {done.output} {done.stderr} {done.exception!r}")
    monkeypatch.setenv("JUSTMEM_STORE", f"postgresql://ana:{SECRETS['store']}@127.0.0.1:1/memory")
    for command in (["doctor", "--offline"], ["stats", "--debug"], ["work", "--once"]):
        done = CliRunner().invoke(app, command)
        said.append(f"{command} {done.output} {done.stderr} {done.exception!r}")
    address = f"postgresql://ana:{SECRETS['store']}@127.0.0.1:1/memory"
    for command in (["copy", address, "there"], ["copy", "home", address, "--debug"]):
        done = CliRunner().invoke(app, command)
        said.append(f"{command[0]} {done.output} {done.stderr} {done.exception!r}")
        assert done.exit_code


def test_a_server_tells_no_secret(tmp_path: Path, said: Said, rude: str) -> None:
    settings = f'model = "openai:m@{rude}"\n'
    variables = {
        "OPENAI_API_KEY": SECRETS["api_key"],
        "JUSTMEM_UPSTREAM_KEY": SECRETS["upstream_key"],
        SPACE_KEY: SECRETS["key"],
    }
    with serve(tmp_path / "s", settings, server=f'upstream = "{rude}"', **variables) as server:
        token = server.key("*", right="admin")
        SECRETS["token"] = token
        with server.client(token) as client:
            for reply in (
                client.post("/v1/spaces/ana/sessions?wait=true", json=TALK),
                client.get("/v1/spaces/ana/sessions"),
                client.post("/v1/spaces/ana/ask", json={"question": "Where does Ana live?"}),
                client.post("/v1/spaces/ana/ask", json={"question": ""}),
                client.get("/v1/spaces/ana/cards/none"),
                client.get("/metrics"),
                client.get("/health/ready"),
                client.post(
                    "/v1/chat/completions",
                    json={"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
                    headers={"x-justmem-space": "ana"},
                ),
            ):
                said.append(f"{reply.text} {dict(reply.headers)}")
        with server.client(token + "x") as client:
            refused = client.get("/v1/spaces")
            assert refused.status_code == 401
            said.append(refused.text)
            assert '"failed"' in said[0]
        said += [server.log, (server.home / "keys.json").read_text()]
    no_secret(said)
    del SECRETS["token"]
