"""What the documentation says is so: its blocks run, its outputs are true, its lists are whole."""

from __future__ import annotations

import inspect
import re
import tomllib
from enum import Enum
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from typer.main import get_command

import justmem
import settings_page
from justmem import domain, errors, ports, testing
from justmem.cli import app
from justmem.cli.context import Exit
from justmem.config.settings import TABLES, Settings
from justmem.models import weights
from pages import PAGES, ROOT, bare, blocks, opened

EVERY = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (.+?) \|(.*)\|$", re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def prose(text: str) -> str:
    """Without the blocks, line numbers kept."""
    for block in reversed(list(blocks(text))):
        start, end = block.span
        text = text[:start] + "\n" * block.body.count("\n") + text[end:]
    return text


def rows(text: str) -> dict[str, str]:
    """The tables of a page: first column -> the rest."""
    return {match[1].strip("` "): match[2] for match in _ROW.finditer(text)}


def ticked(text: str) -> set[str]:
    return set(re.findall(r"`([^`\s]+)`", text))


# ---------------------------------------------------------------- blocks


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_the_blocks_of_a_page_run_and_show_what_they_print(path: Path) -> None:
    with opened(path) as opened_page:
        wrong = [shown for shown in opened_page.run() if not shown.same]
    for shown in wrong:
        place = f"{named(path)}, the block at line {shown.block.line}"
        assert bare(shown.actual) == bare(shown.expected), (
            f"{place}: python tests/pages.py writes it anew"
        )


@pytest.mark.parametrize("path", EVERY, ids=named)
def test_every_block_is_of_a_kind_that_is_checked(path: Path) -> None:
    kinds = {block.language for block in blocks(path.read_text("utf-8"))}
    # sh and sql are for a shell and a database of the reader's own, log for what a benchmark
    # printed.
    assert kinds <= {"python", "text", "console", "json", "toml", "sh", "sql", "log", ""}


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_commands_in_the_prose_exist(path: Path) -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    for command in re.findall(r"`justmem ([a-z][a-z-]*)", prose(path.read_text("utf-8"))):
        assert command in known


# ---------------------------------------------------------------- links and figures


def anchors(text: str) -> set[str]:
    """As GitHub makes them from headings."""
    titles = [re.sub(r"[`*]", "", title) for title in _HEADING.findall(prose(text))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", EVERY, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    for link in _LINK.findall(prose(path.read_text("utf-8"))):
        if link.startswith("https://"):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), f"{named(path)}: {link}"
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), f"{named(path)}: {link}"


def test_the_index_lists_every_page() -> None:
    listed = set(_LINK.findall(page("index.md")))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - listed == {"index.md"}


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=named)
def test_figures_of_performance_stand_only_where_a_command_prints_them(path: Path) -> None:
    figure = re.compile(
        r"\d[\d.,]*\s?(?:%|percent|ms|milliseconds?|seconds?|minutes?|[kMG]B|x\b|times|fold)",
    )
    if path.name == "HISTORY.md":  # lists what was published once
        return
    published = re.compile(r"<!-- figure: [^>]*-->[\d.,]+")  # compared with figures.json elsewhere
    text = published.sub("", prose(path.read_text("utf-8")))
    text = re.sub(r"## Sizing\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL)  # sums, not figures
    assert figure.findall(text) == []
    assert re.findall(r"\b(?:fastest|best-in-class|state of the art|blazing)\b", text.lower()) == []


@pytest.mark.parametrize("path", EVERY, ids=named)
def test_people_in_the_documentation_are_made_up(path: Path) -> None:
    """The benchmarks' people stay in the benchmarks."""
    theirs = "Caroline Melanie Gina Joanna Audrey Calvin Deborah Jolene"
    assert not set(theirs.split()) & set(re.findall(r"\w+", path.read_text("utf-8")))


# ---------------------------------------------------------------- lists that have to be whole


def test_the_glossary_has_the_words_of_the_domain() -> None:
    words = rows(page("glossary.md"))
    nouns = {
        name
        for name, value in vars(domain).items()
        if inspect.isclass(value)
        and value.__module__.startswith(domain.__name__)
        and issubclass(value, BaseModel | Enum)
    }
    literals = {"Role", "Kind", "Status", "Operation", "Precision", "Stage"}
    of_ports = {"View", "Language"} & set(vars(ports))
    assert set(words) - {"word", "---", "Space"} == (nouns - {"Value"}) | literals | of_ports


@pytest.mark.parametrize("word", ["Role", "Kind", "Status", "Operation", "Precision"])
def test_the_glossary_lists_every_value_of_a_word(word: str) -> None:
    listed = rows(page("glossary.md"))[word].split(";")[0].split(":")[0].split("|")[0]
    assert re.findall(r"[a-z]+", listed.replace(" or ", " ")) == list(get_args(vars(domain)[word]))


def test_the_error_page_draws_the_tree_of_the_code() -> None:
    tree = next(block.body for block in blocks(page("errors.md")) if "├" in block.body)
    drawn = inspect.cleandoc(errors.__doc__ or "")
    assert all(line.strip() in drawn for line in tree.splitlines())
    leaves = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert leaves <= set(re.findall(r"\w+", tree))
    roots = {"JustMemError", "InputError", "ModelError", "StoreError", "Refused"}
    told = {name for row in rows(page("errors.md")) for name in re.findall(r"[A-Z]\w+", row)}
    assert told == leaves - roots


def test_the_api_page_has_a_section_for_every_verb_and_names_every_value() -> None:
    text = page("api.md")
    verbs = {name for name in vars(justmem.AsyncMemory) if not name.startswith("_")} - {"space"}
    assert verbs | {"open", "open_async"} <= set(_HEADING.findall(prose(text)))
    assert set(justmem.__all__) <= set(re.findall(r"\w+", text))
    assert {"ScriptedModel", "HashEmbedder"} <= set(vars(testing)) & ticked(text)


@pytest.mark.parametrize("face", [justmem.Memory, justmem.AsyncMemory])
def test_the_api_page_gives_the_signatures_of_the_code(face: type) -> None:
    for name, arguments in re.findall(r"^`(\w+)\((.*?)\) -> ", page("api.md"), re.MULTILINE):
        code = inspect.signature(getattr(face, name))
        bare = [p.replace(annotation=p.empty) for p in code.parameters.values() if p.name != "self"]
        shown = str(inspect.Signature(bare))[1:-1]
        assert arguments == shown, name


def test_the_cli_page_has_every_command_option_and_exit_code() -> None:
    text = page("cli.md")
    root = get_command(app)
    assert set(root.commands) <= set(re.findall(r"`justmem ([a-z]+)", text))  # type: ignore[attr-defined]
    for option in (name for p in root.params for name in p.opts if name.startswith("--")):
        assert option == "--help" or option in text
    codes = [key for key in rows(text) if key.isdigit()]
    assert codes == [str(code.value) for code in Exit]


def test_the_settings_page_is_made_from_the_code() -> None:
    assert page("settings.md") == settings_page.made(), "run python tests/settings_page.py"


def test_every_setting_is_on_the_settings_page() -> None:
    silent = {n for n, field in Settings.model_fields.items() if field.description is None}
    assert silent == {"file", "openai_key"}
    for model in TABLES.values():
        assert all(field.description for field in model.model_fields.values())


def test_the_models_page_has_every_local_model_with_its_licence() -> None:
    table = rows(page("models.md"))
    for model in weights.manifest().values():
        if model.use != "chat":
            assert all(part in table[model.name] for part in (model.copy_of, model.licence))


def test_there_are_ten_direct_dependencies_and_no_torch_as_the_readme_says() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert len(needed) == 10
    assert not [name for name in needed if "torch" in name]


def test_the_map_in_the_readme_leads_to_what_is_there() -> None:
    tree = list(blocks((ROOT / "README.md").read_text("utf-8")))[-1].body
    places = re.findall(r"^  (\S+)", tree, re.MULTILINE)
    assert places
    package = ROOT / "src" / "justmem"
    for place in places:
        assert (package / place).exists(), place
    modules = {path.name for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert modules - {"__init__.py", "__pycache__"} == {place.rstrip("/") for place in places}
    for place in re.findall(r"^(\w\S*)", tree, re.MULTILINE):
        assert (ROOT / place).exists(), place
