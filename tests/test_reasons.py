"""What may lie behind a remark is known by how it is told."""

from __future__ import annotations

import pytest

from justmem.reasons import reasons_in


@pytest.mark.parametrize(
    "fact",
    [
        "stopped drinking coffee because it kept them awake",
        "learned to say no at work",
        "promised to call her sister every Sunday",
        "has been afraid of dogs ever since the bite",
    ],
)
def test_reasons_resolutions_lessons_and_troubles_are_heard(fact: str) -> None:
    assert reasons_in(fact) >= 1


@pytest.mark.parametrize("fact", ["has a blue bicycle", "went to the cinema on Friday", ""])
def test_plain_facts_tell_no_reason(fact: str) -> None:
    assert reasons_in(fact) == 0


def test_more_than_two_count_as_two() -> None:
    assert reasons_in("decided to move because she was afraid and had learned") == 2
