"""Results as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from justmem.cli.terminal import amount, line, plain, words

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from justmem import domain

_LONGEST_QUOTE = 300
_MANY = 25  # sessions
_UNBROKEN = ("id", "when", "state", "what")  # columns
Shown = list[Any]  # lines and tables


def table(records: Sequence[Mapping[str, object]]) -> Table:
    """The columns that hold anything. Cells that are not rich text are cleaned."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    columns = [name for name in records[0] if any(row[name] for row in records)] if records else []
    for name in columns:
        number = all(isinstance(row[name], int) for row in records)
        result.add_column(
            name,
            justify="right" if number else "left",
            style="cyan" if name in ("id", "session", "key") else "",
            no_wrap=number or name in _UNBROKEN,
            overflow="fold",
        )
    for row in records:
        result.add_row(*(_cell(row[name]) for name in columns))
    return result


def _cell(value: Any) -> Text:
    from rich.text import Text

    if isinstance(value, Mapping):
        value = _amounts(value)
    elif isinstance(value, tuple):
        value = ", ".join(value)
    elif isinstance(value, datetime):
        value = f"{value.astimezone() if value.tzinfo else value:%Y-%m-%d %H:%M}"
    elif isinstance(value, int):
        value = f"{value:,}" if value else ""
    return value if isinstance(value, Text) else words(plain(value or "", one_line=True))


def heading(title: str) -> Text:
    """The title and a line to the right of it. A rule of rich would fill an unwrapped pipe."""
    text = line((title, "bold"))
    return text.append(" " + "─" * max(0, 79 - text.cell_len), "dim")


def _day(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d}" if at else ""


def _shortened(quote: str) -> str:
    quote = plain(quote, one_line=True)
    return quote if len(quote) <= _LONGEST_QUOTE else f"{quote[:_LONGEST_QUOTE]}…"


def _amounts(counts: Mapping[str, int]) -> str:
    """`2 events, 1 fact`."""
    nouns = {name.removesuffix("s"): count for name, count in counts.items() if count}
    return ", ".join(amount(count, noun) for noun, count in nouns.items())


def _counts(counts: Mapping[str, int]) -> str:
    """`2 stored, 1 failed`."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


# ---------------------------------------------------------------- answers


def answer(value: domain.Answer) -> Shown:
    quotes = [_citation(number, each, value.text) for number, each in enumerate(value.citations, 1)]
    text = words(value.text, "bold" if value.sufficient else "bold yellow")
    gap = [""] if quotes else []
    return [_access(value.evidence), "", text, "", *quotes, *gap, receipt(value.receipt)]


def _access(value: domain.Evidence) -> Text:
    """The plan in one line."""
    plan = value.plan
    parts: list[str] = [] if plan.operation == "lookup" else [plan.operation]
    if plan.entities:
        parts.append("about " + ", ".join(plan.entities))
    if plan.period.start is not None:
        parts.append(f"in {plan.period}")
    if plan.rewrites:
        parts.append("also asks: " + " | ".join(plan.rewrites))
    said = f" {' · '.join(parts)}" if parts else ""
    return line((f" {value.access.value} ", "reverse cyan"), (said, "dim"))


def _citation(number: int, citation: domain.Citation, answer: str) -> Text:
    """Where it was said, and the exact words unless the answer quotes them."""
    where = f" {_day(citation.said_at)}, session {citation.session_id}, turn {citation.turn}"
    text = line((f"  [{number}] ", "bold cyan"), (citation.speaker, "bold"), (where, "dim"))
    if not citation.kept:
        text.append("\n  The words are not kept.", "italic")
    elif citation.quote not in answer:
        text.append(f"\n  “{_shortened(citation.quote)}”", "italic")
    return text


def receipt(value: domain.Receipt) -> Text:
    """Tokens, time by stage, and what the whole history would have cost."""
    models = ", ".join(sorted({call.model for call in value.calls})) or "no model was called"
    lines = [f"tokens   {value.tokens_in:,} in, {value.tokens_out:,} out ({models})"]
    if value.history_tokens:
        lines[0] += f"; the whole history is {value.history_tokens:,}"
    if value.seconds:
        times = (f"{stage} {spent:.2f} s" for stage, spent in value.seconds.items())
        lines.append("time     " + "  ".join(times))
    lines += [f"note     {note}" for note in value.notes]
    return words("\n".join(lines), "dim")


def evidence(value: domain.Evidence) -> Shown:
    parts: Shown = [_access(value)]
    if value.chosen:
        parts += ["", cards(value.cards), ""]
    for source in value.sources:
        parts += [*_source(source), ""]
    if not value.chosen and not value.sources:
        parts += ["", words("There is no evidence for this in memory.", "bold yellow"), ""]
    return [*parts, receipt(value.receipt)]


def spaces_evidence(value: domain.SpacesEvidence) -> Shown:
    if not value.cards:
        return [words("There is no evidence for this in these spaces.", "bold yellow")]
    listed = [{"space": one.space, **_card_row(one.card)} for one in value.cards]
    return [table(listed), receipt(value.receipt)]


# ---------------------------------------------------------------- cards and their sources


def cards(values: Sequence[domain.Card]) -> Table:
    return table([_card_row(value) for value in values])


def _card_row(value: domain.Card) -> dict[str, object]:
    known = value.event_date.start is not None
    when = value.event_date.text if known else f"said {_day(value.said_at)}"
    subject = "" if value.kind == "note" else f"{value.subject} "
    memory = line((subject, "bold"), value.fact, (f" ({value.kind}, {value.status})", "dim"))
    return {"id": value.id, "when": when, "memory": memory}


def card(value: domain.Card, source: domain.Source) -> Shown:
    facts = f"{value.kind}, {value.status} · happened {value.event_date}"
    said = f" · said {value.said_at:%Y-%m-%d %H:%M}"
    title = line((value.id, "cyan"), (f" {value.text}", "bold"))
    return [title, line((facts, "dim"), (said, "dim")), "", *_source(source)]


def session(value: domain.Session) -> Shown:
    from justmem.domain import Source

    turns = tuple(enumerate(value.turns, 1))
    return _source(Source(session_id=value.id, at=value.at, turns=turns, whole=True))


def _source(source: domain.Source) -> Shown:
    lines: Shown = [heading(f"session {source.session_id}, {source.at:%Y-%m-%d %H:%M}")]
    previous = 0
    for number, turn in source.turns:
        if previous and number > previous + 1:
            lines.append("  …")
        cited = [each for each in source.citations if each.turn == number]
        spoken = line((f"{number:3} ", "dim"), (turn.speaker, "bold"), ": ")
        lines.append(spoken.append(_marked(turn, cited).replace("\n", "\n    ")))
        previous = number
    return lines


def _marked(turn: domain.Turn, cited: Sequence[domain.Citation]) -> str:
    """The words of a turn, with » and « around those that are cited."""
    if turn.forgotten:
        return "(forgotten)"
    text, done = "", 0
    # Cut before cleaning: the spans count the characters of the raw text.
    for citation in sorted(cited, key=lambda each: each.start):
        if citation.start >= done:
            text += plain(turn.text[done : citation.start])
            text += f"»{plain(turn.text[citation.start : citation.end])}«"
            done = citation.end
    return text + plain(turn.text[done:])


def about(found: domain.About) -> Shown:
    if found.first is None:
        return [words(f"Nothing in memory names {found.subject}.", "bold yellow")]
    kinds = f" ({_amounts(found.kinds)})" if found.kinds else ""
    summary = (
        f": {amount(found.cards, 'card')}{kinds}, {amount(found.turns, 'turn')} of "
        f"{amount(found.sessions, 'session')}, {_day(found.first)} to {_day(found.last)}"
    )
    parts: Shown = [line((found.subject, "bold"), summary)]
    if found.known:
        parts += ["", cards(found.known), ""]
    for said in found.said:
        place = f" {said.session_id}#{said.turn}"
        quote = f" {said.speaker}: {_shortened(said.quote)}"
        parts.append(line((_day(said.said_at), "dim"), (place, "cyan"), quote))
    return parts


# ---------------------------------------------------------------- lists


def rows(**columns: str) -> Callable[[Sequence[Any]], Table]:
    """A function that draws values as a table: the title of each column and its attribute."""
    getters = {title: attrgetter(attribute) for title, attribute in columns.items()}
    return lambda values: table([{t: get(each) for t, get in getters.items()} for each in values])


keys = rows(id="id", name="name", right="right", spaces="spaces", made="made")
history = rows(since="since", until="until", memory="card.text", id="card.id", note="note")
notes = rows(key="key", since="at", until="until", text="text")
_COUNTED = {"turns": "turns", "cards": "cards", "quarantined": "quarantined"}
sessions = rows(session="id", when="at", state="state", **_COUNTED, note="reason")
log = rows(id="number", when="at", who="actor", what="verb", counts="counts")


def remembered(values: Sequence[domain.Remembered], when: Mapping[str, str]) -> Shown:
    """A row for each session. Of many sessions, only those that need attention."""
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
        for value in values
        if len(values) <= _MANY or value.reason or value.quarantined or value.receipt.notes
    ]
    states = dict(sorted(Counter(value.state.value for value in values).items()))
    cards = amount(sum(len(value.cards) for value in values), "card")
    tokens = sum(value.receipt.tokens for value in values)
    total = f"{amount(len(values), 'session')}: {_counts(states)}; {cards}; {tokens:,} tokens"
    return [*([table(listed)] if listed else []), line((total, "bold"))]


def _note(value: domain.Remembered) -> str:
    known = "known already" if value.unchanged else ""
    return "; ".join(filter(None, [known, value.reason, *value.receipt.notes]))


def stats(value: domain.Stats) -> str:
    kinds = f": {_amounts(value.kinds)}" if any(value.kinds.values()) else ""
    lines = {
        "space": value.space,
        "sessions": _counts(value.sessions) or "none",
        "turns": f"{value.turns:,} ({value.history_tokens:,} tokens)",
        "cards": f"{value.cards:,} ({value.card_tokens:,} tokens){kinds}",
        "repeated": f"{value.repeated:,} cards say what another card says",
        "quarantined": f"{value.quarantined:,}",
        "on disk": f"{value.bytes / 1e6:,.1f} MB",
        "embedder": value.embedder or "none yet",
        "spent": f"{value.spent_tokens:,} tokens of language models",
    }
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())
