"""The settings of the server: the `[server]` table of justmem.toml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ServerSettings(BaseModel):
    """Where the server listens, what it lets in, and how much at a time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(8765, ge=0, le=65535)
    origins: tuple[str, ...] = ()  # web pages of other origins that may call (CORS)

    # The https address by which others reach this server: turns on OAuth for MCP clients
    public_url: str | None = None

    # One request
    body_bytes: int = Field(4 * 1024 * 1024, ge=1024)
    header_seconds: float = Field(15.0, gt=0)  # for all of a request's headers to arrive
    body_seconds: float = Field(20.0, gt=0)  # for all of a request's body to arrive
    request_seconds: float = Field(120.0, gt=0)
    write_seconds: float = Field(30.0, gt=0)  # a client that reads nothing for so long is left
    stream_seconds: float = Field(600.0, gt=0)  # for an export or a forwarded chat to be read
    address_connections: int = Field(500, ge=1)  # of one address at once

    # One key
    rate: float = Field(50.0, gt=0)  # requests a second, on average
    burst: int = Field(200, ge=1)  # requests at once
    asks: int = Field(64, ge=1)  # questions under way

    # Spaces and what waits to be remembered
    open_spaces: int = Field(64, ge=1)
    idle_seconds: float = Field(300.0, gt=0)  # a space nobody uses for so long is closed
    expire_seconds: float = Field(3600.0, gt=0)  # between looks for what is too old
    queue: int = Field(10_000, ge=1)  # sessions that may wait
    queue_bytes: int = Field(128 * 1024 * 1024, ge=1024)
    grace_seconds: float = Field(10.0, ge=0)  # for work under way when the server stops

    # The chat proxy
    upstream: str | None = None  # such as https://api.openai.com/v1
    upstream_key_env: str = "JUSTMEM_UPSTREAM_KEY"
    anthropic_upstream: str | None = None  # such as https://api.anthropic.com/v1
    anthropic_upstream_key_env: str = "JUSTMEM_ANTHROPIC_UPSTREAM_KEY"
    note_tokens: int = Field(1500, ge=100)  # the most that memory adds to a chat
    pause_seconds: float = Field(30.0, ge=0)  # a chat quiet for so long is made into cards
    chat_turns: int = Field(40, ge=2)  # a longer chat goes on in a session of its own

    # The pair of tools that ChatGPT's connectors look for
    search_and_fetch: bool = False
