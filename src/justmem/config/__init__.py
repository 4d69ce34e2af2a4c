"""Reads settings from the call, the environment and justmem.toml. No other module reads them.

Precedence: the call, the environment, the file, the profile, the defaults. A key in the
environment switches nothing on by itself.

The file is named with --config or JUSTMEM_CONFIG; otherwise it is the one in the user's
configuration folder. A file in the current folder is not read: it may come from somebody else.

settings         all settings with their types, defaults and descriptions
providers        a name such as `openai:gpt-4.1-mini` -> a model
opening          settings -> a Memory
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from justmem.config.settings import (
    ENVIRONMENT,
    KEYS,
    NAMES,
    PROFILES,
    TABLES,
    ServerSettings,
    Settings,
    user_folder,
)
from justmem.errors import InvalidSetting
from justmem.runtime.addresses import shown_url
from justmem.runtime.validation import as_path, describe

__all__ = ["CONFIG_VARIABLE", "ENVIRONMENT", "KEY_SOURCES", "ServerSettings", "Settings", "load"]

FILE = "justmem.toml"
CONFIG_VARIABLE = "JUSTMEM_CONFIG"
_OPENAI_KEY = "OPENAI_API_KEY"  # only OpenAI gets it
KEY_SOURCES = ("key", "key_file")
_PATHS = ("folder", "models_folder", "key_file")

Layers = list[tuple[str, dict[str, Any]]]  # where settings come from, and what they are there


def load(path: str | Path | None = None, **overrides: Any) -> Settings:
    """`path` is a justmem.toml. Overrides that are None count as not given."""
    file = _file(path)
    layers: Layers = [
        (str(file), _read(file) if file else {}),
        (
            "the environment",
            {name: value for variable, name in ENVIRONMENT.items() if (value := _value(variable))},
        ),
        ("the arguments", {name: value for name, value in overrides.items() if value is not None}),
    ]
    given: dict[str, Any] = {}
    for where, layer in layers:
        _refuse_unknown(layer, NAMES, where)
        sources = [name for name in KEY_SOURCES if name in layer]
        if len(sources) > 1:
            raise InvalidSetting(
                f"Both key and key_file are set in {where}: a space has one key, remove one."
            )
        if sources:  # a key replaces the keys in the layers below
            given = {name: value for name, value in given.items() if name not in KEY_SOURCES}
        given |= layer
    profile = given.get("profile", "default")
    if isinstance(profile, str):
        given = {**PROFILES.get(profile, {}), **given}
    key = _value(_OPENAI_KEY)
    try:
        return Settings(**given, file=file, openai_key=SecretStr(key) if key else None)
    except ValidationError as error:
        raise InvalidSetting(_sentence(error, layers)) from None


def _value(variable: str) -> str:
    """An empty variable counts as not set."""
    return os.environ.get(variable, "")


def _file(path: str | Path | None) -> Path | None:
    named = path or _value(CONFIG_VARIABLE)
    file = as_path(named) if named else user_folder("config", FILE)
    try:
        if file.is_file():
            return file
    except OSError as error:
        raise InvalidSetting(
            f"{file} cannot be read: {error.strerror}. Make its folder readable, or name "
            "another file with --config."
        ) from None
    if named:
        source = "--config" if path else CONFIG_VARIABLE
        raise InvalidSetting(f"There is no settings file {file} ({source} names it).")
    return None


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not valid TOML: {str(error)[:200]}.") from None
    except RecursionError:
        raise InvalidSetting(f"{file} is nested too deeply.") from None
    except OSError as error:
        raise InvalidSetting(f"{file} cannot be read: {error.strerror}.") from None
    for name in KEYS:
        if name in table:
            raise InvalidSetting(
                f"{file}: {name} does not belong in a file. Put the key into the environment "
                f"variable JUSTMEM_{name.upper()}."
            )
    for name in _PATHS:
        if isinstance(table.get(name), str):
            table[name] = str(file.parent / as_path(table[name]))
    return table


# ---------------------------------------------------------------- errors


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name, value in given.items():
        if name not in known:
            near = [each for each in known if each.startswith(str(name))]
            near += difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise InvalidSetting(f"Unknown setting {describe(name)} in {where}: {hint}")
        if name in TABLES and isinstance(value, Mapping):
            _refuse_unknown(value, [*TABLES[name].model_fields], f"the {name} of {where}")


def _sentence(error: ValidationError, layers: Layers) -> str:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    if location[0] not in TABLES:
        location = location[:1]  # the rest names a type of a union
    where = next((n for n, layer in reversed(layers) if location[0] in layer), "the profile")
    what = first["msg"].removeprefix("Value error, ")
    named = f"The setting {'.'.join(location)} in {where}"
    if first["type"] == "value_error":
        return f"{named}: {what}"
    if location[0] in KEYS:
        given = "this"
    else:
        value = first["input"]
        given = describe(shown_url(str(value)) if isinstance(value, str | BaseModel) else value)
    return f"{named} cannot be {given}: {what}."
