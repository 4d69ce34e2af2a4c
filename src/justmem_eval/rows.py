"""What came of one question: one line of evidence.jsonl. No gold in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from justmem.domain import Card, Evidence, Plan, Value
from justmem_eval.benchmarks import Question
from justmem_eval.text import count

_ALL = 10**9  # tokens: everything is shown
_MARK = re.compile(r"-\d{9}>")  # the number in the tags
Place = tuple[str, tuple[int, ...]]  # a session and turns of it


class Slot(Value):
    """One chosen piece of evidence. `aligned`: its place was found by its words."""

    place: Place
    text: str = ""
    aligned: bool = False


class Row(Value):
    id: str
    history: str
    plan: Plan | None = None
    access: str = ""
    slots: tuple[Slot, ...] = ()  # chosen, best first; recall@10 counts the first ten
    read: tuple[Place, ...] = ()  # everything that is read, the chosen included
    read_texts: tuple[str, ...] = ()  # the words of each, where the system names its own sources
    sources: tuple[Place, ...] = ()
    evidence_tokens: int = 0  # what the answerer would read
    source_tokens: int = 0
    pool: tuple[Place, ...] = ()  # all candidates, for the ceiling
    views: int = 0
    pairs: int = 0  # read by the reranker
    seconds: Mapping[str, float] = {}
    answer: str = ""
    sufficient: bool = True
    cited: tuple[tuple[str, int], ...] = ()  # the turns that the answer rests on
    evidence: str = ""
    notes: tuple[str, ...] = ()


def evidence_row(question: Question, history: str, evidence: Evidence) -> Row:
    receipt = evidence.receipt
    text = _MARK.sub(">", evidence.prompt(_ALL))  # the same in each run
    return Row(
        id=question.id,
        history=history,
        plan=evidence.plan,
        access=evidence.access.value,
        slots=tuple(_slot(c.card) for c in evidence.chosen),
        read=tuple((card.session_id, card.turns) for card in evidence.cards),
        read_texts=tuple(card.text for card in evidence.cards),
        sources=tuple((s.session_id, tuple(n for n, _ in s.turns)) for s in evidence.sources),
        evidence_tokens=count(text),
        source_tokens=sum(source.tokens for source in evidence.sources),
        pool=tuple((c.card.session_id, c.card.turns) for c in evidence.candidates),
        views=sum(usage.items for usage in receipt.embedding),
        pairs=sum(usage.items for usage in receipt.reranking),
        seconds=dict(receipt.seconds),
        evidence=text,
        notes=receipt.notes,
    )


def _slot(card: Card) -> Slot:
    return Slot(place=(card.session_id, card.turns), text=card.text)
