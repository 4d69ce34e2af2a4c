"""Builds the object for a name like `openai:gpt-4.1-mini`.

    rules                        no model: our own rules
    none                         no reranker
    openai:NAME                  OpenAI
    openai:NAME@URL              any server with the same protocol
    onnx:NAME                    a local model; its weights are downloaded once
    secrets                      the built-in redaction
    package.module:attribute     your own object, or a callable that returns it

An object may be given instead of a name. A provider is imported when it is used.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from justmem.errors import InvalidSetting
from justmem.runtime.addresses import is_openai, shown_url
from justmem.runtime.validation import describe

if TYPE_CHECKING:
    from pathlib import Path

    from justmem.config import Settings
    from justmem.intake.redaction import Redact
    from justmem.models.http_client import HttpOptions
    from justmem.ports import Embedder, LanguageModel, Reranker

Part = Literal["model", "embedder", "reranker", "redaction"]
# Called with the name and the bytes of a download that begins.
Report = Callable[[str, int], None]

_FORMS: dict[Part, tuple[str, ...]] = {
    "model": ("rules", "openai:NAME", "openai:NAME@URL"),
    "embedder": ("onnx:NAME", "openai:NAME", "openai:NAME@URL"),
    "reranker": ("none", "onnx:NAME"),
    "redaction": ("none", "secrets"),
}
FORMS = {part: f"{', '.join(forms)} or package.module:attribute" for part, forms in _FORMS.items()}
_SCHEMES = {form.partition(":")[0] for forms in _FORMS.values() for form in forms}
_NAME_AT_URL = re.compile(r"(?P<name>@?[^@\s]+)(?:@(?P<url>https?://\S+))?")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed name. `scheme` is `rules`, `none`, `openai`, ... or `object`."""

    scheme: str
    name: str = ""
    url: str | None = None


def parse(text: str, part: Part) -> Spec:
    """Raises InvalidSetting, naming the valid forms."""
    text = text.strip()
    scheme, colon, rest = text.partition(":")
    if not colon and text in _FORMS[part]:
        return Spec(text)
    match = _NAME_AT_URL.fullmatch(rest.strip())
    if match and f"{scheme}:NAME{'@URL' if match['url'] else ''}" in _FORMS[part]:
        return Spec(scheme, match["name"], match["url"])
    if scheme not in _SCHEMES and _PATH.fullmatch(text):
        return Spec("object", text)
    hint = " URL begins with http:// or https://." if "@" in text else ""
    raise InvalidSetting(
        f"{describe(shown_url(text))} does not name a {part}: write {FORMS[part]}.{hint}"
    )


def _named(value: Any, part: Part) -> Spec | None:
    """None for the user's own object, itself or named by its path."""
    spec = parse(value, part) if isinstance(value, str) else None
    return None if spec and spec.scheme == "object" else spec


# ---------------------------------------------------------------- building


def build_model(value: Any, settings: Settings) -> LanguageModel | None:
    """None for `rules`."""
    model: LanguageModel | None = build_stage(value, "complete", settings, {})
    return model


def build_stage(
    value: Any, method: str, settings: Settings, built: dict[str, LanguageModel | None]
) -> Any:
    """The user's own stage, a model for our stage, or None for the rules. `built` caches models, so
    that stages with the same name share one."""
    spec = _named(value, "model")
    if spec is None:
        return _own(value, "model", method, "complete")
    if value not in built:
        built[value] = None if spec.scheme == "rules" else _openai_model(spec, settings)
    return built[value]


def _openai_model(spec: Spec, settings: Settings) -> LanguageModel:
    from justmem.models.openai import OpenAIModel

    context = {} if settings.context is None else {"context": settings.context}
    return OpenAIModel(spec.name, **context, **_http_options(spec, settings))


def _http_options(spec: Spec, settings: Settings) -> HttpOptions:
    """For a model or an embedder on a server."""
    made: HttpOptions = {"base_url": spec.url, "api_key": key_for(spec, settings)}
    if settings.timeout is not None:
        made["timeout"] = settings.timeout
    return made


def key_for(spec: Spec, settings: Settings) -> str | None:
    """The key for the server of `spec`. Only OpenAI gets the key in OPENAI_API_KEY, and needs one.
    Other servers get the configured key, or none."""
    openai = is_openai(spec.url)
    key = settings.api_key or (settings.openai_key if openai else None)
    if key is None and openai:
        raise InvalidSetting(
            f"openai:{spec.name} needs a key: set the environment variable OPENAI_API_KEY."
        )
    return key.get_secret_value() if key else None


def build_embedder(value: Any, settings: Settings, report: Report | None) -> Embedder:
    spec = _named(value, "embedder")
    if spec is None:
        return cast("Embedder", _own(value, "embedder", "embed"))
    if spec.scheme == "onnx":
        from justmem.models.onnx import OnnxEmbedder

        return OnnxEmbedder(spec.name, _weights(spec.name, settings, report))
    from justmem.models.openai import OpenAIEmbedder

    dim = settings.dimensions or _DIMENSIONS.get(spec.name)
    if dim is None:
        raise InvalidSetting(f"The vector length of {spec.name} is unknown: set dimensions.")
    return OpenAIEmbedder(spec.name, dim=dim, **_http_options(spec, settings))


def _weights(name: str, settings: Settings, report: Report | None) -> Callable[[], Path]:
    """Finds the weights when they are first needed, and downloads them if they are missing."""
    from justmem.models import weights

    return partial(
        weights.ensure,
        name,
        folder=settings.models_folder,
        offline=settings.offline,
        report=report,
    )


def build_reranker(value: Any, settings: Settings, report: Report | None) -> Reranker | None:
    spec = _named(value or "none", "reranker")
    if spec is None:
        return cast("Reranker", _own(value, "reranker", "rerank"))
    if spec.scheme == "none":
        return None
    from justmem.models.onnx import OnnxReranker

    return OnnxReranker(spec.name, _weights(spec.name, settings, report))


def build_redaction(value: Any) -> Redact | None:
    spec = _named(value or "none", "redaction")
    if spec is not None:
        from justmem.intake.redaction import secrets

        return None if spec.scheme == "none" else secrets
    found = _attribute(value.strip(), "redaction") if isinstance(value, str) else value
    found = _called(found, str(value)) if isinstance(found, type) else found
    if not callable(found):
        raise InvalidSetting(f"redact must be a function from text to text, not {describe(value)}.")
    return cast("Redact", found)


def _own(value: Any, part: Part, *methods: str) -> Any:
    """The user's object: itself, or named by its path. It has one of the methods. A path may also
    name a function or class that returns the object."""

    def usable(found: Any) -> bool:
        return not isinstance(found, type) and any(hasattr(found, name) for name in methods)

    found = value
    if isinstance(value, str):
        found = _attribute(value.strip(), part)
        if callable(found) and not usable(found):
            found = _called(found, value)
    if not usable(found):
        raise InvalidSetting(
            f"{describe(value)} cannot be the {part}: it has no method {methods[-1]!r} "
            "(see justmem.ports)."
        )
    return found


def _called(found: Any, path: str) -> Any:
    try:
        return found()
    except Exception as error:  # of the user's code
        raise InvalidSetting(f"{path!r} cannot be called without arguments: {error!r}.") from error


def _attribute(path: str, part: Part) -> Any:
    module_name, _, attributes = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidSetting(
            f"{path!r} cannot be imported ({error}). A {part} is named as {FORMS[part]}."
        ) from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise InvalidSetting(f"{path!r}: {module_name} has no {attribute!r}.")
        found = getattr(found, attribute)
    return found
