"""`--set name=value`: everything about the system under test that can be turned.

A name is a field of Budget or of Profile, `weight.` and a field of Weights, or one of the
switches below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from justmem import Profile
from justmem.domain import Budget, Value
from justmem.errors import InvalidSetting

T = TypeVar("T", bound=Value)
PAPER = Profile(name="paper")
WEIGHTS = type(Profile().weights)


class Switches(Value):
    embedder: str = "onnx:bge-small-en-v1.5"
    reranker: str = "onnx:ms-marco-MiniLM-L-12-v2"
    access: Literal["adaptive", "lookup", "compose", "replay", "oracle"] = "adaptive"
    reading: Literal["adaptive", "compact", "top1"] = "adaptive"
    granularity: Literal["global", "session_first", "session_pack"] = "global"
    budget: Budget = Budget()
    profile: Profile = Profile()


def parse(settings: Sequence[str]) -> Switches:
    own: dict[str, Any] = {}
    budget: dict[str, Any] = {}
    profile = Profile()
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidSetting(f"--set takes name=value, not {setting!r}.")
        if name == "profile":
            if value not in ("default", "paper"):
                raise InvalidSetting(f"The profile is default or paper, not {value!r}.")
            profile = PAPER if value == "paper" else Profile()
        elif name.startswith("weight."):
            weights = {**profile.weights.model_dump(), name.removeprefix("weight."): value}
            new = _checked(WEIGHTS, weights)
            profile = profile.model_copy(update={"weights": new})
        elif name in Budget.model_fields:
            budget[name] = None if value == "none" else value
        elif name in Profile.model_fields:
            profile = _checked(Profile, {**profile.model_dump(), name: value})
        elif name in Switches.model_fields:
            own[name] = value
        else:
            known = [*Budget.model_fields, *Profile.model_fields, *Switches.model_fields]
            raise InvalidSetting(f"There is no switch {name!r}: known are {', '.join(known)}.")
    own |= {"budget": _checked(Budget, budget), "profile": profile}
    return _checked(Switches, own)


def _checked(model: type[T], values: dict[str, Any]) -> T:
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InvalidSetting(f"--set {name}={first['input']}: {first['msg']}.") from None
