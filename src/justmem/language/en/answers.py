"""Answers without a model: quotations, and a direct answer before them only if it was verified.

What memory does not hold is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from justmem.domain import Evidence, Session
from justmem.language.en.direct import direct_answer
from justmem.language.en.lists import LISTED, counted, in_order, listed, own_name_asked, profile
from justmem.language.en.relevance import (
    QUOTED,
    Answered,
    arranged,
    distinct,
    fitting,
    is_certain,
    is_unknown,
    ranked,
    understood,
    with_updates,
)
from justmem.language.en.statements import is_small_talk
from justmem.language.en.states import attribute_asked, superseded


def answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Answered | None:
    """None: memory does not hold it."""
    asked = understood(evidence)
    found = ranked(evidence, asked, sessions)
    if known := profile(evidence):
        return known
    remark = evidence.plan.mode == "reply"
    if remark and is_small_talk(evidence.question):
        return None
    if special := own_name_asked(evidence) or in_order(evidence, found):
        return special
    fit = fitting(found, asked)
    if not fit or (not remark and is_unknown(asked, found, fit)):
        return None
    if several := counted(evidence, asked, fit) or listed(evidence, asked, fit):
        return several
    earlier = superseded((one.card for one in found), evidence.at.date())
    # Of a state the newest statement counts, even if its words fit less well.
    state = attribute_asked(evidence.question) and not asked.past
    best = distinct(fit)[: LISTED if state else QUOTED]
    quoted = with_updates(asked, arranged(asked, best, earlier), distinct(fit))[:QUOTED]
    direct = "" if remark else direct_answer(evidence, asked, fit, earlier)
    certain = bool(direct) or remark or any(is_certain(asked, one) for one in quoted)
    return Answered(direct, quoted, earlier, certain=certain)
