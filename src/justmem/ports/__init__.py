"""The interfaces of language models, embedders, rerankers, stores and human languages.

Any object with these methods works. Nothing has to inherit from these classes.
"""

from __future__ import annotations

from justmem.ports.language import Language
from justmem.ports.models import (
    Closes,
    Completion,
    Embedded,
    Embedder,
    LanguageModel,
    Prompt,
    Reranked,
    Reranker,
    StreamingModel,
)
from justmem.ports.searches import (
    INDEXES,
    CardFilter,
    Filter,
    Found,
    Hits,
    Index,
    Pair,
    Place,
    Reach,
    Snapshot,
    View,
    best_bare,
)
from justmem.ports.stages import (
    NOT_IN_MEMORY,
    Answerer,
    Extraction,
    Extractor,
    Planned,
    Planner,
    Reply,
    StreamingAnswerer,
)
from justmem.ports.store import (
    BEGUN,
    Author,
    Digested,
    Embed,
    Rest,
    Store,
    Whole,
    acting_as,
    card_in,
    session_in,
)
from justmem.ports.traces import Searched
from justmem.ports.vectors import Vectors

__all__ = [
    "BEGUN",
    "INDEXES",
    "NOT_IN_MEMORY",
    "Answerer",
    "Author",
    "CardFilter",
    "Closes",
    "Completion",
    "Digested",
    "Embed",
    "Embedded",
    "Embedder",
    "Extraction",
    "Extractor",
    "Filter",
    "Found",
    "Hits",
    "Index",
    "Language",
    "LanguageModel",
    "Pair",
    "Place",
    "Planned",
    "Planner",
    "Prompt",
    "Reach",
    "Reply",
    "Reranked",
    "Reranker",
    "Rest",
    "Searched",
    "Snapshot",
    "Store",
    "StreamingAnswerer",
    "StreamingModel",
    "Vectors",
    "View",
    "Whole",
    "acting_as",
    "best_bare",
    "card_in",
    "session_in",
]
