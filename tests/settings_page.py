"""docs/settings.md, made from the tables in the code: `python tests/settings_page.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from justmem.config.settings import TABLES, Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
DEFAULTS = {"folder": "your data folder", "models_folder": "your cache folder"}


def made() -> str:
    """The text before the first table is written by hand."""
    head = PAGE.read_text("utf-8").partition("\n## ")[0]
    tables = {"Memory": Settings} | {f"[{name}]": model for name, model in TABLES.items()}
    return head + "".join(_table(title, model) for title, model in tables.items())


def _table(title: str, model: type[BaseModel]) -> str:
    lines = ["", f"## {title}", "", "| setting | default | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {_default(name, field)} | {field.description} |"
        for name, field in model.model_fields.items()
        if field.description is not None and name not in TABLES
    ]
    return "\n".join(lines) + "\n"


def _default(name: str, field: FieldInfo) -> str:
    value: Any = field.default
    if name in DEFAULTS:
        return DEFAULTS[name]
    if value is None or isinstance(value, BaseModel | tuple) or field.default_factory is not None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"`{value}`"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    PAGE.write_text(made(), "utf-8")
