"""doctor, models: the settings, the space and the local models, with a fix for what is wrong."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Any, Literal, NamedTuple

import typer

from justmem.cli import render
from justmem.cli.context import Exit, Json, opened, settings, spaces
from justmem.cli.terminal import amount, plain, show, show_download
from justmem.config import KEY_VARIABLE, Settings, providers
from justmem.config.opening import keyring
from justmem.edits.change_log import check as check_log
from justmem.errors import InvalidSetting, JustMemError, StoreError, WeightsUnavailable
from justmem.integrations import hooks
from justmem.models import weights
from justmem.ports import Prompt, Store
from justmem.runtime import private_files
from justmem.runtime.addresses import shown_url
from justmem.store import files

State = Literal["ok", "note", "wrong"]
_MARKS = {"ok": "✓", "note": "·", "wrong": "✗"}
_SHOWN = 20  # names in a line


class Check(NamedTuple):
    state: State
    what: str
    fix: str = ""


def doctor(
    online: Annotated[
        bool, typer.Option("--online/--offline", help="Send the model a tiny request.")
    ] = True,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read the whole space and check that it is consistent.")
    ] = False,
    json: Json = False,
) -> None:
    """Check the settings and the space, and show how to fix what is wrong.

    Exits with 2 if something is wrong. If a language model is set, one tiny request is sent to it.
    """
    found = settings()
    checks = list(_checks(found, online and not found.offline, deep))
    show([check._asdict() for check in checks], json, lambda _: "\n".join(map(_line, checks)))
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(Exit.INPUT)


def _line(check: Check) -> str:
    fix = f"\n  → {plain(check.fix, one_line=True)}" if check.fix else ""
    return f"{_MARKS[check.state]} {plain(check.what, one_line=True)}{fix}"


def _checks(settings: Settings, online: bool, deep: bool) -> Iterator[Check]:
    source = f"settings from {settings.file}" if settings.file else "no justmem.toml: the defaults"
    yield Check("ok", f"{source}; profile {settings.profile}")
    yield _folder(settings)
    try:
        yield from asyncio.run(_space(settings, deep))
    except (StoreError, InvalidSetting) as error:
        yield Check("wrong", f"the space {settings.space!r} does not open", str(error))
    if settings.store is None:
        yield from _encryption(settings)
        yield from _permissions(settings)
    for name in _configured(settings):
        yield _weights(name, settings)
    models = dict.fromkeys(str(settings.stage(s)) for s in ("extractor", "planner", "answerer"))
    for name in dict.fromkeys([*models, str(settings.embedder)]):
        if name.startswith("openai:"):
            yield _key(name, settings)
    for name in models:
        yield _model(name, settings, online)
    for name, run in hooks.last_runs(settings.folder).items():
        what, failed = f"the hook {name} ran last on {run.get('at')}", run.get("error")
        yield Check("wrong", what, f"it failed: {failed}") if failed else Check("ok", what)


def _folder(settings: Settings) -> Check:
    if settings.store is not None:
        return Check("ok", "spaces are kept in a PostgreSQL database")
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


async def _space(settings: Settings, deep: bool) -> list[Check]:
    if settings.space not in await spaces(settings):
        return [Check("ok", f"the space {settings.space!r} does not exist yet")]
    async with opened(settings) as store:
        stats = await store.stats()
        sessions = amount(sum(stats.sessions.values()), "session")
        what = f"{amount(stats.cards, 'card')} of {sessions}"
        opens = Check("ok", f"the space {settings.space!r} opens: {what}")
        return [opens, *(await _deep(store) if deep else ())]


async def _deep(store: Store) -> list[Check]:
    found = await store.check()
    checks = [Check("wrong", each.what, each.fix) for each in found.damage]
    if found.sound:
        checks.append(Check("ok", "the stored words are unchanged, and cards and index fit them"))
    log = await check_log(store)
    if log.whole:
        checks.append(Check("ok", f"the change log is complete: {amount(log.entries, 'entry')}"))
    else:
        fix = "somebody edited it, or the file is damaged: check who can write to it"
        checks.append(Check("wrong", f"the change log was changed: {log.problem}", fix))
    return checks


def _encryption(settings: Settings) -> Iterator[Check]:
    """Which spaces are encrypted. None is opened."""
    found: dict[str, list[str]] = {"locked": [], "plain": []}
    for path in sorted(settings.folder.glob("*" + files.SUFFIX)):
        try:
            found.setdefault(files.raw(path).kind, []).append(path.stem)
        except (StoreError, FileNotFoundError):
            continue
    locked, unlocked, keys = found["locked"], found["plain"], keyring(settings)
    if locked:
        yield Check("ok", f"encrypted: {_listed(locked)}")
    if unlocked and keys is not None:
        fix = "make encrypted copies with justmem copy, or remove the key from the settings"
        what = f"a key is set, but these spaces are not encrypted: {_listed(unlocked)}"
        yield Check("wrong", what, fix)
    elif unlocked:
        yield Check("ok", f"not encrypted: {_listed(unlocked)}")
    if locked and keys is None:
        yield Check("note", "no key is set", f"set key_file or {KEY_VARIABLE} to open them")
    if (locked or keys is not None) and find_spec("sqlcipher3") is None:
        yield Check("wrong", "SQLCipher is not installed", "pip install 'justmem[encryption]'")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


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


def _weights(name: str, settings: Settings) -> Check:
    if _present(name, settings):
        return Check("ok", f"weights of {name} are downloaded")
    if settings.offline:
        fix = f"copy them into {settings.models_folder}, or turn offline off"
        return Check("wrong", f"weights of {name} are missing", fix)
    return Check("note", f"weights of {name} are downloaded when first used", "justmem models pull")


def _key(name: str, settings: Settings) -> Check:
    shown, variable = shown_url(name), settings.api_key_env
    if providers.key_for(providers.parse(name, "model"), settings) is not None:
        return Check("ok", f"a key for {shown} is set")
    if "@http" in name:
        fix = f"set {variable}" if variable else "name its variable with api_key_env"
        return Check("note", f"no key for {shown}", f"if its server needs one, {fix}")
    fix = f"set the environment variable {variable or 'OPENAI_API_KEY'}"
    return Check("wrong", f"no key for {shown}", fix)


def _model(spec: str, settings: Settings, online: bool) -> Check:
    name = f"the model {shown_url(spec)}"
    if spec == "rules":
        fix = "for better answers set a model: JUSTMEM_MODEL=openai:NAME or openai:NAME@URL"
        return Check("note", "no language model is set: rules extract, plan and answer", fix)
    if not spec.startswith("openai:"):
        return Check("ok", f"{name} is set")
    if not online:
        return Check("note", f"{name} is set, not tried", "justmem doctor --online")
    try:
        asyncio.run(_ping(spec, settings))
    except JustMemError as error:
        return Check("wrong", f"{name} does not answer", str(error))
    return Check("ok", f"{name} answers")


async def _ping(spec: str, settings: Settings) -> None:
    model = providers.build_model(spec, settings)
    assert model is not None
    schema: dict[str, Any] = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    schema |= {"required": ["ok"], "additionalProperties": False}
    system = 'Reply with the JSON object {"ok": true}.'
    await model.complete(Prompt("plan", system=system, user="ping", schema=schema, max_tokens=20))


# ---------------------------------------------------------------- models

models = typer.Typer(
    help="List local models, download their weights.", no_args_is_help=True, rich_markup_mode=None
)


@models.command("list")
def models_list(json: Json = False) -> None:
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
    show(rows, json, render.table)


@models.command("pull")
def models_pull(
    names: Annotated[
        list[str] | None, typer.Argument(help="Default: the models in the settings.")
    ] = None,
    json: Json = False,
) -> None:
    """Download weights and check their hashes."""
    found = settings()
    home, mirror = found.models_folder, found.models_mirror
    folders = {
        name: str(weights.ensure(name, folder=home, mirror=mirror, report=show_download()))
        for name in names or _configured(found)
    }
    lines = [f"{name} is in {folder}" for name, folder in folders.items()]
    show(folders, json, lambda _: "\n".join(lines))


def _configured(settings: Settings) -> list[str]:
    """The local models that the settings name."""
    named = (settings.embedder, settings.reranker)
    return [spec[5:] for spec in named if isinstance(spec, str) and spec.startswith("onnx:")]


def _present(name: str, settings: Settings) -> bool:
    try:
        weights.ensure(name, folder=settings.models_folder, offline=True)
    except WeightsUnavailable:
        return False
    return True
