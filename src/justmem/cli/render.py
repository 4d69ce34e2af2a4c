"""Results as text for people. Every remembered word goes through `plain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from justmem.cli.terminal import amount, plain, words
from justmem.domain import (
    About,
    Answer,
    Card,
    Citation,
    Entry,
    Evidence,
    HistoryEntry,
    Note,
    Plan,
    Receipt,
    Remembered,
    Session,
    SessionRecord,
    SessionState,
    Source,
    SpacesEvidence,
    Stats,
    Turn,
)

Row = dict[str, str | Text]
_QUOTE = "bold black on yellow"
_ACCESS = {"LOOKUP": "cyan", "COMPOSE": "magenta", "REPLAY": "green"}
_STATE = {"stored": "green", "empty": "dim", "pending": "yellow", "failed": "red"}
_LONGEST_QUOTE = 300
_NUMBERS = ("turns", "cards", "quarantined", "tokens")
_WHOLE = (*_NUMBERS, "id", "when", "state", "what", "hash")  # columns that are never broken


def table(rows: Sequence[Mapping[str, str | Text]], **styles: str) -> Table:
    """A table of the columns that hold anything."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    columns = [name for name in rows[0] if any(row[name] for row in rows)] if rows else []
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            style=styles.get(name, ""),
            no_wrap=name in _WHOLE,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(row[name] for name in columns))
    return made


# ---------------------------------------------------------------- answers


def answer(value: Answer) -> Group:
    text = words(value.text, "bold" if value.sufficient else "bold yellow")
    quotes = [quotation(number, each) for number, each in enumerate(value.citations, 1)]
    space = [Text()] if quotes else []
    return Group(
        access(value.evidence), Text(), text, Text(), *quotes, *space, receipt(value.receipt)
    )


def access(value: Evidence) -> Text:
    """The plan in one line."""
    name = value.access.value
    return Text.assemble((f" {name} ", f"reverse {_ACCESS[name]}"), " ", (_plan(value.plan), "dim"))


def _plan(plan: Plan) -> str:
    parts: list[str] = [plan.operation]
    if plan.entities:
        parts.append("about " + ", ".join(plan.entities))
    if plan.period.start is not None:
        parts.append(f"in {plan.period}")
    if plan.rewrites:
        parts.append("also asks: " + " | ".join(plan.rewrites))
    return plain(" · ".join(parts), one_line=True)


def quotation(number: int, citation: Citation) -> RenderableType:
    """Where it was said, and the exact words."""
    quote = plain(citation.quote, one_line=True)
    said = f"“{quote}”" if citation.kept else "The words are not kept."
    if len(quote) > _LONGEST_QUOTE:
        said = f"“{quote[:_LONGEST_QUOTE]}…”"
    where = f"{citation.said_at:%Y-%m-%d}, session {citation.session_id}, turn {citation.turn}"
    return Padding(
        Text.assemble(
            (f"[{number}] ", "bold cyan"),
            (plain(citation.speaker, one_line=True), "bold"),
            (f" {plain(where, one_line=True)}\n", "dim"),
            (said, "italic"),
        ),
        (0, 0, 0, 2),
        expand=False,  # a pipe has no width to fill
    )


def receipt(value: Receipt) -> Text:
    """Tokens, time by stage, and what the whole history would have cost."""
    models = sorted({call.model for call in value.calls})
    spent = f"{value.tokens_in:,} in, {value.tokens_out:,} out"
    lines = [f"tokens   {spent} ({', '.join(models) or 'no model was called'})"]
    if value.history_tokens:
        lines[0] += f"; the whole history is {value.history_tokens:,}"
    if value.seconds:
        stages = "  ".join(f"{stage} {_time(spent)}" for stage, spent in value.seconds.items())
        lines.append(f"time     {stages}")
    lines += [f"note     {note}" for note in value.notes]
    return words("\n".join(lines), "dim")


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def evidence(value: Evidence) -> Group:
    parts: list[RenderableType] = [access(value)]
    if value.chosen:
        parts.append(cards(value.cards))
    for source in value.sources:
        parts += [_heading(source.session_id, source.at), _turns(source), Text()]
    if not value.chosen and not value.sources:
        parts += [Text(), Text("There is no evidence for this in memory.", "bold yellow"), Text()]
    return Group(*parts, receipt(value.receipt))


def history(values: Sequence[HistoryEntry]) -> Table:
    rows: list[Row] = [
        {
            "since": f"{one.since}",
            "until": f"{one.until}" if one.until else "",
            "memory": words(one.card.text, one_line=True),
            "id": words(one.card.id, one_line=True),
        }
        for one in values
    ]
    return table(rows, since="dim", until="dim", id="cyan")


def notes(values: Sequence[Note]) -> Table:
    rows: list[Row] = [
        {
            "key": words(note.key, one_line=True),
            "since": f"{note.at:%Y-%m-%d}",
            "until": f"{note.until:%Y-%m-%d %H:%M}" if note.until else "",
            "text": words(note.text, one_line=True),
        }
        for note in values
    ]
    return table(rows, key="cyan", since="dim", until="dim")


def spaces_evidence(value: SpacesEvidence) -> Group:
    if not value.cards:
        return Group(Text("Nothing in these memories bears on this.", "bold yellow"))
    rows = [
        {"space": words(one.space, one_line=True), **_card_row(one.card)} for one in value.cards
    ]
    return Group(table(rows, space="bold", id="cyan", when="dim"), receipt(value.receipt))


# ---------------------------------------------------------------- cards and their sources


def cards(values: Sequence[Card]) -> Table:
    return table([_card_row(value) for value in values], id="cyan", when="dim")


def _card_row(value: Card) -> dict[str, str | Text]:
    known = value.event_date.start is not None
    when = value.event_date.text if known else f"said {value.said_at:%Y-%m-%d}"
    memory = Text.assemble(
        (plain(value.subject, one_line=True), "bold"),
        f" {plain(value.fact, one_line=True)} ",
        (f"({value.kind}, {value.status})", "dim"),
    )
    return {"id": value.id, "when": plain(when.replace("/", "\n")), "memory": memory}


def card(value: Card, source: Source, *, marked: bool = False) -> Group:
    """`marked` puts signs around the exact words, for where colours cannot."""
    facts = f"{value.kind}, {value.status} · happened {value.event_date}"
    return Group(
        Text.assemble((value.id, "cyan"), " ", (plain(value.text, one_line=True), "bold")),
        words(f"{facts} · said {value.said_at:%Y-%m-%d %H:%M}", "dim"),
        Text(),
        _heading(source.session_id, source.at),
        _turns(source, marked=marked),
    )


def session(value: Session) -> Group:
    turns = tuple(enumerate(value.turns, 1))
    whole = Source(session_id=value.id, at=value.at, turns=turns, whole=True)
    return Group(_heading(value.id, value.at), _turns(whole))


def _heading(session_id: str, at: Any) -> Text:
    return heading(words(f"session {session_id}, {at:%Y-%m-%d %H:%M}", one_line=True))


def heading(title: Text) -> Text:
    """The title and a line to the right of it. A rule of rich would fill an unwrapped pipe."""
    return title.copy().append(" " + "─" * max(0, 79 - title.cell_len), "dim")


def _turns(source: Source, *, marked: bool = False) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="dim", no_wrap=True, min_width=3)
    grid.add_column()
    previous = 0
    for number, turn in source.turns:
        if previous and number > previous + 1:
            grid.add_row("…", "")
        cited = [each for each in source.citations if each.turn == number]
        grid.add_row(str(number), _turn(turn, cited, ("»", "«") if marked else ("", "")))
        previous = number
    return grid


def _turn(turn: Turn, cited: Sequence[Citation], marks: tuple[str, str]) -> Text:
    text = Text()
    text.append(plain(turn.speaker, one_line=True), "bold" if turn.role == "user" else "")
    text.append(": ")
    if turn.forgotten:
        return text.append("(forgotten)", "dim")
    done = 0
    # Cut first, cleaned after: the spans count the characters of the raw text.
    for citation in sorted(cited, key=lambda each: each.start):
        if citation.start < done:
            continue
        text.append(plain(turn.text[done : citation.start]))
        quote = plain(turn.text[citation.start : citation.end])
        text.append(f"{marks[0]}{quote}{marks[1]}", _QUOTE)
        done = citation.end
    text.append(plain(turn.text[done:]))
    return text


# ---------------------------------------------------------------- sessions and sums


def remembered(values: Sequence[Remembered], when: Mapping[str, str]) -> Group:
    """A row for each session; of many, only those that need a look."""
    shown = values if len(values) <= 25 else [each for each in values if _needs_a_look(each)]
    rows: list[Row] = [
        {
            "session": words(value.session_id, "cyan", one_line=True),
            "when": when.get(value.session_id, ""),
            "state": Text(value.state.value, _STATE[value.state.value]),
            "cards": str(len(value.cards) or ""),
            "quarantined": str(len(value.quarantined) or ""),
            "tokens": f"{value.receipt.tokens:,}" if value.receipt.tokens else "",
            "note": words(_note(value), "dim", one_line=True),
        }
        for value in shown
    ]
    states = Counter(value.state.value for value in values)
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    total = (
        f"{amount(len(values), 'session')}: {counted or 'none'}; "
        f"{amount(sum(len(v.cards) for v in values), 'card')}; "
        f"{sum(value.receipt.tokens for value in values):,} tokens"
    )
    return Group(*([table(rows, when="dim")] if rows else []), Text(total, "bold"))


def _needs_a_look(value: Remembered) -> bool:
    failed = value.state in (SessionState.FAILED, SessionState.PENDING)
    return failed or bool(value.quarantined or value.receipt.notes)


def _note(value: Remembered) -> str:
    notes = ["known already"] if value.unchanged else []
    return "; ".join(filter(None, [*notes, value.reason, *value.receipt.notes]))


def sessions(values: Sequence[SessionRecord]) -> Table:
    rows: list[Row] = [
        {
            "session": words(value.id, "cyan", one_line=True),
            "when": f"{value.at:%Y-%m-%d %H:%M}",
            "state": Text(value.state.value, _STATE[value.state.value]),
            "turns": str(value.turns),
            "cards": str(value.cards),
            "quarantined": str(value.quarantined or ""),
            "note": words(value.reason, "dim", one_line=True),
        }
        for value in values
    ]
    return table(rows, when="dim")


def stats(value: Stats) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim")
    made.add_column()
    states = ", ".join(f"{count} {state}" for state, count in value.sessions.items() if count)
    kinds = ", ".join(f"{count} {kind}" for kind, count in value.kinds.items() if count)
    rows = {
        "space": value.space,
        "sessions": states or "none",
        "turns": f"{value.turns:,} ({value.history_tokens:,} tokens)",
        "cards": f"{value.cards:,} ({value.card_tokens:,} tokens)"
        + (f": {kinds}" if kinds else ""),
        "quarantined": f"{value.quarantined:,}",
        "on disk": f"{value.bytes / 1e6:,.1f} MB",
        "embedder": value.embedder or "none yet",
        "spent": f"{value.spent_tokens:,} tokens of language models",
    }
    for name, text in rows.items():
        made.add_row(name, words(text))
    return made


def about(found: About) -> Group:
    if found.first is None or found.last is None:
        return Group(words(f"Nothing in memory names {found.subject}.", "bold yellow"))
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    parts: list[RenderableType] = [
        Text.assemble(
            (plain(found.subject, one_line=True), "bold"),
            f": {amount(found.cards, 'card')}" + (f" ({kinds})" if kinds else ""),
            f", {amount(found.turns, 'turn')} of {amount(found.sessions, 'session')}, "
            f"{found.first:%Y-%m-%d} to {found.last:%Y-%m-%d}",
        )
    ]
    if found.known:
        parts.append(cards(found.known))
    for said in found.said:
        quote = plain(said.quote, one_line=True)
        short = quote if len(quote) <= _LONGEST_QUOTE else quote[: _LONGEST_QUOTE - 1] + "…"
        place = f"{plain(said.session_id, one_line=True)}#{said.turn}"
        line = Text.assemble((f"{said.said_at:%Y-%m-%d} ", "dim"), (place, "cyan"))
        line.append(f" {plain(said.speaker, one_line=True)}: {short}")
        parts.append(line)
    return Group(*parts)


def log(entries: Sequence[Entry]) -> Table:
    rows: list[Row] = [
        {
            "id": str(entry.number),
            "when": f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}",
            "who": words(entry.actor, "cyan", one_line=True),
            "what": words(entry.verb, one_line=True),
            "how much": ", ".join(f"{n:,} {what}" for what, n in entry.counts.items() if n),
            "hash": Text(entry.hash[:12], "dim"),
        }
        for entry in entries
    ]
    return table(rows, when="dim")
