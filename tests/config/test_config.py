"""Where settings come from, what they may name, and what is said when they cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import justmem
from justmem import config
from justmem.answer import ModelAnswerer
from justmem.config import load, providers
from justmem.config.opening import build_parts, open_memory
from justmem.config.settings import Settings
from justmem.domain import Budget
from justmem.errors import InvalidSetting, ModelRefused
from justmem.extract import ModelExtractor
from justmem.memory_parts import Parts
from justmem.models.openai import OpenAIModel
from justmem.plan import ModelPlanner
from justmem.ports import Extraction, Prompt
from justmem.testing import HashEmbedder, ScriptedModel
from justmem_eval.loopback import Respond, chat_body, serve_openai
from replies import embeddings_body, error_body


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, an empty home and none of our variables."""
    for name in [*config.ENVIRONMENT, config.CONFIG_VARIABLE, "OPENAI_API_KEY"]:
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def toml(text: str) -> Path:
    Path("justmem.toml").write_text(text, "utf-8")
    return Path("justmem.toml")


# an extractor, a model and an embedder of one's own, as `package.module:attribute` names them
class OwnExtractor:
    async def extract(self, session: Any, *, limit: int | None, after: int = 0) -> Extraction:
        return Extraction(cards=())


own_model = ScriptedModel(name="own")
not_a_model = object()


def make_embedder() -> HashEmbedder:
    return HashEmbedder(32)


# ---------------------------------------------------------------- where they come from


def test_the_defaults_need_no_key_and_no_model(tmp_path: Path) -> None:
    settings = load()

    assert (settings.model, settings.space, settings.profile) == ("rules", "default", "default")
    assert settings.embedder == "onnx:bge-small-en-v1.5"
    assert settings.reranker == "onnx:ms-marco-MiniLM-L-12-v2"
    assert settings.folder.is_relative_to(tmp_path / "home")
    assert settings.budget == Budget()


def test_a_key_in_the_environment_switches_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    assert load().model == "rules"


def test_arguments_win_over_the_environment_and_the_environment_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = toml('space = "file"\nmodel = "openai:file"\nconcurrency = 7')
    monkeypatch.setenv("JUSTMEM_MODEL", "openai:environment")
    monkeypatch.setenv("JUSTMEM_SPACE", "environment")

    settings = load(file, space="call")

    assert (settings.space, settings.model, settings.concurrency) == (
        "call",
        "openai:environment",
        7,
    )


def test_every_setting_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "JUSTMEM_FOLDER": Path("/data"),
        "JUSTMEM_MODEL": "openai:m",
        "JUSTMEM_RERANKER": "none",
        "JUSTMEM_OFFLINE": True,
        "JUSTMEM_TIMEOUT": 12.5,
        "JUSTMEM_KEY_FILE": Path("/keys/{space}"),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("JUSTMEM_STORE", "postgresql://ana:pw@host/memory")
    monkeypatch.setenv("JUSTMEM_API_KEY", "sk-secret")
    settings = load()

    assert {name: getattr(settings, config.ENVIRONMENT[name]) for name in values} == values
    assert settings.address == "postgresql://ana:pw@host/memory"
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "sk-secret"
    assert "pw" not in repr(settings)
    assert "sk-secret" not in repr(settings)
    tables = {"budget", "retention", "server"}
    assert set(config.ENVIRONMENT.values()) | tables == set(Settings.model_fields) - {
        "file", "openai_key",
    }  # fmt: skip
    monkeypatch.setenv("JUSTMEM_CONCURRENCY", "many")
    with pytest.raises(InvalidSetting, match="concurrency in the environment cannot be 'many'"):
        load()


def test_a_file_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = toml('space = "here"')
    other = tmp_path / "other.toml"
    other.write_text('space = "other"')

    assert load(here).space == "here"
    monkeypatch.setenv("JUSTMEM_CONFIG", str(other))
    assert load().space == "other"
    assert load("justmem.toml").space == "here"


def test_folders_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "justmem.toml"
    file.parent.mkdir()
    file.write_text('folder = "memory"\nmodels_folder = "~/weights"')

    settings = load(file)

    assert settings.folder == tmp_path / "etc" / "memory"
    assert settings.models_folder == tmp_path / "home" / "weights"


def test_the_budget_is_a_table() -> None:
    file = toml("[budget]\ncards = 5\nask_tokens = 2000")

    assert load(file).budget == Budget(cards=5, ask_tokens=2000)


# ---------------------------------------------------------------- the paper's profile


async def test_the_papers_profile_reaches_the_memory(tmp_path: Path) -> None:
    settings = load(profile="paper", api_key="k", folder=tmp_path)
    assert settings.model == "openai:gpt-4.1-mini"
    assert settings.embedder == "openai:text-embedding-3-small"
    assert providers.build_embedder(settings.embedder, settings, None).dim == 1536
    assert build_parts(settings).profile.is_paper


def test_an_explicit_setting_wins_over_the_profile() -> None:
    settings = load(toml('profile = "paper"\nembedder = "onnx:bge-small-en-v1.5"'), model="rules")
    assert (settings.model, settings.embedder) == ("rules", "onnx:bge-small-en-v1.5")


# ---------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rerancer = 'none'", "'rerancer' in justmem.toml: did you mean 'reranker'"),
        ("[budget]\ncard = 3", "'card' in the budget of justmem.toml: did you mean 'cards'"),
        ("concurrency = 'many'", "concurrency in justmem.toml cannot be 'many'"),
        ("concurrency = 0", "concurrency in justmem.toml cannot be 0"),
        ("planner = 'gpt'", "planner in justmem.toml: 'gpt' does not name a model"),
        ("[budget]\ncards = 0", "budget.cards in justmem.toml cannot be 0"),
        ("profile = 'papper'", "profile in justmem.toml cannot be 'papper'.*'default' or 'paper'"),
        ("space = ", "is not valid TOML"),
        ("api_key = 'sk-secret'", "api_key does not belong in a file"),
        ("model = 3", "model in justmem.toml: 3 is not a name; write rules"),
    ],
)
def test_a_wrong_file_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence) as caught:
        load(toml(text))
    assert "\n" not in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSetting, match=r"no settings file nowhere\.toml"):
        load("nowhere.toml")
    monkeypatch.setenv("JUSTMEM_CONFIG", "gone.toml")
    with pytest.raises(InvalidSetting, match=r"gone\.toml \(JUSTMEM_CONFIG names it\)"):
        load()


@pytest.mark.parametrize(
    ("setting", "spec"),
    [
        ("model", "gpt-4.1-mini"),
        ("model", "openai:"),
        ("model", "openai:qwen@localhost:8000"),
        ("model", "onnx:bge-small-en-v1.5"),
        ("model", "none"),
        ("model", ""),
        ("answerer", "gpt"),
        ("embedder", "rules"),
        ("embedder", "onnx:e@http://x"),
        ("reranker", "rerank:jina@http://x"),
        ("reranker", "openai:gpt-4.1-mini"),
    ],
)
def test_an_unknown_name_is_refused_with_the_valid_forms(setting: str, spec: str) -> None:
    with pytest.raises(InvalidSetting, match=r"package\.module:attribute"):
        load(**{setting: spec})


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_package.module:thing", "cannot be imported"),
        ("os.path:no_such_thing", "has no 'no_such_thing'"),
        ("os:sep", "has no method 'complete'"),
        (f"{__name__}:not_a_model", "has no method 'complete'"),
        ("json:loads", "cannot be called without arguments"),
    ],
)
async def test_an_object_without_the_right_method_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        build_parts(load(model=spec))


async def test_a_setting_that_cannot_be_used_leaves_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="set the environment variable OPENAI_API_KEY"):
        await open_memory(load(model="openai:gpt-4.1-mini", folder=tmp_path / "memory"))
    assert not (tmp_path / "memory").exists()


def test_an_embedder_with_an_unknown_vector_length_asks_for_it() -> None:
    settings = load(embedder="openai:mystery@http://localhost:1/v1")
    with pytest.raises(InvalidSetting, match="set dimensions"):
        providers.build_embedder(settings.embedder, settings, None)

    settings = load(embedder="openai:mystery@http://localhost:1/v1", dimensions=12)
    assert providers.build_embedder(settings.embedder, settings, None).dim == 12


# ---------------------------------------------------------------- building


def built(**settings: Any) -> Parts:
    return build_parts(load(embedder=HashEmbedder(), reranker="none", **settings))


async def test_a_model_serves_every_stage_and_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made_models: list[OpenAIModel] = []

    class Counted(OpenAIModel):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made_models.append(self)

    monkeypatch.setattr("justmem.models.openai.OpenAIModel", Counted)
    made = built(model="openai:qwen3@http://localhost:8000/v1", context=9000)

    assert isinstance(made.extractor, ModelExtractor)
    assert isinstance(made.planner, ModelPlanner)
    assert isinstance(made.answerer, ModelAnswerer)
    assert [(model.name, model.context) for model in made_models] == [("qwen3", 9000)]


async def test_a_stage_may_differ_from_the_model() -> None:
    made = built(model=own_model, answerer="rules", extractor=OwnExtractor())

    assert made.reranker is None
    assert isinstance(made.planner, ModelPlanner)
    assert made.answerer is None
    assert isinstance(made.extractor, OwnExtractor)


async def test_objects_are_found_by_their_path_and_callables_are_called() -> None:
    made = built(model=f"{__name__}:own_model", extractor=f"{__name__}:OwnExtractor")
    assert isinstance(made.answerer, ModelAnswerer)
    assert isinstance(made.extractor, OwnExtractor)
    settings = load(embedder=f"{__name__}:make_embedder")
    assert providers.build_embedder(settings.embedder, settings, None).dim == 32


# ---------------------------------------------------------------- who gets which key

PING = Prompt(stage="plan", system="Reply.", user="ping", schema={}, max_tokens=20)


async def asked(spec: str, **settings: Any) -> None:
    model = providers.build_model(spec, load(**settings))
    assert model is not None
    await model.complete(PING)
    await model.close()  # type: ignore[attr-defined]


def test_the_time_limit_holds_for_a_model_and_for_an_embedder_on_a_server() -> None:
    settings = load(timeout=7, dimensions=2)
    for part in (
        providers.build_model("openai:m@http://localhost:1/v1", settings),
        providers.build_embedder("openai:e@http://localhost:1/v1", settings, None),
    ):
        client = part._client  # type: ignore[union-attr]
        assert client._timeout == 7


async def test_the_openai_key_is_not_sent_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with serve_openai([chat_body({}), embeddings_body([[1.0, 0.0]])]) as server:
        await asked(f"openai:m@{server.url}")
        settings = load(embedder=f"openai:e@{server.url}", dimensions=2)
        await providers.build_embedder(settings.embedder, settings, None).embed(["bees"])
    assert len(server.requests) == 2
    assert not any("sk-of-openai" in str(request.headers) for request in server.requests)


async def test_a_server_gets_the_key_that_is_named_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with serve_openai([chat_body({})] * 2) as server:
        spec = f"openai:m@{server.url}"
        await asked(spec, api_key="sk-passed")
        monkeypatch.setenv("JUSTMEM_API_KEY", "sk-other")
        await asked(spec)
    sent = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert sent == ["sk-passed", "sk-other"]


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("openai:m", "sk-of-openai"),
        ("openai:m@https://api.openai.com/v1", "sk-of-openai"),
        ("openai:m@http://api.openai.com/v1", None),
        ("openai:m@https://api.openai.com.evil.example/v1", None),
        ("openai:m@https://api.openai.com@evil.example/v1", None),
        ("openai:m@https://eu.api.openai.com/v1", None),
        ("openai:m@http://localhost:8000/v1", None),
    ],
)
def test_only_openai_gets_the_openai_key(
    monkeypatch: pytest.MonkeyPatch, spec: str, key: str | None
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    assert providers.key_for(providers.parse(spec, "model"), load()) == key


async def test_a_server_that_needs_a_key_gets_a_clear_error() -> None:
    with (
        serve_openai([Respond(error_body("no key"), status=401)]) as server,
        pytest.raises(ModelRefused, match=r"needs an API key.*JUSTMEM_API_KEY"),
    ):
        await asked(f"openai:m@{server.url}")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    """Neither the key nor the words go to a server that nobody named."""
    with serve_openai([chat_body({}), embeddings_body([[1.0, 0.0]])]) as other:
        away = Respond({}, status=status, headers={"location": f"{other.url}/chat/completions"})
        with serve_openai([away] * 2) as server:
            settings = load(embedder=f"openai:e@{server.url}", dimensions=2)
            with pytest.raises(ModelRefused, match="redirects to another address"):
                await asked(f"openai:m@{server.url}", api_key="sk-passed")
            with pytest.raises(ModelRefused, match="redirects to another address"):
                await providers.build_embedder(settings.embedder, settings, None).embed(["bees"])
    assert (len(server.requests), other.requests) == (2, [])


# ---------------------------------------------------------------- open


def test_open_gives_a_memory_that_remembers(tmp_path: Path) -> None:
    own = {"folder": tmp_path, "embedder": HashEmbedder(256), "reranker": "none"}
    with justmem.open("ana", **own) as memory:
        memory.remember([{"role": "user", "content": "I moved to Porto."}], at="2024-05-20")
        assert memory.space == "ana"
    with justmem.open("ana", **own) as memory:
        assert [record.id for record in memory.sessions()]


async def test_open_works_inside_a_running_loop(tmp_path: Path) -> None:
    with justmem.open(folder=tmp_path, embedder=HashEmbedder(), reranker="none") as memory:
        assert memory.sessions() == []


async def test_open_async_can_be_awaited_or_entered(tmp_path: Path) -> None:
    own = {"folder": tmp_path, "embedder": HashEmbedder(), "reranker": "none"}
    async with justmem.open_async("ana", **own) as memory:
        assert memory.space == "ana"
    memory = await justmem.open_async("ana", **own)
    assert await memory.sessions() == []
    await memory.close()


def test_heavy_packages_are_loaded_only_when_named(tmp_path: Path) -> None:
    code = (
        "import sys, justmem\n"
        "from justmem.testing import HashEmbedder\n"
        "with justmem.open(embedder=HashEmbedder(), reranker='none') as memory: memory.sessions()\n"
        "heavy = {'openai', 'onnxruntime', 'tokenizers', 'bpe_openai', 'typer', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    environment = {**os.environ, "JUSTMEM_FOLDER": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )

    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- the file


def test_the_users_own_file_is_read_and_one_in_the_current_folder_is_not(tmp_path: Path) -> None:
    """A file in the current folder may come from somebody else."""
    toml('redact = "subprocess:getoutput"')
    assert (load().file, load().redact) == (None, None)
    own = tmp_path / "home" / "justmem" / "justmem.toml"
    own.parent.mkdir(parents=True)
    own.write_text('redact = "secrets"')
    assert (load().file, load().redact) == (own, "secrets")


def test_a_configuration_folder_that_cannot_be_read_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/" + "x" * 300)
    with pytest.raises(InvalidSetting, match="cannot be read"):
        load()
