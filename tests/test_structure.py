"""The layers hold, and `import justmem` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import justmem

ROOT = Path(justmem.__file__).parent

# A module may import what stands to its left or in its own group. `None`: anything in justmem.
LAYERS: list[set[str]] = [
    {"errors", "domain", "runtime", "text"},
    {"validation", "language", "ports", "prompts", "server_settings"},
    {"tokens", "rank", "intake", "transcripts"},
    {"budget", "subjects"},
    {"extract", "embed", "plan", "answer", "store", "models", "testing", "pending"},
    {"transfer", "retrieve", "build", "forget"},
    {"memory"},
    {"sync"},
    {"providers", "config"},
    {"opening"},
    {"integrations"},
    {"server"},
    {"cli", "demo"},
]
HEAVY = ("openai", "onnxruntime", "tokenizers", "bpe_openai", "httpx", "rich", "typer")


def modules() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in ROOT.rglob("*.py"):
        top = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if top != "__init__":
            found.setdefault(top, []).append(path)
    return found


def imports(path: Path) -> set[str]:
    """The parts of justmem that a file imports, wherever in it. Imports for type checking alone
    do not count."""
    tree = ast.parse(path.read_text())
    guarded = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("justmem"):
            names = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            found.update(names)
        elif isinstance(node, ast.Import):
            found.update(
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith("justmem.")
            )
    return found


def test_imports_go_one_way() -> None:
    level = {name: depth for depth, names in enumerate(LAYERS) for name in names}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for top, paths in modules().items()
        for path in paths
        for name in imports(path)
        if name in level and top in level and level[name] > level[top]
    ]
    # `Evidence.prompt` leads to its text, which is loaded when it is called.
    assert wrong == ["domain/questions.py imports answer"]


def test_every_module_has_its_layer() -> None:
    assert set(modules()) == set().union(*LAYERS)


def test_stores_and_models_know_only_the_domain_and_the_ports() -> None:
    allowed = {"domain", "errors", "runtime", "validation", "ports", "tokens"}
    allowed |= {"language", "text", "store", "models"}  # `language` for its stemmer
    for top in ("store", "models"):
        for path in modules()[top]:
            assert imports(path) <= allowed, path


def test_nothing_imports_the_evaluation() -> None:
    for paths in modules().values():
        for path in paths:
            assert "justmem_eval" not in path.read_text()


def test_importing_justmem_loads_no_model_library() -> None:
    code = f"import justmem, sys; print([n for n in {HEAVY} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_config_reads_the_environment() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for paths in modules().values()
        for path in paths
        if "os.environ" in path.read_text() or "getenv" in path.read_text()
    ]
    # models/onnx.py switches a library's telemetry off, by the variable that library reads.
    assert sorted(readers) == ["config.py", "models/onnx.py"]


def test_nothing_in_the_core_reads_the_clock() -> None:
    """Only callers may ask what time it is: the command line and the integrations."""
    for top, paths in modules().items():
        for path in paths:
            text = path.read_text()
            if top not in ("cli", "demo", "integrations"):
                assert ".now()" not in text, path
                assert "date.today()" not in text, path
                assert "time.time()" not in text, path


def named_languages(source: str) -> list[str]:
    """The modules of a particular language that some code imports."""
    found = [
        alias if isinstance(node, ast.Import) else f"{node.module}.{alias}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in [each.name for each in node.names]
    ]
    return [name for name in found if name.startswith("justmem.language.en")]


def test_only_the_language_package_and_opening_name_a_language() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for top, paths in modules().items()
        for path in paths
        if top != "language"
        for name in named_languages(path.read_text())
    ]
    assert wrong == []


def test_an_import_of_a_particular_language_is_seen() -> None:
    assert named_languages("from justmem.language.en import dates")
    assert named_languages("from justmem.language import en")
    assert named_languages("def late():\n    import justmem.language.en.dates")
    assert not named_languages("from justmem.language.languages import LANGUAGES")
