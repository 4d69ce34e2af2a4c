"""What lies behind a remark is rarely what it sounds like. It is a reason, a resolution, a lesson
or a lasting trouble that was told earlier, and such things are told in words that can be known."""

from __future__ import annotations

import re

_TOLD = tuple(
    re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for words in (
        # a reason
        r"because|since|after|due to|so that|that's why|led (?:me|to)|thanks to"
        r"|made (?:me|\w+) (?:realize|realise|feel|want)",
        # a resolution
        r"decided|promis\w+|vow\w*|committed|resolved|goal|aim\w*|determined|plan to|planning to"
        r"|trying to|working on|started|stopped|quit|gave up|giving up|switched"
        r"|cut (?:back|out|down)|avoid\w*|no longer|never again|always|refus\w+",
        # a lesson, a value
        r"learn(?:ed|t|ing)?|reali[sz]\w+|believ\w+|value\w*|matters? (?:most|to)|important|taught"
        r"|priorit\w+|principle|honest\w*|respect\w*",
        # a lasting trouble, a turn in life
        r"struggl\w+|anxi\w+|afraid|scared|fear\w*|stress\w*|depress\w+|lonely|grief|injur\w+"
        r"|diagnos\w+|allerg\w+|divorc\w+|broke up|moved|lost|burn(?:ed|t) out|overwhelm\w+"
        r"|used to|ever since",
    )
)


def reasons_in(text: str) -> int:
    """How many of these four a text tells, up to two: more says no more."""
    return min(2, sum(bool(told.search(text)) for told in _TOLD))
