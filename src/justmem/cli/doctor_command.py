"""doctor: one line for each setting or part, with a fix for what is wrong."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.text import Text

from justmem import providers
from justmem.change_log import check as check_log
from justmem.cli import file_checks
from justmem.cli.context import Exit, Json, run_of
from justmem.cli.model_commands import configured, present
from justmem.cli.terminal import amount, out, plain, print_json
from justmem.config import Settings
from justmem.errors import InvalidSetting, JustMemError, StoreError
from justmem.integrations import hooks
from justmem.opening import spaces_of
from justmem.ports import Prompt, Store

State = Literal["ok", "note", "wrong"]
_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", "yellow"),
    "wrong": ("✗", "red"),
}
_STAGES = ("extractor", "planner", "answerer")
_PING = Prompt(
    stage="plan",
    system='Reply with the JSON object {"ok": true}.',
    user="ping",
    schema={
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
    max_tokens=20,
)


class Check(NamedTuple):
    state: State
    what: str
    fix: str = ""


def doctor(
    context: typer.Context,
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
    settings = run_of(context).settings()
    checks = list(_checks(settings, online and not settings.offline, deep))
    if json:
        print_json([check._asdict() for check in checks])
    else:
        console = out()
        for check in checks:
            mark, style = _MARKS[check.state]
            line = Text.assemble((f"{mark} ", style), plain(check.what, one_line=True))
            if check.fix:
                line.append(f"\n  → {plain(check.fix, one_line=True)}", style)
            console.print(line, soft_wrap=True)
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(Exit.INPUT)


def _checks(settings: Settings, online: bool, deep: bool) -> Iterator[Check]:
    file = settings.file
    source = f"settings from {file}" if file else "no justmem.toml: the defaults"
    yield Check("ok", f"{source}; profile {settings.profile}")
    yield _folder(settings)
    yield from _store(settings, deep)
    for found in (*file_checks.encryption(settings), *file_checks.permissions(settings)):
        yield Check(*found)
    for name in configured(settings):
        yield _weights(name, settings)
    yield from _keys(settings)
    yield from _models(settings, online)
    yield from _hooks(settings)
    yield from _extras()


def _hooks(settings: Settings) -> Iterator[Check]:
    """Whether each hook that is set up has ever run, and how it went."""
    runs = hooks.last_runs(settings.folder)
    for name, run in runs.items():
        what = f"the hook {name} ran last on {run.get('at')} for {run.get('client')}"
        if run.get("error"):
            yield Check("wrong", what, f"it failed: {run['error']}")
        else:
            yield Check("ok", what)
    for file, names in hooks.registered(Path.home(), Path.cwd()).items():
        for name in names:
            if name not in runs:
                fix = "send a prompt; if this stays, `justmem` is not on the assistant's PATH"
                yield Check("note", f"the hook {name} in {file} has not run yet", fix)


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


def _store(settings: Settings, deep: bool) -> Iterator[Check]:
    try:
        yield from asyncio.run(_look(settings, deep))
    except (StoreError, InvalidSetting) as error:
        yield Check("wrong", f"the space {settings.space!r} does not open", str(error))


async def _look(settings: Settings, deep: bool) -> list[Check]:
    place = spaces_of(settings)
    try:
        if settings.space not in await place.spaces():
            return [Check("ok", f"the space {settings.space!r} does not exist yet")]
        store = await place.open(settings.space, create=False)
        try:
            held = await store.stats()
            what = (
                f"{amount(held.cards, 'card')} of {amount(sum(held.sessions.values()), 'session')}"
            )
            opens = Check("ok", f"the space {settings.space!r} opens: {what}")
            return [opens, *(await _deep(store) if deep else ())]
        finally:
            await store.close()
    finally:
        await place.close()


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


def _weights(name: str, settings: Settings) -> Check:
    if present(name, settings):
        return Check("ok", f"weights of {name} are downloaded")
    if settings.offline:
        fix = f"copy them into {settings.models_folder}, or turn offline off"
        return Check("wrong", f"weights of {name} are missing", fix)
    return Check("note", f"weights of {name} are downloaded when first used", "justmem models pull")


def _keys(settings: Settings) -> Iterator[Check]:
    named = [settings.stage(stage) for stage in _STAGES] + [settings.embedder, settings.reranker]
    for spec in dict.fromkeys(filter(_is_name, named)):
        if not spec.startswith(("openai:", "rerank:")):
            continue
        name = providers.without_secrets(spec)
        if spec.startswith("rerank:"):
            key, fix = settings.rerank_key is not None, f"set {settings.rerank_key_env}"
        else:
            key = providers.key_for(providers.parse(spec, "model"), settings) is not None
            variable = settings.api_key_env
            fix = f"set {variable}" if variable else "name its variable with api_key_env"
        if key:
            yield Check("ok", f"a key for {name} is set")
        elif "@http" in spec:
            yield Check("note", f"no key for {name}", f"if its server needs one, {fix}")
        else:
            variable = settings.api_key_env or "OPENAI_API_KEY"
            yield Check("wrong", f"no key for {name}", f"set the environment variable {variable}")


def _is_name(spec: Any) -> bool:
    return isinstance(spec, str)


def _models(settings: Settings, online: bool) -> Iterator[Check]:
    for value in {str(settings.stage(name)): settings.stage(name) for name in _STAGES}.values():
        named = f"the model {providers.without_secrets(value)}"
        if value == "rules":
            fix = "for better answers set a model: JUSTMEM_MODEL=openai:NAME or openai:NAME@URL"
            yield Check("note", "no language model is set: rules extract, plan and answer", fix)
        elif not _is_name(value) or not value.startswith("openai:"):
            yield Check("ok", f"{named} is set")
        elif not online:
            yield Check(
                "note",
                f"{named} is set, not tried",
                "justmem doctor --online",
            )
        else:
            yield _reached(value, settings)


def _reached(value: str, settings: Settings) -> Check:
    async def ping() -> None:
        model = providers.build_model(value, settings)
        if model is not None:
            await model.complete(_PING)

    try:
        asyncio.run(ping())
    except JustMemError as error:
        return Check(
            "wrong", f"the model {providers.without_secrets(value)} does not answer", str(error)
        )
    return Check("ok", f"the model {providers.without_secrets(value)} answers")


def _extras() -> Iterator[Check]:
    """The optional parts of the package, as its own metadata lists them."""
    about = metadata("justmem")
    needs = about.get_all("Requires-Dist") or []
    for extra in about.get_all("Provides-Extra") or []:
        of_extra = re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""")
        names = [re.split(r"[^\w.-]", need)[0] for need in needs if of_extra.search(need)]
        if missing := [name for name in names if not _installed(name)]:
            what = f"the extra {extra!r} is not installed ({', '.join(missing)})"
            yield Check("note", what, f"if you need it: pip install 'justmem[{extra}]'")
        else:
            yield Check("ok", f"the extra {extra!r} is installed")


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
