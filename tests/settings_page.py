"""docs/settings.md, made from the descriptions in the code: `python tests/settings_page.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from justmem import config
from justmem.config import ServerSettings
from justmem.domain import Budget, Retention

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
DEFAULTS = {"folder": "your data folder", "models_folder": "your cache folder"}
VARIABLES = {name: variable for variable, name in config.ENVIRONMENT.items()}


def made() -> str:
    """The text before the first table is written by hand."""
    head = PAGE.read_text("utf-8").partition("\n## ")[0]
    tables = [
        ("Memory", "", config.Settings),
        ("Budget", "The table `[budget]`.", Budget),
        ("Retention", "The table `[retention]`. Without it nothing expires.", Retention),
        ("Server", "The table `[server]`.", ServerSettings),
    ]
    return head + "".join(_table(*each) for each in tables)


def _table(title: str, about: str, model: type[BaseModel]) -> str:
    lines = ["", f"## {title}", "", *([about, ""] if about else [])]
    lines += ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        if field.description is None:
            continue
        variable = VARIABLES.get(name) if model is config.Settings else None
        shown = f"`{name}`" + (f" (`{variable}`)" if variable else "")
        lines.append(f"| {shown} | {_default(name, field)} | {field.description} |")
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
