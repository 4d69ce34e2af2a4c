"""The pages on the server say what the code does, and leave nothing out."""

from __future__ import annotations

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from justmem import errors
from justmem.config import ServerSettings, load
from justmem.intake.sessions import as_time
from justmem.server.access_keys import RIGHTS
from justmem.server.application import api
from justmem.server.mcp import mcp_server
from justmem.server.problems import STATUS
from justmem.server.proxy.chat import ERROR, RECEIPT
from justmem.server.state import Server

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| `?([^|`]+)`? \|(.*)\|$", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def table(name: str, heading: str) -> dict[str, str]:
    """The rows of the table that begins with `heading`."""
    text = page(name)
    start = text.index(f"| {heading} |")
    found = _ROW.findall(text[start : text.index("\n\n", start)])
    return {key.strip(): rest for key, rest in found[1:]}


@pytest.fixture
def server(tmp_path: Path) -> Server:
    settings = load(
        folder=tmp_path,
        embedder="justmem.testing:HashEmbedder",
        reranker="none",
    )
    return Server(settings, clock=lambda: as_time("2024-06-01"), keys=None)


def described(server: Server) -> dict[str, Any]:
    return api(server).openapi()


async def test_every_route_is_on_the_page_with_the_right_it_needs(server: Server) -> None:
    schema = described(server)
    routes = {
        f"{method.upper()} {path}": operation
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    }
    listed = table("server.md", "route")
    assert set(listed) == set(routes)
    for route, operation in routes.items():
        assert operation["summary"], route
        open_to_all = "security" not in operation
        assert ("nothing" in listed[route]) == open_to_all, route
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and parameter["name"] != "wait":
                assert f"`{parameter['name']}`" in listed[route], (route, parameter["name"])
    assert "`wait=true`" in page("server.md")


def test_every_status_is_on_the_page() -> None:
    assert {int(status) for status in table("server.md", "status")} == set(STATUS.values())


def test_every_error_has_a_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, errors.JustMemError) and kind is not errors.JustMemError:
            assert any(base in STATUS for base in kind.__mro__), kind


def test_every_right_and_metric_is_on_the_page(server: Server) -> None:
    assert tuple(table("server.md", "right")) == RIGHTS
    told = set(re.findall(r"^# TYPE (\S+)", server.metrics.text(), re.MULTILINE))
    assert set(table("server.md", "metric")) == {n for n in told if not n.endswith("_created")}


async def test_every_tool_is_on_the_page_with_its_arguments(server: Server) -> None:
    listed = table("mcp.md", "tool")
    tools = {tool.name: tool for tool in await mcp_server(server, space="ana").list_tools()}
    assert list(listed) == list(tools)
    for name, tool in tools.items():
        told = re.findall(r"`(\w+)`", listed[name].split("|")[0])
        assert told == list(tool.input_schema["properties"]), name


def test_every_header_of_the_proxy_is_on_its_page() -> None:
    text = page("proxy.md").lower()
    for header in (RECEIPT, ERROR, "x-justmem-space", "x-justmem-session"):
        assert f"`{header}`" in text


def test_the_deployment_files_start_the_command_that_exists() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    service = compose["services"]["justmem"]
    assert service["ports"] == [f"127.0.0.1:{ServerSettings().port}:{ServerSettings().port}"]
    assert service["read_only"] is True
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((ROOT / "deploy" / "justmem.service").read_text("utf-8"))
    assert unit["Service"]["ExecStart"].endswith("/justmem serve")
    image = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    assert f"EXPOSE {ServerSettings().port}" in image
    assert "USER justmem" in image
    assert 'CMD ["justmem", "serve", "--host", "0.0.0.0"]' in image
