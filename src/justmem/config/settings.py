"""All settings: name, type, default, description. `justmem.toml`, the environment, the arguments of
`justmem.open` and docs/settings.md are made from these tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
)

from justmem.config import providers
from justmem.domain import Budget, Profile, Retention
from justmem.errors import InvalidSetting
from justmem.runtime.addresses import shown_url
from justmem.runtime.validation import as_path, describe


def user_folder(kind: Literal["data", "cache", "config"], *names: str) -> Path:
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
    if value and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
        raise ValueError(
            "this is not the address of a database: write postgresql://user@host/database. "
            "Folders are set with folder."
        )
    return value


_Path = Annotated[Path, BeforeValidator(as_path)]
_Model = Annotated[Any, _named("model")]
_Seconds = PositiveFloat


class ServerSettings(BaseModel):
    """Where the server listens, what it accepts, and how much at a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8765, ge=0, le=65535, description="the port; 0 takes a free one")
    origins: tuple[str, ...] = Field((), description="other origins whose pages may call (CORS)")
    public_url: str | None = Field(
        None, description="the public https address; turns on OAuth for MCP clients"
    )
    body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="the largest request")
    header_seconds: _Seconds = Field(15.0, description="the time for a request's headers to arrive")
    client_seconds: _Seconds = Field(
        20.0, description="the time for a body to arrive, and for a client to read something"
    )
    request_seconds: _Seconds = Field(120.0, description="the time for an answer")
    stream_seconds: _Seconds = Field(
        600.0, description="the time to read an export or a forwarded chat"
    )
    connections: PositiveInt = Field(
        1900, description="open connections; beyond them an idle one is closed"
    )
    rate: float = Field(50.0, gt=0, description="requests per second of one key, on average")
    burst: PositiveInt = Field(200, description="requests of one key at once")
    queue: PositiveInt = Field(10_000, description="sessions that may wait")
    grace_seconds: float = Field(
        10.0, ge=0, description="the time to finish work when the server stops"
    )
    upstream: str | None = Field(
        None,
        description="the server behind `/v1/chat/completions` and `/v1/responses`; its key is "
        "the setting `upstream_key`",
    )
    anthropic_upstream: str | None = Field(
        None,
        description="the server behind `/v1/messages`; its key is the setting "
        "`anthropic_upstream_key`",
    )
    note_tokens: int = Field(1500, ge=100, description="the most tokens that memory adds to a chat")
    pause_seconds: float = Field(
        30.0, ge=0, description="cards are made when a chat has been quiet for this long"
    )


class Settings(BaseModel):
    """All settings. A model, embedder or reranker is a name (see `providers`) or an object with
    the methods of its port."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    folder: _Path = Field(
        default_factory=lambda: user_folder("data"),
        description="the folder with one file for each space",
    )
    store: Annotated[SecretStr | None, AfterValidator(_checked_store)] = Field(
        None, description="a `postgresql://` address: spaces live there, not in files"
    )
    space: str = Field("default", description="the space to open")
    profile: Literal["default", "paper"] | Profile = Field(
        "default", description="`default` or `paper`"
    )
    model: _Model = Field("rules", description="the language model, or `rules`")
    extractor: _Model = Field(None, description="a model for making cards; else `model`")
    planner: _Model = Field(None, description="a model for plans; else `model`")
    answerer: _Model = Field(None, description="a model for answers; else `model`")
    api_key: SecretStr | None = Field(
        None,
        description="the key for the servers of `model` and `embedder`; without it OpenAI gets "
        "the key in `OPENAI_API_KEY`, and other servers get none",
    )
    context: int | None = Field(None, ge=1024, description="the model's context size in tokens")
    timeout: _Seconds | None = Field(
        None, description="seconds for one request to a model or an embedder"
    )
    embedder: Annotated[Any, _named("embedder")] = Field(
        "onnx:bge-small-en-v1.5", description="the embedder"
    )
    dimensions: PositiveInt | None = Field(
        None, description="the vector length, for an embedder whose name does not tell"
    )
    reranker: Annotated[Any, _named("reranker")] = Field(
        "onnx:ms-marco-MiniLM-L-12-v2", description="the reranker, or `none`"
    )
    models_folder: _Path = Field(
        default_factory=lambda: user_folder("cache", "models"),
        description="the folder with the weights of local models",
    )
    offline: bool = Field(False, description="download no weights")
    concurrency: int = Field(4, ge=1, le=256, description="sessions remembered at the same time")
    redact: Annotated[Any, _named("redaction")] = Field(
        None, description="`secrets`, or your own function from text to text"
    )
    actor: str | None = Field(
        None, min_length=1, max_length=200, description="your name in the change log"
    )
    log_reads: bool = Field(False, description="also write reads to the change log")
    key: SecretStr | None = Field(None, description="the key that encrypts spaces")
    key_file: _Path | None = Field(
        None,
        description="a file with that key; `{space}` in its name is replaced by the space's name",
    )
    budget: Budget = Field(Budget(), description="the table of limits")
    retention: Retention = Field(Retention(), description="the table of ages")
    server: ServerSettings = Field(ServerSettings(), description="the table of server settings")
    upstream_key: SecretStr | None = Field(None, description="the key for `upstream` of `[server]`")
    anthropic_upstream_key: SecretStr | None = Field(
        None, description="the key for `anthropic_upstream` of `[server]`"
    )
    # Not set by users
    openai_key: SecretStr | None = None  # the variable OPENAI_API_KEY
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

    @property
    def address(self) -> str:
        """The address of the database in `store`. It may contain a password."""
        assert self.store is not None
        return self.store.get_secret_value()


TABLES: dict[str, type[BaseModel]] = {
    "budget": Budget,
    "retention": Retention,
    "server": ServerSettings,
}
NAMES = [name for name, field in Settings.model_fields.items() if field.description]
KEYS = [name for name in NAMES if name.endswith("key")]  # never in a file
ENVIRONMENT = {f"JUSTMEM_{name.upper()}": name for name in NAMES if name not in TABLES}
PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"model": "openai:gpt-4.1-mini", "embedder": "openai:text-embedding-3-small"},
}
