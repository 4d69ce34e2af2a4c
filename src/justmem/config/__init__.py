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
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from justmem.config import providers
from justmem.domain import Budget, Profile, Retention
from justmem.errors import InvalidSetting
from justmem.runtime.addresses import shown_url
from justmem.runtime.validation import as_path, describe

FILE = "justmem.toml"
CONFIG_VARIABLE = "JUSTMEM_CONFIG"
KEY_VARIABLE = "JUSTMEM_KEY"
_OPENAI_KEY = "OPENAI_API_KEY"  # the key for OpenAI; no other server gets it unless named for it
_KEYS = ("key", "upstream_key", "anthropic_upstream_key")  # never in a file
KEY_SOURCES = ("key", "key_file")
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
    *_KEYS,
)
ENVIRONMENT = {f"JUSTMEM_{name.upper()}": name for name in _FROM_ENVIRONMENT}

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


def _user_folder(kind: str, *names: str) -> Path:
    import platformdirs  # slow to import

    folder: Path = getattr(platformdirs, f"user_{kind}_path")("justmem", appauthor=False)
    return folder.joinpath(*names)


def _named(part: providers.Part) -> AfterValidator:
    """A setting that is a name, or an object with the methods of its port."""

    def check(value: Any) -> Any:
        if isinstance(value, str):
            try:
                providers.parse(value, part)
            except InvalidSetting as error:
                raise ValueError(str(error)) from None
        elif isinstance(value, int | float | list | dict):  # of a file
            raise ValueError(f"{describe(value)} is not a name; write {providers.FORMS[part]}.")
        return value

    return AfterValidator(check)


def _checked_store(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not value.get_secret_value().startswith(_SCHEMES):
        raise ValueError(
            "this is not the address of a database: write postgresql://user@host/database. "
            "Folders are set with folder."
        )
    return value


_SCHEMES = ("postgresql://", "postgres://")
_Path = Annotated[Path, BeforeValidator(as_path)]
_Model = Annotated[Any, _named("model")]


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
    connections: int = _count(1900, "open connections; beyond them the oldest idle one is closed")

    # One key
    rate: float = _seconds(50.0, "requests per second of one key, on average")
    burst: int = _count(200, "requests of one key at once")
    asks: int = _count(64, "questions of one key at the same time")

    # Spaces and waiting sessions
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

    folder: _Path = Field(
        default_factory=partial(_user_folder, "data"),
        description="the folder with one file for each space",
    )
    store: Annotated[SecretStr | None, AfterValidator(_checked_store)] = _set(
        None, "a `postgresql://` address: spaces live there, not in files"
    )
    space: str = _set("default", "the space to open")
    profile: Literal["default", "paper"] | Profile = _set("default", "`default` or `paper`")
    model: _Model = _set("rules", "the language model, or `rules`")
    extractor: _Model = _set(None, "a model for making cards; else `model`")
    planner: _Model = _set(None, "a model for plans; else `model`")
    answerer: _Model = _set(None, "a model for answers; else `model`")
    embedder: Annotated[Any, _named("embedder")] = _set("onnx:bge-small-en-v1.5", "the embedder")
    reranker: Annotated[Any, _named("reranker")] = _set(
        "onnx:ms-marco-MiniLM-L-12-v2", "the reranker, or `none`"
    )
    dimensions: int | None = Field(
        None, ge=1, description="the vector length, for an embedder whose name does not tell"
    )
    models_folder: _Path = Field(
        default_factory=partial(_user_folder, "cache", "models"),
        description="the folder with the weights of local models",
    )
    models_mirror: str | None = Field(
        None, min_length=1, description="a folder or URL with the same weights, tried first"
    )
    offline: bool = _set(False, "download no weights")
    budget: Budget = _set(Budget(), "the table of limits below")
    retention: Retention = _set(Retention(), "the table of ages below")
    redact: Annotated[Any, _named("redaction")] = _set(
        None, "`secrets`, or your own function from text to text"
    )
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
    key_file: _Path | None = _set(
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
    layers: Layers = [
        (str(file), _read(file) if file else {}),
        (
            "the environment",
            {key: _variable(name) for name, key in ENVIRONMENT.items() if _variable(name)},
        ),
        ("the call", {key: value for key, value in overrides.items() if value is not None}),
    ]
    given: dict[str, Any] = {}
    for where, layer in layers:
        _refuse_unknown(layer, Settings, where)
        sources = [name for name in KEY_SOURCES if name in layer]
        if len(sources) > 1:
            raise InvalidSetting(
                f"Both key and key_file are set in {where}: a space has one key, remove one."
            )
        if sources:  # a key replaces the keys in the layers below
            given = {name: value for name, value in given.items() if name not in KEY_SOURCES}
        given |= layer
    profile = given.get("profile", "default")
    if isinstance(profile, str):
        given = {**PROFILES.get(profile, {}), **given}
    try:
        settings = Settings(**given, file=file)
    except ValidationError as error:
        raise InvalidSetting(_sentence(error, layers)) from None
    if settings.api_key is not None:
        return settings
    name = settings.api_key_env or _OPENAI_KEY
    key = SecretStr(_variable(name)) if _variable(name) else None
    return settings.model_copy(update={"api_key" if settings.api_key_env else "openai_key": key})


def address(settings: Settings) -> str:
    """The address of the database in `store`. It may contain a password."""
    assert settings.store is not None
    return settings.store.get_secret_value()


# ---------------------------------------------------------------- reading


def _variable(name: str) -> str:
    """An empty variable counts as not set."""
    return os.environ.get(name, "")


def _file(path: str | Path | None) -> Path | None:
    named = path or _variable(CONFIG_VARIABLE)
    file = as_path(named) if named else _user_folder("config", FILE)
    try:
        if file.is_file():
            return file
    except OSError as error:
        raise InvalidSetting(
            f"{file} cannot be read: {error.strerror}. Make its folder readable, or name "
            "another file with --config."
        ) from None
    if named:
        source = "--config" if path else CONFIG_VARIABLE
        raise InvalidSetting(f"There is no settings file {file} ({source} names it).")
    return None


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not valid TOML: {str(error)[:200]}.") from None
    except RecursionError:
        raise InvalidSetting(f"{file} is nested too deeply.") from None
    except OSError as error:
        raise InvalidSetting(f"{file} cannot be read: {error.strerror}.") from None
    for key in ("api_key", *_KEYS):
        if key in table:
            variable = f"JUSTMEM_{key.upper()}" if key in _KEYS else "that api_key_env names"
            raise InvalidSetting(
                f"{file}: {key} does not belong in a file. Put the key into the environment "
                f"variable {variable}."
            )
    for key in ("folder", "models_folder", "models_mirror", "key_file"):
        if isinstance(table.get(key), str) and "://" not in table[key]:
            table[key] = str(file.parent / as_path(table[key]))
    return table


# ---------------------------------------------------------------- errors


_TABLES: Mapping[str, type[BaseModel]] = {
    "budget": Budget,
    "retention": Retention,
    "server": ServerSettings,
}


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
    where = next((n for n, layer in reversed(layers) if location[0] in layer), "the profile")
    what = first["msg"].removeprefix("Value error, ")
    named = f"The setting {'.'.join(location)} in {where}"
    if first["type"] == "value_error":
        return f"{named}: {what}"
    secret = Settings.model_fields[location[0]].annotation == SecretStr | None
    given = first["input"]
    if isinstance(given, str | ServerSettings):
        given = shown_url(str(given))
    given = "this" if secret else describe(given)
    return f"{named} cannot be {given}: {what}."
