"""doctor, models: the settings, the space and the local models, with a fix for what is wrong."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from justmem.cli import render
from justmem.cli.context import Exit, settings, spaces, with_store
from justmem.cli.options import GROUP, argument, flag
from justmem.cli.terminal import amount, plain, show, show_download
from justmem.config import Settings, providers
from justmem.config.opening import keyring
from justmem.errors import InvalidSetting, JustMemError, StoreError, WeightsUnavailable
from justmem.models import weights
from justmem.runtime import private_files
from justmem.runtime.addresses import shown_url

if TYPE_CHECKING:
    from justmem.ports import Prompt

CheckState = Literal["ok", "note", "wrong"]
_MARKS = {"ok": "✓", "note": "·", "wrong": "✗"}
_SHOWN = 20  # files that others can read


class Check(NamedTuple):
    state: CheckState
    what: str
    fix: str = ""


def doctor(
    offline: bool = flag("Do not send a request to the language model.", "--offline"),
) -> None:
    """Check the settings and show how to fix what is wrong.

    Exits with 2 if something is wrong. If a language model is set, one tiny request is sent to it.
    """
    found = settings()
    checks = list(_checks(found, online=not (offline or found.offline)))
    show([check._asdict() for check in checks], lambda _: "\n".join(map(_line, checks)))
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(Exit.INPUT)


def _line(check: Check) -> str:
    fix = f"\n  → {plain(check.fix, one_line=True)}" if check.fix else ""
    return f"{_MARKS[check.state]} {plain(check.what, one_line=True)}{fix}"


def _checks(settings: Settings, *, online: bool) -> Iterator[Check]:
    from justmem.integrations import hooks

    source = f"settings from {settings.file}" if settings.file else "no justmem.toml: the defaults"
    yield Check("ok", f"{source}; profile {settings.profile}")
    if settings.store is None:
        yield _folder(settings)
        yield from _permissions(settings)
    else:
        yield Check("ok", "spaces are kept in a PostgreSQL database")
    yield _space(settings)
    for name in _local(settings):
        yield _weights(name, settings)
    for spec in dict.fromkeys(settings.stage(s) for s in ("extractor", "planner", "answerer")):
        yield _model(spec, settings, online=online)
    if str(settings.embedder).startswith("openai:"):
        yield _embedder(settings)
    for name, run in hooks.last_runs(settings.folder).items():
        what, failed = f"the hook {name} ran last on {run.get('at')}", run.get("error")
        yield Check("wrong", what, f"it failed: {failed}") if failed else Check("ok", what)


def _folder(settings: Settings) -> Check:
    folder = settings.folder
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not nearest.is_dir():
        return Check("wrong", f"{nearest} is a file", "set JUSTMEM_FOLDER to a folder")
    try:
        with tempfile.TemporaryFile(dir=nearest):
            return Check("ok", f"spaces are kept in {folder}")
    except OSError as error:
        fix = "make it writable, or set JUSTMEM_FOLDER to another folder"
        return Check("wrong", f"{nearest} is not writable: {error.strerror}", fix)


def _permissions(settings: Settings) -> Iterator[Check]:
    """The files that others on this machine can read."""
    paths = [settings.folder, *sorted(settings.folder.glob("*"))]
    if settings.key_file is not None:
        name = settings.key_file.name.replace("{space}", "*")
        paths += sorted(settings.key_file.parent.glob(name))
    readable = [path for path in paths if path.exists() and private_files.is_open(path)]
    for path in readable[:_SHOWN]:
        mode = "u=rwX,go=" if path.is_dir() else "600"
        yield Check("note", f"others on this machine can read {path}", f"chmod {mode} '{path}'")


def _space(settings: Settings) -> Check:
    try:
        if settings.space not in asyncio.run(spaces(settings)):
            return Check("ok", f"the space {settings.space!r} does not exist yet")
        stats = with_store(lambda store: store.metadata()).stats
    except (StoreError, InvalidSetting) as error:
        return Check("wrong", f"the space {settings.space!r} does not open", str(error))
    sessions = amount(sum(stats.sessions.values()), "session")
    encrypted = ", encrypted" if keyring(settings) else ""
    what = f"the space {settings.space!r} opens: {amount(stats.cards, 'card')} of {sessions}"
    return Check("ok", what + encrypted)


def _weights(name: str, settings: Settings) -> Check:
    if _present(name, settings):
        return Check("ok", f"weights of {name} are downloaded")
    if settings.offline:
        fix = f"copy them into {settings.models_folder}, or turn offline off"
        return Check("wrong", f"weights of {name} are missing", fix)
    return Check("note", f"weights of {name} are downloaded when first used", "justmem models pull")


def _model(spec: Any, settings: Settings, *, online: bool) -> Check:
    if spec == "rules":
        fix = "for better answers set a model: JUSTMEM_MODEL=openai:NAME or openai:NAME@URL"
        return Check("note", "no language model is set: rules extract, plan and answer", fix)
    name = f"the model {shown_url(str(spec))}"
    if not str(spec).startswith("openai:"):
        return Check("ok", f"{name} is set")
    try:
        model = providers.build_model(spec, settings)
        if model is not None and online:
            asyncio.run(model.complete(_ping()))
            return Check("ok", f"{name} answers")
    except JustMemError as error:
        return Check("wrong", f"{name} cannot be used", str(error))
    return Check("note", f"{name} is set, not tried", "run justmem doctor without --offline")


def _ping() -> Prompt:
    from justmem.ports import Prompt

    ok = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    schema = {**ok, "required": ["ok"], "additionalProperties": False}
    return Prompt("plan", 'Reply with {"ok": true}.', "ping", schema=schema, max_tokens=20)


def _embedder(settings: Settings) -> Check:
    name = f"the embedder {shown_url(settings.embedder)}"
    try:
        providers.build_embedder(settings.embedder, settings, None)
    except JustMemError as error:
        return Check("wrong", f"{name} cannot be used", str(error))
    return Check("ok", f"{name} is set")


# ---------------------------------------------------------------- models

models = typer.Typer(help="List local models, download their weights.", **GROUP)


@models.command("list")
def models_list() -> None:
    """List the local models and whether their weights are downloaded."""
    found = settings()
    rows = [
        {
            "name": model.name,
            "use": model.use,
            "licence": model.licence,
            "megabytes": round(model.source[0].bytes / 1e6),
            "downloaded": "yes" if _present(model.name, found) else "no",
        }
        for model in weights.manifest().values()
    ]
    show(rows, render.table)


@models.command("pull")
def models_pull(
    names: list[str] | None = argument("Default: the models in the settings.", None),
) -> None:
    """Download weights and check their hashes."""
    found = settings()
    folders = {
        name: str(weights.ensure(name, folder=found.models_folder, report=show_download))
        for name in names or _local(found)
    }
    show(folders, lambda _: "\n".join(f"{name} is in {path}" for name, path in folders.items()))


def _local(settings: Settings) -> list[str]:
    """The local models that the settings name."""
    named = (settings.embedder, settings.reranker)
    return [spec[5:] for spec in named if isinstance(spec, str) and spec.startswith("onnx:")]


def _present(name: str, settings: Settings) -> bool:
    try:
        weights.ensure(name, folder=settings.models_folder, offline=True)
    except WeightsUnavailable:
        return False
    return True
