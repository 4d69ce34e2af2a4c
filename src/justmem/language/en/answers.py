"""Answers without a model: quotations, and a direct answer before them only if it was verified.

What memory does not hold is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from justmem.domain import Evidence, Session
from justmem.language.en.direct import direct_answer
from justmem.language.en.lists import (
    MOST_LISTED,
    find_count,
    find_list,
    find_order,
    find_own_name,
    find_profile,
)
from justmem.language.en.relevance import (
    MOST_QUOTED,
    Findings,
    is_certain,
    is_unknown,
    one_per_turn,
    order_for_quoting,
    parse_question,
    put_update_first,
    rank_statements,
    select_fitting,
)
from justmem.language.en.statements import is_small_talk
from justmem.language.en.states import attribute_asked, superseded


def answer(evidence: Evidence, sessions: Mapping[str, Session]) -> Findings | None:
    """None: memory does not hold it."""
    asked = parse_question(evidence)
    found = rank_statements(evidence, asked, sessions)
    if known := find_profile(evidence):
        return known
    remark = evidence.plan.mode == "reply"
    if remark and is_small_talk(evidence.question):
        return None
    if special := find_own_name(evidence) or find_order(evidence, found):
        return special
    fit = select_fitting(found, asked)
    if not fit or (not remark and is_unknown(asked, found, fit)):
        return None
    if several := find_count(evidence, asked, fit) or find_list(evidence, asked, fit):
        return several
    earlier = superseded((one.card for one in found), evidence.at.date())
    # Of a state the newest statement counts, even if its words fit less well.
    state = attribute_asked(evidence.question) and not asked.about_past
    best = one_per_turn(fit)[: MOST_LISTED if state else MOST_QUOTED]
    ordered = order_for_quoting(asked, best, earlier)
    quoted = put_update_first(asked, ordered, one_per_turn(fit))[:MOST_QUOTED]
    direct = "" if remark else direct_answer(evidence, asked, fit, earlier)
    certain = bool(direct) or remark or any(is_certain(asked, one) for one in quoted)
    return Findings(direct, quoted, earlier, certain=certain)
