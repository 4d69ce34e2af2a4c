"""Notes: cards that a caller writes under a key of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from justmem.domain.value import Value


class Note(Value):
    """A text exactly as it was given, with an optional JSON value. `value_json` is the value's
    text, byte for byte."""

    key: str
    text: str
    card_id: str
    at: datetime
    until: datetime | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    value_json: str | None = None

    @property
    def value(self) -> Any:
        return None if self.value_json is None else json.loads(self.value_json)
