"""Results as text for people. Every remembered word goes through `plain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
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
    Evidence,
    Receipt,
    Remembered,
    Session,
    SessionState,
    Source,
    SpacesEvidence,
    Stats,
    Turn,
)

_QUOTE = "bold black on yellow"
_ACCESS = {"LOOKUP": "cyan", "COMPOSE": "magenta", "REPLAY": "green"}
_STATE = {"stored": "green", "empty": "dim", "pending": "yellow", "failed": "red"}
_LONGEST_QUOTE = 300
_NUMBERS = ("turns", "cards", "quarantined", "tokens")  # right-aligned columns
_WHOLE = (*_NUMBERS, "id", "when", "state", "what")  # columns that are never broken
_STYLES = {
    **dict.fromkeys(("id", "session", "key", "name", "who"), "cyan"),
    **dict.fromkeys(("when", "since", "until", "note"), "dim"),
    "space": "bold",
}


def table(records: Sequence[Mapping[str, object]]) -> Table:
    """The columns that hold anything. Cells that are not rich text are cleaned."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    columns = [name for name in records[0] if any(row[name] for row in records)] if records else []
    for name in columns:
        result.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            style=_STYLES.get(name, ""),
            no_wrap=name in _WHOLE,
            overflow="fold",
        )
    for row in records:
        result.add_row(*(_cell(row[name]) for name in columns))
    return result


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, SessionState):
        return Text(value.value, _STATE[value.value])
    if isinstance(value, Mapping):
        value = _counts(value)
    elif isinstance(value, tuple):
        value = ", ".join(value)
    elif isinstance(value, datetime):
        value = f"{value.astimezone() if value.tzinfo else value:%Y-%m-%d %H:%M}"
    elif isinstance(value, int):
        value = f"{value:,}" if value else ""
    return words(value or "", one_line=True)


def heading(title: str) -> Text:
    """The title and a line to the right of it. A rule of rich would fill an unwrapped pipe."""
    text = words(title, "bold", one_line=True)
    return text.append(" " + "─" * max(0, 79 - text.cell_len), "dim")


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d}" if at else ""


def _shortened(quote: str) -> str:
    quote = plain(quote, one_line=True)
    return quote if len(quote) <= _LONGEST_QUOTE else f"{quote[:_LONGEST_QUOTE]}…"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


# ---------------------------------------------------------------- answers


def answer(value: Answer) -> Group:
    text = words(value.text, "bold" if value.sufficient else "bold yellow")
    quotes = [_citation(number, each, value.text) for number, each in enumerate(value.citations, 1)]
    gap = [Text()] if quotes else []
    return Group(
        _access(value.evidence), Text(), text, Text(), *quotes, *gap, receipt(value.receipt)
    )


def _access(value: Evidence) -> Text:
    """The plan in one line."""
    plan, name = value.plan, value.access.value
    parts: list[str] = [] if plan.operation == "lookup" else [plan.operation]
    if plan.entities:
        parts.append("about " + ", ".join(plan.entities))
    if plan.period.start is not None:
        parts.append(f"in {plan.period}")
    if plan.rewrites:
        parts.append("also asks: " + " | ".join(plan.rewrites))
    line = plain(" · ".join(parts), one_line=True)
    return Text.assemble((f" {name} ", f"reverse {_ACCESS[name]}"), (f" {line}".rstrip(), "dim"))


def _citation(number: int, citation: Citation, answer: str) -> RenderableType:
    """Where it was said, and the exact words unless the answer quotes them."""
    where = f"{_day(citation.said_at)}, session {citation.session_id}, turn {citation.turn}"
    text = Text.assemble(
        (f"[{number}] ", "bold cyan"),
        (plain(citation.speaker, one_line=True), "bold"),
        (f" {plain(where, one_line=True)}", "dim"),
    )
    if not citation.kept:
        text.append("\nThe words are not kept.", "italic")
    elif citation.quote not in answer:
        text.append(f"\n“{_shortened(citation.quote)}”", "italic")
    return Padding(text, (0, 0, 0, 2), expand=False)  # a pipe has no width to fill


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
    parts: list[RenderableType] = [_access(value)]
    if value.chosen:
        parts.append(cards(value.cards))
    for source in value.sources:
        parts += [*_source(source), Text()]
    if not value.chosen and not value.sources:
        parts += [Text(), Text("There is no evidence for this in memory.", "bold yellow"), Text()]
    return Group(*parts, receipt(value.receipt))


def spaces_evidence(value: SpacesEvidence) -> Group:
    if not value.cards:
        return Group(Text("There is no evidence for this in these spaces.", "bold yellow"))
    listed = [{"space": one.space, **_card_row(one.card)} for one in value.cards]
    return Group(table(listed), receipt(value.receipt))


# ---------------------------------------------------------------- cards and their sources


def cards(values: Sequence[Card]) -> Table:
    return table([_card_row(value) for value in values])


def _card_row(value: Card) -> dict[str, object]:
    known = value.event_date.start is not None
    when = value.event_date.text if known else f"said {_day(value.said_at)}"
    subject = "" if value.kind == "note" else f"{plain(value.subject, one_line=True)} "
    memory = Text.assemble(
        (subject, "bold"),
        f"{plain(value.fact, one_line=True)} ",
        (f"({value.kind}, {value.status})", "dim"),
    )
    return {"id": value.id, "when": words(when.replace("/", "\n")), "memory": memory}


def card(value: Card, source: Source, *, marked: bool = False) -> Group:
    """`marked` puts signs around the exact words, for terminals without colours."""
    facts = f"{value.kind}, {value.status} · happened {value.event_date}"
    return Group(
        Text.assemble((value.id, "cyan"), " ", (plain(value.text, one_line=True), "bold")),
        words(f"{facts} · said {value.said_at:%Y-%m-%d %H:%M}", "dim"),
        Text(),
        *_source(source, marked=marked),
    )


def session(value: Session) -> Group:
    turns = tuple(enumerate(value.turns, 1))
    return Group(*_source(Source(session_id=value.id, at=value.at, turns=turns, whole=True)))


def _source(source: Source, *, marked: bool = False) -> tuple[Text, Table]:
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
    return heading(f"session {source.session_id}, {source.at:%Y-%m-%d %H:%M}"), grid


def _turn(turn: Turn, cited: Sequence[Citation], marks: tuple[str, str]) -> Text:
    text = words(turn.speaker, "bold" if turn.role == "user" else "", one_line=True)
    text = Text.assemble(text, ": ")
    if turn.forgotten:
        return text.append("(forgotten)", "dim")
    done = 0
    # Cut before cleaning: the spans count the characters of the raw text.
    for citation in sorted(cited, key=lambda each: each.start):
        if citation.start < done:
            continue
        text.append(plain(turn.text[done : citation.start]))
        quote = plain(turn.text[citation.start : citation.end])
        text.append(f"{marks[0]}{quote}{marks[1]}", _QUOTE)
        done = citation.end
    return text.append(plain(turn.text[done:]))


def about(found: About) -> Group:
    if found.first is None or found.last is None:
        return Group(words(f"Nothing in memory names {found.subject}.", "bold yellow"))
    kinds = f" ({_counts(found.kinds)})" if found.kinds else ""
    summary = (
        f": {amount(found.cards, 'card')}{kinds}, {amount(found.turns, 'turn')} of "
        f"{amount(found.sessions, 'session')}, {_day(found.first)} to {_day(found.last)}"
    )
    parts: list[RenderableType] = [
        Text.assemble((plain(found.subject, one_line=True), "bold"), summary)
    ]
    if found.known:
        parts.append(cards(found.known))
    for said in found.said:
        place = f"{plain(said.session_id, one_line=True)}#{said.turn}"
        quote = f" {plain(said.speaker, one_line=True)}: {_shortened(said.quote)}"
        parts.append(Text.assemble((f"{_day(said.said_at)} ", "dim"), (place, "cyan"), quote))
    return Group(*parts)


# ---------------------------------------------------------------- lists


def rows(**columns: str) -> Callable[[Sequence[Any]], Table]:
    """A function that draws values as a table: the title of each column and its attribute."""
    getters = {title: attrgetter(attribute) for title, attribute in columns.items()}
    return lambda values: table([{t: get(each) for t, get in getters.items()} for each in values])


keys = rows(id="id", name="name", right="right", spaces="spaces", made="made")
history = rows(since="since", until="until", memory="card.text", id="card.id", note="note")
notes = rows(key="key", since="at", until="until", text="text")
sessions = rows(
    session="id",
    when="at",
    state="state",
    turns="turns",
    cards="cards",
    quarantined="quarantined",
    note="reason",
)
log = rows(id="number", when="at", who="actor", what="verb", counts="counts")


def models(values: Sequence[Mapping[str, Any]]) -> Table:
    return table(
        [
            {name: value[name] for name in ("name", "use", "licence")}
            | {"size": f"{value['megabytes']:.0f} MB"}
            | {"downloaded": "yes" if value["downloaded"] else "no"}
            for value in values
        ]
    )


def remembered(values: Sequence[Remembered], when: Mapping[str, str]) -> Group:
    """A row for each session. Of many sessions, only those that need attention."""
    shown = values if len(values) <= 25 else [each for each in values if _needs_attention(each)]
    listed = [
        {
            "session": value.session_id,
            "when": when.get(value.session_id),
            "state": value.state,
            "cards": len(value.cards),
            "quarantined": len(value.quarantined),
            "tokens": value.receipt.tokens,
            "note": _note(value),
        }
        for value in shown
    ]
    states = Counter(value.state.value for value in values)
    total = (
        f"{amount(len(values), 'session')}: {_counts(dict(sorted(states.items()))) or 'none'}; "
        f"{amount(sum(len(v.cards) for v in values), 'card')}; "
        f"{sum(value.receipt.tokens for value in values):,} tokens"
    )
    return Group(*([table(listed)] if listed else []), Text(total, "bold"))


def _needs_attention(value: Remembered) -> bool:
    failed = value.state in (SessionState.FAILED, SessionState.PENDING)
    return failed or bool(value.quarantined or value.receipt.notes)


def _note(value: Remembered) -> str:
    notes = ["known already"] if value.unchanged else []
    return "; ".join(filter(None, [*notes, value.reason, *value.receipt.notes]))


def stats(value: Stats) -> Table:
    kinds = f": {_counts(value.kinds)}" if any(value.kinds.values()) else ""
    lines = {
        "space": value.space,
        "sessions": _counts(value.sessions) or "none",
        "turns": f"{value.turns:,} ({value.history_tokens:,} tokens)",
        "cards": f"{value.cards:,} ({value.card_tokens:,} tokens){kinds}",
        "quarantined": f"{value.quarantined:,}",
        "on disk": f"{value.bytes / 1e6:,.1f} MB",
        "embedder": value.embedder or "none yet",
        "spent": f"{value.spent_tokens:,} tokens of language models",
    }
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim")
    for name, text in lines.items():
        grid.add_row(name, words(text))
    return grid
