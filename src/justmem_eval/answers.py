"""Scoring an answer without a judge: exact, token-F1, contained in the evidence. Pure."""

from __future__ import annotations

import re
import string
from collections import Counter

from justmem.domain import Value
from justmem_eval.benchmarks import Case
from justmem_eval.metrics import Figure, Pairs, mean, percent
from justmem_eval.rows import Row

_ARTICLES = re.compile(r"\b(?:a|an|the|and)\b")
_PUNCTUATION = str.maketrans(string.punctuation, " " * len(string.punctuation))


class Scores(Value):
    exact: Figure
    f1: Figure
    contained: Figure  # every word of the gold answer stands in the evidence
    rests: Figure  # answered from a turn that holds evidence
    misled: Figure  # answered from others only
    refused: Figure  # of the answerable: said "not in memory"
    refused_rightly: Figure  # of the unanswerable
    words: Figure  # of an answer


def scores(pairs: Pairs) -> Scores:
    told = [(c, r) for c, r in pairs if c.gold.answer and not c.gold.abstain]
    placed = [(c, r) for c, r in told if c.gold.turns]
    return Scores(
        exact=percent(words(r.answer) == words(c.gold.answer) for c, r in told),
        f1=mean((f1(r.answer, c.gold.answer) for c, r in told), 100.0),
        contained=percent(contained(c.gold.answer, r.evidence) for c, r in told),
        rests=percent(r.sufficient and _rests(c, r) for c, r in placed),
        misled=percent(r.sufficient and not _rests(c, r) for c, r in placed),
        refused=percent(not r.sufficient for _, r in told),
        refused_rightly=percent(not r.sufficient for c, r in pairs if c.gold.abstain),
        words=mean(len(r.answer.split()) for _, r in pairs if r.sufficient),
    )


def _rests(case: Case, row: Row) -> bool:
    return not case.gold.turns.isdisjoint(row.cited)


def words(text: str) -> list[str]:
    """Lower case, without punctuation and articles, as LoCoMo and SQuAD compare."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def f1(given: str, gold: str) -> float:
    ours, theirs = words(given), words(gold)
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    if not common:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def contained(gold: str, evidence: str) -> bool:
    wanted = set(words(gold))
    return bool(wanted) and wanted <= set(words(evidence))
