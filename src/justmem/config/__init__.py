"""Settings from the call, the environment and justmem.toml. No other module reads them.

Precedence: the call, the environment, the file, the profile, the defaults. A key in the
environment switches nothing on by itself.

The file is named with --config or JUSTMEM_CONFIG; otherwise it is the one in the user's
configuration folder. A file in the current folder is not read: it may come from somebody else.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from justmem.config import providers
from justmem.domain import Budget, Profile, Retention
from justmem.errors import InvalidSetting
from justmem.runtime.addresses import shown_url
from justmem.runtime.validation import as_path, describe

FILE = "justmem.toml"
_FROM_ENVIRONMENT = (
    "folder",
    "store",
    "space",
    "model",
    "embedder",
    "reranker",
    "models_folder",
    "models_mirror",
    "api_key_env",
    "key_file",
)
ENVIRONMENT = {f"JUSTMEM_{name.upper()}": name for name in _FROM_ENVIRONMENT}
# The variables with keys. No file names them: two programs with different keys each have an
# environment of their own.
KEY_VARIABLE = "JUSTMEM_KEY"
_KEY_VARIABLES = {
    "upstream_key": "JUSTMEM_UPSTREAM_KEY",
    "anthropic_upstream_key": "JUSTMEM_ANTHROPIC_UPSTREAM_KEY",
}
_PATHS = ("folder", "models_folder", "key_file")
KEY_SOURCES = ("key", "key_file")
CONFIG_VARIABLE = "JUSTMEM_CONFIG"
_OPENAI_KEY = "OPENAI_API_KEY"  # the key for OpenAI; no other server gets it unless named for it

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "model": "openai:gpt-4.1-mini",
        "embedder": "openai:text-embedding-3-small",
    },
}


Layers = list[tuple[str, dict[str, Any]]]  # where settings come from, and what they are there


def _set(default: Any, description: str) -> Any:
    return Field(default, description=description)


def _seconds(default: float, description: str) -> Any:
    return Field(default, gt=0, description=description)


def _count(default: int, description: str, *, least: int = 1) -> Any:
    return Field(default, ge=least, description=description)


class ServerSettings(BaseModel):
    """Where the server listens, what it accepts, and how much at a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8765, ge=0, le=65535, description="the port; 0 takes a free one")
    origins: tuple[str, ...] = Field((), description="other origins whose pages may call (CORS)")
    public_url: str | None = Field(
        None, description="the public https address; turns on OAuth for MCP clients"
    )

    # One request
    body_bytes: int = _count(4 * 1024 * 1024, "the largest request", least=1024)
    header_seconds: float = _seconds(15.0, "the time for the headers of a request to arrive")
    body_seconds: float = _seconds(20.0, "the time for the body of a request to arrive")
    request_seconds: float = _seconds(120.0, "the time for an answer")
    write_seconds: float = _seconds(30.0, "a client that reads nothing for this long is dropped")
    stream_seconds: float = _seconds(600.0, "the time to read an export or a forwarded chat")
    address_connections: int = _count(500, "connections from one address")

    # One key
    rate: float = _seconds(50.0, "requests per second of one key, on average")
    burst: int = _count(200, "requests of one key at once")
    asks: int = _count(64, "questions of one key at the same time")

    # Spaces and waiting sessions
    idle_seconds: float = _seconds(300.0, "a space that is unused for this long is closed")
    queue: int = _count(10_000, "sessions that may wait")
    grace_seconds: float = Field(
        10.0, ge=0, description="the time to finish work when the server stops"
    )

    # The chat proxy
    upstream: str | None = Field(
        None,
        description="the server behind `/v1/chat/completions` and `/v1/responses`; its key is in "
        "the variable `JUSTMEM_UPSTREAM_KEY`",
    )
    anthropic_upstream: str | None = Field(
        None,
        description="the server behind `/v1/messages`; its key is in the variable "
        "`JUSTMEM_ANTHROPIC_UPSTREAM_KEY`",
    )
    note_tokens: int = _count(1500, "the most tokens that memory adds to a chat", least=100)
    pause_seconds: float = Field(
        30.0, ge=0, description="cards are made when a chat has been quiet for this long"
    )


class Settings(BaseModel):
    """All settings. A model, embedder or reranker is a name (see `providers`) or an object with
    the methods of its port. docs/settings.md is made from the descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    folder: Path = Field(description="the folder with one file for each space")
    store: SecretStr | None = _set(
        None, "a `postgresql://` address: spaces live there, not in files"
    )
    space: str = _set("default", "the space to open")
    profile: Literal["default", "paper"] | Profile = _set("default", "`default` or `paper`")
    model: Any = _set("rules", "the language model, or `rules`")
    extractor: Any = _set(None, "a model for making cards; else `model`")
    planner: Any = _set(None, "a model for plans; else `model`")
    answerer: Any = _set(None, "a model for answers; else `model`")
    embedder: Any = _set("onnx:bge-small-en-v1.5", "the embedder")
    reranker: Any = _set("onnx:ms-marco-MiniLM-L-12-v2", "the reranker, or `none`")
    dimensions: int | None = Field(
        None, ge=1, description="the vector length, for an embedder whose name does not tell"
    )
    models_folder: Path = Field(description="the folder with the weights of local models")
    models_mirror: str | None = Field(
        None, min_length=1, description="a folder or URL with the same weights, tried first"
    )
    offline: bool = _set(False, "download no weights")
    budget: Budget = _set(Budget(), "the table of limits below")
    retention: Retention = _set(Retention(), "the table of ages below")
    redact: Any = _set(None, "`secrets`, or your own function from text to text")
    concurrency: int = Field(4, ge=1, le=256, description="sessions remembered at the same time")
    actor: str | None = Field(
        None, min_length=1, max_length=200, description="your name in the change log"
    )
    log_reads: bool = _set(False, "also write reads to the change log")
    context: int | None = Field(None, ge=1024, description="the model's context size in tokens")
    timeout: float | None = Field(None, gt=0, description="seconds for one request to a model")
    api_key_env: str | None = _set(
        None,
        "the variable with the key for the servers of `model` and `embedder`; without it OpenAI "
        "gets the key in `OPENAI_API_KEY`, and other servers get none",
    )
    key_file: Path | None = _set(
        None,
        "the file with the key that encrypts spaces; `{space}` in it is the space's name; the "
        "variable `JUSTMEM_KEY` may hold the key instead",
    )
    server: ServerSettings = _set(ServerSettings(), "the table of server settings below")
    # Keys come from the environment or from the call, never from a file.
    api_key: SecretStr | None = None
    openai_key: SecretStr | None = None
    key: SecretStr | None = None
    upstream_key: SecretStr | None = None
    anthropic_upstream_key: SecretStr | None = None
    file: Path | None = None  # the justmem.toml that was read

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """A URL may hold a password."""
        for name, value in super().__repr_args__():
            url = isinstance(value, str | ServerSettings)
            yield name, shown_url(str(value)) if url else value

    def stage(self, name: str) -> Any:
        """What `extractor`, `planner` or `answerer` names, or else `model`."""
        own = getattr(self, name)
        return self.model if own is None else own


def load(path: str | Path | None = None, **overrides: Any) -> Settings:
    """`path` is a justmem.toml. Overrides that are None count as not given."""
    file = _file(path)
    table = _read(file) if file else {}
    layers: Layers = [
        (str(file), table),
        ("the environment", _environment()),
        ("the call", {key: value for key, value in overrides.items() if value is not None}),
    ]
    given: dict[str, Any] = {}
    for where, layer in layers:
        _refuse_unknown(layer, Settings, where)
        given = _with_key(given, layer, where) | layer
    profile = given.get("profile", "default")
    if isinstance(profile, str):
        given = {**PROFILES.get(profile, {}), **given}
    return _settings({**given, "file": file}, layers)


def _with_key(given: dict[str, Any], layer: dict[str, Any], where: str) -> dict[str, Any]:
    """A key in one layer replaces the keys in the layers below."""
    named = [source for source in KEY_SOURCES if source in layer]
    if len(named) > 1:
        raise InvalidSetting(
            f"Both {named[0]} and {named[1]} are set in {where}: a space has one key, remove one."
        )
    return {name: value for name, value in given.items() if not named or name not in KEY_SOURCES}


def _settings(given: dict[str, Any], layers: Layers) -> Settings:
    from platformdirs import user_cache_path, user_data_path

    given.setdefault("folder", user_data_path("justmem", appauthor=False))
    given.setdefault("models_folder", user_cache_path("justmem", appauthor=False) / "models")
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise InvalidSetting(_sentence(error, layers)) from None
    if settings.store is not None and not address(settings).startswith(
        ("postgresql://", "postgres://")
    ):
        raise InvalidSetting(
            f"The setting store in {_where('store', layers)} is not the address of a database: "
            "write postgresql://user@host/database. Folders are set with folder."
        )
    for name, part in _SPECS.items():
        if isinstance(getattr(settings, name), str):
            try:
                providers.parse(getattr(settings, name), part)
            except InvalidSetting as error:
                where = _where(name, layers)
                raise InvalidSetting(f"The setting {name} in {where}: {error}") from None
    keys = {
        name: SecretStr(os.environ[variable])
        for name, variable in (
            ("api_key", settings.api_key_env),
            ("openai_key", None if settings.api_key_env else _OPENAI_KEY),
            *_KEY_VARIABLES.items(),
        )
        if getattr(settings, name) is None and variable in _variables()
    }
    paths = {
        name: as_path(path) for name in _PATHS if (path := getattr(settings, name)) is not None
    }
    return settings.model_copy(update=keys | paths)


_TABLES: Mapping[str, type[BaseModel]] = {
    "budget": Budget,
    "retention": Retention,
    "server": ServerSettings,
}
_SPECS: Mapping[str, providers.Part] = {
    "model": "model",
    "extractor": "model",
    "planner": "model",
    "answerer": "model",
    "embedder": "embedder",
    "reranker": "reranker",
    "redact": "redaction",
}


def address(settings: Settings) -> str:
    """The address of the database in `store`. It may contain a password."""
    assert settings.store is not None
    return settings.store.get_secret_value()


def kept_in(settings: Settings) -> str | Path:
    """Where the spaces are: the address of a database, or a folder."""
    return settings.folder if settings.store is None else address(settings)


# ---------------------------------------------------------------- reading


def _file(path: str | Path | None) -> Path | None:
    named = path or os.environ.get(CONFIG_VARIABLE)
    if not named:
        from platformdirs import user_config_path

        own = user_config_path("justmem", appauthor=False) / FILE
        try:
            return own if own.is_file() else None
        except OSError as error:
            raise InvalidSetting(
                f"{own} cannot be read: {error.strerror}. Make its folder readable, or name "
                "another file with --config."
            ) from None
    file = as_path(named)
    if not file.is_file():
        source = "--config" if path else CONFIG_VARIABLE
        raise InvalidSetting(f"There is no settings file {file} ({source} names it).")
    return file


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not valid TOML: {str(error)[:200]}.") from None
    except RecursionError:
        raise InvalidSetting(f"{file} is nested too deeply.") from None
    except OSError as error:
        raise InvalidSetting(f"{file} cannot be read: {error.strerror}.") from None
    for key in ("api_key", "upstream_key", "anthropic_upstream_key", "key"):
        if key in table:
            raise InvalidSetting(
                f"{file}: {key} does not belong in a file. Put the key into the environment "
                f"variable {_variable(key)}."
            )
    for key, part in _SPECS.items():
        if not isinstance(table.get(key, ""), str):
            raise InvalidSetting(f"{file}: {key} is not a name; write {providers.FORMS[part]}.")
    mirror = table.get("models_mirror")
    if isinstance(mirror, str) and "://" not in mirror:
        table["models_mirror"] = str(file.parent / as_path(mirror))
    for key in _PATHS:
        if isinstance(table.get(key), str):
            table[key] = file.parent / as_path(table[key])
    return table


def _variable(key: str) -> str:
    if key == "api_key":
        return "that api_key_env names"
    return KEY_VARIABLE if key == "key" else _KEY_VARIABLES[key]


def _variables() -> set[str]:
    """The names of variables that are not empty."""
    return {name for name, value in os.environ.items() if value}


def _environment() -> dict[str, Any]:
    names = {KEY_VARIABLE: "key", **ENVIRONMENT}
    there = _variables()
    found = {key: os.environ[name] for name, key in names.items() if name in there}
    return {key: as_path(value) if key in _PATHS else value for key, value in found.items()}


# ---------------------------------------------------------------- errors


def _refuse_unknown(given: Mapping[str, Any], model: type[BaseModel], where: str) -> None:
    known = [name for name in model.model_fields if name not in ("file", "openai_key")]
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise InvalidSetting(f"Unknown setting {describe(key)} in {where}: {hint}")
        if key in _TABLES and isinstance(value, Mapping):
            _refuse_unknown(value, _TABLES[key], f"the {key} of {where}")


def _sentence(error: ValidationError, layers: Layers) -> str:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    if location[0] not in _TABLES:
        location = location[:1]  # the rest names a type of a union
    where = _where(location[0], layers)
    what = first["msg"].removeprefix("Value error, ")
    secret = Settings.model_fields[location[0]].annotation == SecretStr | None
    given = first["input"]
    if isinstance(given, str | ServerSettings):
        given = shown_url(str(given))
    given = "this" if secret else describe(given)
    return f"The setting {'.'.join(location)} in {where} cannot be {given}: {what}."


def _where(key: str, layers: Layers) -> str:
    return next((name for name, layer in reversed(layers) if key in layer), "the profile")
