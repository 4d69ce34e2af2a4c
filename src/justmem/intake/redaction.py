"""Redaction: removes secrets before anything is stored or sent to a model.

A hook is a function from text to text, synchronous or asynchronous. It gets every turn, every
speaker's name, every question, and the names and values of labels and of filters by them. It must
not change its own output, because turns that wait for their cards pass it again.

The built-in hook, `secrets`, replaces card numbers, keys, tokens, and passwords in an address or
after `=` by a word for what it was: `[card number]`. It finds only secrets with a recognisable
form. A sentence such as "my password is swordfish" stays as it is: for that, pass a function of
your own.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from justmem.domain import Session, Value
from justmem.errors import InvalidQuestion, InvalidSession, InvalidSetting
from justmem.intake.sessions import as_session, id_from_content

P = TypeVar("P", bound=Value | None)
Redact = Callable[[str], str | Awaitable[str]]

_NOTHING = "Nothing was kept or sent."


class Redaction:
    """Applies the hook. Without a hook, nothing is changed."""

    def __init__(self, hook: Redact | None = None) -> None:
        self._hook = hook

    async def session(
        self, session: Session, *, rename: bool = True
    ) -> tuple[Session, tuple[str, ...]]:
        """The redacted session, and a note for the receipt if anything was redacted. An id that
        was made from the words is made again from the redacted words, because it would reveal a
        hash of the others; `rename=False` keeps the id of a known session."""
        if self._hook is None:
            return session, ()
        own_id = session.id != id_from_content(session)
        texts = [text for turn in session.turns for text in (turn.speaker, turn.text)]
        texts = list(dict.fromkeys([*texts, session.id]))
        passed = dict(zip(texts, await self._passed(texts), strict=True))
        if own_id and passed[session.id] != session.id:
            raise InvalidSession(
                "The session's id contains text that must be redacted: give the session another "
                f"id. {_NOTHING}"
            )
        turns = tuple(
            turn.model_copy(update={"speaker": passed[turn.speaker], "text": passed[turn.text]})
            for turn in session.turns
        )
        changed = sum(old != new for old, new in zip(session.turns, turns, strict=True))
        passed_labels = await self.labels(session.labels)
        labels = {
            name: value for name, value in passed_labels.items() if name.strip() and value.strip()
        }
        left = as_session(session.model_copy(update={"turns": turns, "labels": labels}))
        if rename and not own_id:
            left = left.model_copy(update={"id": id_from_content(left)})
        return left, (f"{changed} of {len(turns)} turns were redacted",) if changed else ()

    @property
    def active(self) -> bool:
        return self._hook is not None

    async def passes(self, texts: Sequence[str]) -> bool:
        """Whether the hook leaves all of them as they are."""
        return await self._passed(texts) == list(texts)

    async def question(self, text: str) -> str:
        left = await self.name(text)
        if not left.strip():
            raise InvalidQuestion("The question is empty after redaction: ask in other words.")
        return left

    async def name(self, speaker: str) -> str:
        (left,) = await self._passed([speaker])
        return left

    async def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Their names and values, redacted. Some may be empty, or share a name now."""
        names, values = await self._passed([*labels]), await self._passed([*labels.values()])
        return dict(zip(names, values, strict=True))

    async def plan(self, plan: P) -> P:
        """The caller's plan, redacted."""
        if plan is None:
            return plan
        passed = {
            name: tuple(filter(None, [await self.name(text) for text in texts]))
            for name in ("rewrites", "entities")
            if (texts := getattr(plan, name)) is not None
        }
        return plan.model_copy(update=passed)

    async def _passed(self, texts: Sequence[str]) -> list[str]:
        hook = self._hook
        if hook is None:
            return list(texts)
        try:
            # In a thread: a hook may run a model of its own.
            found = await asyncio.to_thread(lambda: [hook(text) for text in texts])
            left = [await each if inspect.isawaitable(each) else each for each in found]
        except Exception as error:  # noqa: BLE001  its message may contain the secret
            raise InvalidSetting(
                f"The redaction hook failed with {type(error).__name__}: correct the setting "
                f"redact. {_NOTHING}"
            ) from None
        for each in left:
            if not isinstance(each, str):
                raise InvalidSetting(
                    f"The redaction hook returned a {type(each).__name__}, not a string: correct "
                    f"the setting redact. {_NOTHING}"
                )
        return left


CARD, KEY, TOKEN = "[card number]", "[API key]", "[token]"
PRIVATE_KEY, PASSWORD = "[private key]", "[password]"


def secrets(text: str) -> str:
    """The text without card numbers, keys and passwords."""
    for pattern, put in _PLAIN:
        text = pattern.sub(put, text)
    text = _ASSIGNED.sub(_assigned, text)
    return _DIGITS.sub(_card, text)


# ---------------------------------------------------------------- known by their shape

_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)",
    re.DOTALL,
)
_JWT = re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")
_PREFIXED = re.compile(
    r"(?<![\w-])(?:"
    r"sk-(?:[A-Za-z]+-){0,3}[\w-]*(?:[A-Za-z]\d|\d[A-Za-z])[\w-]{14,}"  # OpenAI, Anthropic
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}"
    r"|glpat-[\w-]{20,}"
    r"|xox[abeoprs]-[\w-]{10,}"  # Slack
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}"  # Google
    r"|[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{20,}"  # Stripe
    r"|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}"
    r"|dop_v1_[a-f0-9]{40,}|shpat_[a-fA-F0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{30,}"
    r")(?![\w-])"
)
_BEARER = re.compile(r"(?i)(\bbearer[ ]+)(?=[\w.~+/-]*\d)[\w.~+/-]{20,}=*")
_IN_URL = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\[]{1,100}:)[^\s/@\[]{1,200}(?=@)")
# Only values with a digit: "password: required" and "password=getpass()" are no passwords.
_PASSWORD = re.compile(
    r"(?i)(\bpass(?:word|code|phrase|wd)[\"'`]?[ ]?[:=][ ]?[\"'`]?)"
    r"(?=[^\s\"'`,;\[]*\d)[^\s\"'`,;<{$(\[][^\s\"'`,;\[]*"
)
_PLAIN = (
    (_PEM, PRIVATE_KEY),
    (_JWT, TOKEN),
    (_PREFIXED, KEY),
    (_BEARER, rf"\1{TOKEN}"),
    (_IN_URL, rf"\1{PASSWORD}"),
    (_PASSWORD, rf"\1{PASSWORD}"),
)

# ---------------------------------------------------------------- known by the name before them

_ASSIGNED = re.compile(
    r"(?i)(?P<before>\b(?P<name>[\w-]{0,40}(?:key|token|secret|credential)s?)"
    r"(?:[\"'`]?[ ]?(?::|=|:=|=>)[ ]?|[ ]is[:]?[ ])[\"'`]?)"
    r"(?P<value>[A-Za-z0-9_+/.~-]{16,}={0,2})"
)
_VAGUE = frozenset({"key", "keys"})  # also of a cache or a table: a secret only after `=`


def _assigned(found: re.Match[str]) -> str:
    name, value = found["name"].lower(), found["value"]
    if name in _VAGUE and not found["before"].rstrip("\"'`").endswith("="):
        return found[0]
    if not _random(value):
        return found[0]
    return found["before"] + (TOKEN if "token" in name else KEY)


def _random(value: str) -> bool:
    """Letters and digits of high entropy: no path, no word, no name of a variable."""
    digits = sum(c.isdigit() for c in value)
    if not digits or digits == len(value) or "://" in value:
        return False
    if re.fullmatch(r"[a-z]+(?:[-_./][a-z0-9]{1,12})*", value):  # settings.api.v2
        return False
    length = len(value)
    return -sum(n / length * math.log2(n / length) for n in Counter(value).values()) >= 3.0


# ---------------------------------------------------------------- cards

_DIGITS = re.compile(
    r"(?<![\w])(?<!\d[.,-])(?:\d{14,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?"
    r"|3\d{3}([ -])\d{6}\2\d{4,5})(?![\w])(?![.,-]\d)"
)


# Prefixes and lengths of the card networks.
_ISSUED = re.compile(
    r"4\d{15}(?:\d{3})?|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3[0689]\d{12}"
    r"|(?:35|60|62|6[45])\d{14}(?:\d{3})?"
)


def _card(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found[0])
    return CARD if _ISSUED.fullmatch(digits) and _passes_luhn(digits) else found[0]


def _passes_luhn(digits: str) -> bool:
    """Doubles every second digit from the right and adds up the digits."""
    doubled = (int(d) * (1 + place % 2) for place, d in enumerate(reversed(digits)))
    return len(set(digits)) > 1 and sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0
