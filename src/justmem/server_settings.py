"""The settings of the server: the `[server]` table of justmem.toml."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

# Constants rather than settings: no deployment needs another value.
OPEN_SPACES = 64  # an open space costs a file handle and a few MB; reopening takes milliseconds
EXPIRE_SECONDS = 3600.0  # between two expiry runs: ages are counted in days
QUEUE_BYTES = (
    128 * 1024 * 1024
)  # memory for the text of waiting sessions; `queue` limits their number


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
        None, description="the server behind `/v1/chat/completions` and `/v1/responses`"
    )
    upstream_key_env: str = Field("JUSTMEM_UPSTREAM_KEY", description="the variable with its key")
    anthropic_upstream: str | None = Field(None, description="the server behind `/v1/messages`")
    anthropic_upstream_key_env: str = Field(
        "JUSTMEM_ANTHROPIC_UPSTREAM_KEY", description="the variable with its key"
    )
    note_tokens: int = _count(1500, "the most tokens that memory adds to a chat", least=100)
    pause_seconds: float = Field(
        30.0, ge=0, description="cards are made when a chat has been quiet for this long"
    )
    chat_turns: int = _count(40, "a longer chat continues in a new session", least=2)
    search_and_fetch: bool = Field(
        False, description="offer the two MCP tools that ChatGPT connectors look for"
    )
