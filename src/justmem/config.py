"""The only reader of the environment and of justmem.toml -> Settings.

What is passed wins over the environment, the environment over the files, the files over the
profile, the profile over the defaults. Nothing is switched on by a key that happens to be set.

The user's file is the one named with --config or JUSTMEM_CONFIG, or else the one in the user's
configuration folder. It may set everything. A justmem.toml in the current folder may be somebody
else's: it is read on top of the user's file, and may set only the keys of `FOUND_MAY_SET`.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from justmem import providers
from justmem.domain import Budget, Retention
from justmem.errors import InvalidSetting
from justmem.rank import Profile
from justmem.server_settings import ServerSettings
from justmem.validation import as_path, shown

FILE = "justmem.toml"
ENVIRONMENT = {
    "JUSTMEM_FOLDER": "folder",
    "JUSTMEM_STORE": "store",
    "JUSTMEM_SPACE": "space",
    "JUSTMEM_MODEL": "model",
    "JUSTMEM_EMBEDDER": "embedder",
    "JUSTMEM_RERANKER": "reranker",
    "JUSTMEM_MODELS_FOLDER": "models_folder",
    "JUSTMEM_MODELS_MIRROR": "models_mirror",
    "JUSTMEM_API_KEY_ENV": "api_key_env",
    "JUSTMEM_KEY_FILE": "key_file",
}
_PATHS = ("folder", "models_folder", "key_file")
KEY_SOURCES = ("key", "key_file")
CONFIG_VARIABLE = "JUSTMEM_CONFIG"
# What a file in the current folder may set: nothing that runs code, that chooses where words and
# keys are kept or sent, or that deletes or switches off a protection.
FOUND_MAY_SET = ("space", "offline", "concurrency", "context", "timeout", "budget")
_NOT_SET = ("file", "found", "openai_key")  # these are found, not set
_SPENDING = ("ask_tokens", "session_tokens", "day_tokens")  # such a file may only lower these
_OPENAI_KEY = "OPENAI_API_KEY"  # the key for OpenAI; no other server gets it unless named for it
_DATABASES = ("postgresql://", "postgres://")

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "model": "openai:gpt-4.1-mini",
        "embedder": "openai:text-embedding-3-small",
        "reranker": "rerank:qwen3-rerank@"
        "https://dashscope-intl.aliyuncs.com/compatible-api/v1/reranks",
    },
}


class Settings(BaseModel):
    """Everything that can be set. A model, embedder or reranker is a name (see `specs`) or an
    object with the methods of its port."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    folder: Path  # one file per space lies in here
    store: SecretStr | None = None  # postgresql://...: all spaces in that database instead
    space: str = "default"
    profile: Literal["default", "paper"] | Profile = "default"
    model: Any = "rules"
    extractor: Any = None  # None: the same as `model`
    planner: Any = None
    answerer: Any = None
    embedder: Any = "onnx:bge-small-en-v1.5"
    reranker: Any = "onnx:ms-marco-MiniLM-L-12-v2"
    dimensions: int | None = Field(None, ge=1)  # of an embedder that does not say itself
    models_folder: Path  # weights of local models
    models_mirror: str | None = Field(None, min_length=1)  # a folder or URL that has them too
    offline: bool = False
    budget: Budget = Budget()
    retention: Retention = Retention()
    redact: Any = None  # none, secrets, or a function of your own from text to text
    concurrency: int = Field(4, ge=1, le=256)
    actor: str | None = Field(None, min_length=1, max_length=200)  # the name in the change log
    log_reads: bool = False  # whether the change log has reads too
    context: int | None = Field(None, ge=1024)  # tokens the model can take
    timeout: float | None = Field(None, gt=0)  # seconds for one request
    api_key_env: str | None = None  # holds the key for the servers of model and embedder
    rerank_key_env: str = "JUSTMEM_RERANK_KEY"
    api_key: SecretStr | None = None  # None: OpenAI gets `openai_key`, other servers get no key
    openai_key: SecretStr | None = None
    rerank_key: SecretStr | None = None
    key: SecretStr | None = None  # locks every space; or else:
    key_file: Path | None = None  # holds the key; {space} in it stands for the space
    key_env: str = "JUSTMEM_KEY"
    server: ServerSettings = ServerSettings()
    upstream_key: SecretStr | None = None
    anthropic_upstream_key: SecretStr | None = None
    file: Path | None = None  # the user's justmem.toml
    found: Path | None = None  # the justmem.toml in the current folder

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """A URL may hold a password."""
        for name, value in super().__repr_args__():
            shown = (
                providers.without_secrets(value)
                if isinstance(value, str | ServerSettings)
                else value
            )
            yield name, shown

    def stage(self, name: str) -> Any:
        """What `extractor`, `planner` or `answerer` names, or else `model`."""
        own = getattr(self, name)
        return self.model if own is None else own


def load(path: str | Path | None = None, **overrides: Any) -> Settings:
    """`path` is a justmem.toml. Overrides that are None count as not given."""
    file, found = _files(path)
    table = _read(file) if file else {}
    here = _read_found(found, table) if found else {}
    layers: list[tuple[str, dict[str, Any]]] = [
        (str(file), table),
        (str(found), here),
        ("the environment", _environment(overrides.get("key_env") or table.get("key_env"))),
        ("the call", {key: value for key, value in overrides.items() if value is not None}),
    ]
    given: dict[str, Any] = {}
    for where, layer in layers:
        _refuse_unknown(layer, Settings, where)
        given = _with_key(given, layer, where) | layer
    profile = given.get("profile", "default")
    if isinstance(profile, str):
        given = {**PROFILES.get(profile, {}), **given}
    return _settings({**given, "file": file, "found": found}, layers)


def _with_key(given: dict[str, Any], layer: dict[str, Any], where: str) -> dict[str, Any]:
    """A key that a layer names takes the place of any that those below name."""
    named = [source for source in KEY_SOURCES if source in layer]
    if len(named) > 1:
        raise InvalidSetting(
            f"Both {named[0]} and {named[1]} are set in {where}: a space has one key, keep one."
        )
    return {name: value for name, value in given.items() if not named or name not in KEY_SOURCES}


def _settings(given: dict[str, Any], layers: list[tuple[str, dict[str, Any]]]) -> Settings:
    from platformdirs import user_cache_path, user_data_path

    given.setdefault("folder", user_data_path("justmem", appauthor=False))
    given.setdefault("models_folder", user_cache_path("justmem", appauthor=False) / "models")
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise InvalidSetting(_sentence(error, layers)) from None
    if settings.store is not None and not address(settings).startswith(_DATABASES):
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
            ("rerank_key", settings.rerank_key_env),
            ("upstream_key", settings.server.upstream_key_env),
            ("anthropic_upstream_key", settings.server.anthropic_upstream_key_env),
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
    """Of the database in `store`. It may hold a password: not for the eye."""
    assert settings.store is not None
    return settings.store.get_secret_value()


def kept_in(settings: Settings) -> str | Path:
    """Where the spaces are: an address or a folder, as `stores.storage` takes it."""
    return settings.folder if settings.store is None else address(settings)


# ---------------------------------------------------------------- reading


def _files(path: str | Path | None) -> tuple[Path | None, Path | None]:
    """The user's file, and the one in the current folder. A file that is named stands alone."""
    named = path or os.environ.get(CONFIG_VARIABLE)
    if named:
        file = as_path(named)
        if not file.is_file():
            source = "--config" if path else CONFIG_VARIABLE
            raise InvalidSetting(f"There is no settings file {file} ({source} names it).")
        return file, None
    own, here = _own_file(), Path(FILE)
    if not own.is_file():
        return None, here if here.is_file() else None
    return own, here if here.is_file() and not here.samefile(own) else None


def _own_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("justmem", appauthor=False) / FILE


def _read_found(file: Path, own: Mapping[str, Any]) -> dict[str, Any]:
    """The file in the current folder, its budget added to the one of the user's file."""
    table = _read(file)
    _refuse_unknown(table, Settings, str(file))
    for key, value in table.items():
        if key not in FOUND_MAY_SET or (key == "offline" and value is not True):
            raise _not_from(file, key)
    limits, budget = own.get("budget", {}), table.get("budget")
    if isinstance(limits, Mapping) and isinstance(budget, Mapping):
        for key in _SPENDING:
            most = limits.get(key, Budget.model_fields[key].default)
            if most is not None and not _within(budget.get(key, most), most):
                raise _not_from(file, f"budget.{key} above {most}")
        table["budget"] = {**limits, **budget}
    return table


def _within(limit: Any, most: Any) -> bool:
    return isinstance(limit, int) and isinstance(most, int) and limit <= most


def _not_from(file: Path, key: str) -> InvalidSetting:
    return InvalidSetting(
        f"./{file} may not set {key}: it was found in the current folder and may be somebody "
        f"else's file. If it is yours, name it with --config {file} or {CONFIG_VARIABLE}={file}, "
        f"or set {key} in {_own_file()}."
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not valid TOML: {str(error)[:200]}.") from None
    except RecursionError:
        raise InvalidSetting(f"{file} is nested too deeply to be settings.") from None
    except OSError as error:
        raise InvalidSetting(f"{file} cannot be read: {error.strerror}.") from None
    for key in ("api_key", "rerank_key", "upstream_key", "anthropic_upstream_key", "key"):
        if key in table:
            raise InvalidSetting(
                f"{file}: {key} does not belong in a file; put the key into an environment "
                f"variable and name it with {key}_env."
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


def _variables() -> set[str]:
    """The names that are set to something. A name that no variable can have is merely not there."""
    return {name for name, value in os.environ.items() if value}


def _environment(key_env: Any) -> dict[str, Any]:
    names = {str(key_env or Settings.model_fields["key_env"].default): "key", **ENVIRONMENT}
    there = _variables()
    found = {key: os.environ[name] for name, key in names.items() if name in there}
    return {key: as_path(value) if key in _PATHS else value for key, value in found.items()}


# ---------------------------------------------------------------- saying what is wrong


def _refuse_unknown(given: Mapping[str, Any], model: type[BaseModel], where: str) -> None:
    known = [name for name in model.model_fields if name not in _NOT_SET]
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise InvalidSetting(f"Unknown setting {shown(key)} in {where}: {hint}")
        if key in _TABLES and isinstance(value, Mapping):
            _refuse_unknown(value, _TABLES[key], f"the {key} of {where}")


def _sentence(error: ValidationError, layers: list[tuple[str, dict[str, Any]]]) -> str:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    if location[0] not in _TABLES:
        location = location[:1]  # the rest names a type of a union
    where = _where(location[0], layers)
    what = first["msg"].removeprefix("Value error, ")
    secret = Settings.model_fields[location[0]].annotation == SecretStr | None
    given = first["input"]
    if isinstance(given, str | ServerSettings):
        given = providers.without_secrets(given)
    given = "this" if secret else shown(given)
    return f"The setting {'.'.join(location)} in {where} cannot be {given}: {what}."


def _where(key: str, layers: list[tuple[str, dict[str, Any]]]) -> str:
    return next((name for name, layer in reversed(layers) if key in layer), "the profile")
