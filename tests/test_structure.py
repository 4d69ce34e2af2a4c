"""The layers of the package, and what `import justmem` loads.

Each check is a function of source texts, so that a test can plant a violation and see it found.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import justmem
from justmem.language.words import is_stop

ROOT = Path(justmem.__file__).parent
Sources = Mapping[str, str]  # the text of each file, by its path in the package

# A module or package imports only from the lines above its own. So stages never import each other.
LAYERS: list[set[str]] = [
    {"errors"},
    {"domain"},
    {"runtime"},
    {"prompts"},
    {"ports"},
    {"language", "intake", "budget"},
    {"store", "models", "rank", "subjects", "testing"},
    {"memory_parts"},
    {"extract", "vectors", "edits"},  # the stages of remember
    {"plan", "retrieve", "original_turns", "answer"},  # the stages of ask
    {"build", "forget", "transfer", "transcripts"},
    {"stored_memory"},
    {"memory"},
    {"sync"},
    {"config"},
    {"spaces"},
    {"integrations"},
    {"server"},
    {"cli", "demo"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Engines and providers know the ports and what the ports are made of.
ADAPTERS = {"store", "models"}
BASE = {"errors", "domain", "runtime", "ports"}
PROMPT = ("domain/asking.py", "prompts")  # `Evidence.prompt` calls it by a late import
STEMMER = ("store/terms.py", "language")  # the word index holds stems

# Only these name an engine, a provider or a human language.
CONCRETE = {"store", "models", "language.en"}
MAY_NAME_CONCRETE = {"config", "cli", "server"}
HEAVY = ("openai", "onnxruntime", "tokenizers", "bpe_openai", "httpx", "rich", "typer")


def sources() -> dict[str, str]:
    return texts(ROOT, ROOT)


def texts(folder: Path, base: Path) -> dict[str, str]:
    """The text of each Python file in the folder, by its path in `base`."""
    return {str(path.relative_to(base)): path.read_text() for path in folder.rglob("*.py")}


def top(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def imports(source: str) -> Iterator[str]:
    """The dotted names inside justmem that a text imports, wherever in it. Imports for type
    checking alone do not count."""
    tree = ast.parse(source)
    guarded = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if node in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("justmem.") for name in names if name.startswith("justmem."))


def upward(files: Sources) -> list[str]:
    """Imports from the same line of LAYERS or from a later one."""
    return [
        f"{file} imports {name}"
        for file, source in files.items()
        if top(file) in LEVEL
        for name in imports(source)
        if (part := name.split(".")[0]) != top(file)
        and LEVEL.get(part, -1) >= LEVEL[top(file)]
        and (file, part) != PROMPT
    ]


def adapter_imports(files: Sources) -> list[str]:
    """Imports of a store or a model from more than the base."""
    return [
        f"{file} imports {name}"
        for file, source in files.items()
        if top(file) in ADAPTERS
        for name in imports(source)
        if (part := name.split(".")[0]) not in BASE | {top(file)} and (file, part) != STEMMER
    ]


def concrete(files: Sources) -> list[str]:
    """Imports of an implementation from outside of `config` and the surfaces."""
    return [
        f"{file} imports {name}"
        for file, source in files.items()
        if top(file) not in MAY_NAME_CONCRETE
        for name in imports(source)
        for part in CONCRETE
        if (name == part or name.startswith(f"{part}.")) and top(file) != part.split(".")[0]
    ]


CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time")}


def clocks(files: Sources) -> list[str]:
    """Places that name a clock of the machine, called or not. `time.perf_counter` measures how
    long something took, and is no clock in this sense."""
    return [
        f"{file}:{node.lineno}"
        for file, source in files.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and (getattr(node.value, "id", getattr(node.value, "attr", "")), node.attr) in CLOCKS
    ]


# File formats, error messages of other programs and redaction have English words of their own.
MAY_HOLD_ENGLISH = {"language", "transcripts", "models", "store", "intake"}


def english_patterns(files: Sources) -> list[str]:
    """Regular expressions with an English stop word, in code that knows no human language."""
    return [
        f"{file}:{node.lineno}"
        for file, source in files.items()
        if top(file) not in MAY_HOLD_ENGLISH
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(getattr(node.func, "value", 0), "id", "") == "re"
        for part in ast.walk(node)
        if isinstance(part, ast.Constant)
        and any(map(is_stop, re.findall(r"(?<![\\\w])[a-z]{2,}", str(part.value))))
    ]


# `store/store.py` implements `ports/store.py`. `store/memory.py` is the store in memory.
SHARED_NAMES = {"__init__", "store", "memory"}


def repeated_names(files: Iterable[str]) -> set[str]:
    """Names that more than one module has: a traceback would not tell which one it is."""
    counts = Counter(Path(file).stem for file in files)
    return {name for name, count in counts.items() if count > 1} - SHARED_NAMES


def test_no_two_modules_have_the_same_name() -> None:
    assert repeated_names(sources()) == set()
    assert repeated_names([*sources(), "server/rank.py"]) == {"rank"}


def test_imports_go_one_way() -> None:
    assert upward(sources()) == []


def unnamed(files: Sources) -> list[str]:
    """Modules and packages that the docstring of their package does not name."""
    docstrings = {
        file.removesuffix("__init__.py"): set(re.findall(r"\w+", ast.get_docstring(tree) or ""))
        for file, source in files.items()
        if file.endswith("/__init__.py") and (tree := ast.parse(source))
    }
    modules = {file.removesuffix("/__init__.py").removesuffix(".py") for file in files}
    return sorted(
        module
        for module in modules
        for package, name in [(f"{Path(module).parent}/", Path(module).name)]
        if package in docstrings and not name.startswith("__") and name not in docstrings[package]
    )


def test_a_package_says_what_its_modules_contain() -> None:
    assert unnamed(sources()) == []
    evaluation = ROOT.parent / "justmem_eval"
    assert unnamed(texts(evaluation, evaluation.parent)) == []
    assert unnamed({**sources(), "models/voice.py": ""}) == ["models/voice"]


def test_the_source_map_names_every_module() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    named = set(re.findall(r"\w+", readme.partition("## Source map")[2]))
    assert {top(file) for file in sources()} - {"__init__"} <= named


def test_every_module_has_one_layer() -> None:
    assert {top(file) for file in sources()} - {"__init__"} == set(LEVEL)
    assert sum(map(len, LAYERS)) == len(LEVEL)


def test_stores_and_models_know_only_the_ports() -> None:
    assert adapter_imports(sources()) == []


def test_only_config_and_the_surfaces_name_implementations() -> None:
    assert concrete(sources()) == []


def test_the_core_reads_no_clock() -> None:
    """Callers pass one. The command line and the integrations are callers, and memory_parts.py
    names the default."""
    callers = {"cli", "integrations"}
    found = {place.split(":")[0] for place in clocks(sources())}
    assert {file for file in found if top(file) not in callers} == {"memory_parts.py"}


def test_only_language_has_patterns_of_english() -> None:
    assert english_patterns(sources()) == []


@pytest.mark.parametrize(
    ("check", "file", "planted"),
    [
        (upward, "plan.py", "from justmem.answer import model"),
        (upward, "plan.py", "def late():\n    import justmem.retrieve"),
        (upward, "domain/cards.py", "from justmem import ports"),
        (upward, "original_turns.py", "from justmem.memory import AsyncMemory"),
        (adapter_imports, "store/rows.py", "from justmem.language import words"),
        (adapter_imports, "models/onnx.py", "from justmem.budget import Tally"),
        (concrete, "memory.py", "from justmem.store.sqlite import open_store"),
        (concrete, "retrieve.py", "from justmem.language import en"),
        (concrete, "forget.py", "def late():\n    import justmem.language.en.dates"),
        (english_patterns, "original_turns.py", "import re\n\nPAST = re.compile(r'\\bused to\\b')"),
        (clocks, "plan.py", "def plan(clock=datetime.now): ..."),
        (clocks, "plan.py", "import time\n\nmade = time.time()"),
        (clocks, "plan.py", "import datetime\n\nmade = datetime.datetime.now(None)"),
    ],
)
def test_a_planted_violation_is_found(check, file: str, planted: str) -> None:  # type: ignore[no-untyped-def]
    source = (ROOT / file).read_text()
    before = check({file: source})
    assert len(check({file: f"{source}\n{planted}\n"})) == len(before) + 1


def test_nothing_imports_the_evaluation() -> None:
    assert [file for file, source in sources().items() if "justmem_eval" in source] == []


def test_importing_justmem_loads_no_model_library() -> None:
    code = f"import justmem, sys; print([n for n in {HEAVY} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_config_reads_the_environment() -> None:
    readers = [file for file, text in sources().items() if "os.environ" in text or "getenv" in text]
    # models/onnx.py switches a library's telemetry off, by the variable that library reads.
    assert sorted(readers) == ["config/__init__.py", "models/onnx.py"]
