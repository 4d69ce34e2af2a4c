"""The evaluation uses only the public names of justmem."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import justmem
import justmem_eval
from justmem.testing import ScriptedModel
from justmem_eval import estimate, settings
from justmem_eval.benchmarks import load
from justmem_eval.text import count

ROOT = Path(justmem_eval.__file__).parent
# docs/api.md lists them.
PUBLIC = {"domain", "ports", "errors", "config", "config.providers", "testing"}


def private(source: str) -> Iterator[str]:
    """Names of justmem that some code imports and that are not public."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("justmem."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "justmem":
            for alias in node.names:
                if not _public(str(node.module), alias.name):
                    yield f"{node.module}.{alias.name}"


def _public(module: str, name: str) -> bool:
    if module == "justmem":
        return name in justmem.__all__ or name in PUBLIC
    if f"{module}.{name}".removeprefix("justmem.") in PUBLIC:
        return True
    parts = module.split(".")
    if len(parts) != 2 or parts[1] not in PUBLIC or name.startswith("_"):
        return False
    found = importlib.import_module(module)
    return hasattr(found, name) and name in getattr(found, "__all__", [name])


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_public_names_are_imported(path: Path) -> None:
    assert list(private(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "from justmem.rank import Weights",
        "from justmem.runtime import tokens",
        "import justmem.store.sqlite",
        "from justmem.domain.asking import Plan",
        "def late():\n    from justmem.ports import _hidden",
    ],
)
def test_an_import_of_an_internal_name_is_seen(source: str) -> None:
    assert list(private(source))


def test_public_names_pass() -> None:
    source = "import justmem\nfrom justmem import Plan, config\nfrom justmem.domain import Call"
    assert not list(private(source))


def test_the_public_modules_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
    for name in PUBLIC:
        assert f"`justmem.{name}`" in page


def test_the_papers_profile_is_the_products(tmp_path: Path) -> None:
    own = {"folder": tmp_path, "model": "rules", "reranker": "none"}
    own["embedder"] = "justmem.testing:HashEmbedder"
    with justmem.open("x", **own, profile="paper") as memory:
        assert memory.parts.profile == settings.parse(["profile=paper"]).profile


async def test_estimated_prompts_are_about_as_long_as_real_ones(data: Path, tmp_path: Path) -> None:
    model = ScriptedModel(lambda prompt: {"cards": []} if prompt.stage == "extract" else {})
    benchmark = load("locomo", data)
    case = benchmark.cases[0]
    session = benchmark.history(case.history).sessions[0]
    async with justmem.open_async(
        "x", folder=tmp_path, model=model, embedder="justmem.testing:HashEmbedder", reranker="none"
    ) as memory:
        await memory.remember(session)
        await memory.recall(case.question.text, at=case.question.at)
    real = {p.stage: count(p.system) + count(p.user) for p in model.prompts}
    asked = count(case.question.text)
    assert real["extract"] == pytest.approx(estimate.EXTRACTING + estimate.spoken(session), rel=0.2)
    assert real["plan"] == pytest.approx(estimate.PLANNING + asked, rel=0.2)
