"""The nouns of JustMem: pure values, no I/O.

Everything here is frozen. Turn numbers count from 1, as people count.
"""

from __future__ import annotations

from justmem.domain.cards import (
    KINDS,
    STATUSES,
    UNKNOWN_DATE,
    Card,
    EventDate,
    Kind,
    Passage,
    Precision,
    Quarantined,
    Status,
    card_id,
)
from justmem.domain.conversations import (
    NOTE,
    ROLES,
    Role,
    Session,
    SessionRecord,
    SessionState,
    Turn,
    quote,
    quoted,
)
from justmem.domain.health import Damage, Health
from justmem.domain.limits import Budget, Retention
from justmem.domain.log import Checked, Entry
from justmem.domain.notes import Note
from justmem.domain.questions import (
    MODES,
    OPERATIONS,
    Access,
    Answer,
    Candidate,
    Citation,
    Evidence,
    Mode,
    Operation,
    Plan,
    Source,
    SpaceCard,
    SpacesEvidence,
)
from justmem.domain.receipts import Call, Receipt, Stage, Usage
from justmem.domain.results import (
    About,
    Certificate,
    Expiring,
    Forgotten,
    HistoryEntry,
    Loaded,
    Preview,
    Remembered,
    Stats,
    SubjectProfile,
)
from justmem.domain.value import Value, dump

__all__ = [
    "KINDS",
    "MODES",
    "NOTE",
    "OPERATIONS",
    "ROLES",
    "STATUSES",
    "UNKNOWN_DATE",
    "About",
    "Access",
    "Answer",
    "Budget",
    "Call",
    "Candidate",
    "Card",
    "Certificate",
    "Checked",
    "Citation",
    "Damage",
    "Entry",
    "EventDate",
    "Evidence",
    "Expiring",
    "Forgotten",
    "Health",
    "HistoryEntry",
    "Kind",
    "Loaded",
    "Mode",
    "Note",
    "Operation",
    "Passage",
    "Plan",
    "Precision",
    "Preview",
    "Quarantined",
    "Receipt",
    "Remembered",
    "Retention",
    "Role",
    "Session",
    "SessionRecord",
    "SessionState",
    "Source",
    "SpaceCard",
    "SpacesEvidence",
    "Stage",
    "Stats",
    "Status",
    "SubjectProfile",
    "Turn",
    "Usage",
    "Value",
    "card_id",
    "dump",
    "quote",
    "quoted",
]
