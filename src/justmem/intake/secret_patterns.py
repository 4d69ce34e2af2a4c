"""The built-in redaction: card numbers, keys and passwords.

What is taken out leaves a word for what it was: `[card number]`. Numbers that fail a card's own
check and words that merely stand near "password" stay: a memory full of holes is of no use. It is
a net for slips, not a proof that nothing secret is left.
"""

from __future__ import annotations

import math
import re
from collections import Counter

CARD, KEY, TOKEN = "[card number]", "[API key]", "[token]"
PRIVATE_KEY, PASSWORD, PIN = "[private key]", "[password]", "[PIN]"


def secrets(text: str) -> str:
    """The text without card numbers, keys and passwords."""
    for pattern, put in _PLAIN:
        text = pattern.sub(put, text)
    text = _ASSIGNED.sub(_assigned, text)
    text = _TOLD.sub(_told, text)
    text = _WRITTEN.sub(_written, text)
    text = _PIN.sub(rf"\1{PIN}", text)
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
_PLAIN = (
    (_PEM, PRIVATE_KEY),
    (_JWT, TOKEN),
    (_PREFIXED, KEY),
    (_BEARER, rf"\1{TOKEN}"),
    (_IN_URL, rf"\1{PASSWORD}"),
)

# ---------------------------------------------------------------- known by what stands before

_ASSIGNED = re.compile(
    r"(?i)(?P<before>\b(?P<name>[\w-]{0,40}(?:key|token|secret|credential)s?)"
    r"(?:[\"'`]?[ ]?(?::|=|:=|=>)[ ]?|[ ]is[:]?[ ])[\"'`]?)"
    r"(?P<value>[A-Za-z0-9_+/.~-]{16,}={0,2})"
)
_VAGUE = frozenset({"key", "keys"})  # of a cache, of a table: only written as `key=` a secret


def _assigned(found: re.Match[str]) -> str:
    name, value = found["name"].lower(), found["value"]
    if name in _VAGUE and not found["before"].rstrip("\"'`").endswith("="):
        return found[0]
    if not _random(value):
        return found[0]
    return found["before"] + (TOKEN if "token" in name else KEY)


def _random(value: str) -> bool:
    """Letters and digits without a rhythm: no path, no word, no name of a variable."""
    digits = sum(c.isdigit() for c in value)
    if not digits or digits == len(value) or "://" in value:
        return False
    if re.fullmatch(r"[a-z]+(?:[-_./][a-z0-9]{1,12})*", value):  # settings.api.v2
        return False
    length = len(value)
    return -sum(n / length * math.log2(n / length) for n in Counter(value).values()) >= 3.0


# ---------------------------------------------------------------- passwords

_PASS = (
    r"(?:pass(?:word|wort|code|phrase|wd)s?|passwort|pwd|kennwort|contraseña|mot de passe|senha)"
)
_QUOTED = r"(?P<open>[\"'`“‘])(?P<phrase>[^\"'`“”‘’\n\[]{1,100})(?P<close>[\"'`”’])"
_TOLD = re.compile(
    rf"(?i)(?P<before>\b{_PASS}(?:[ ](?:for|to|of|on)[ ][^.,;:!?\n]{{1,40}}?)?"
    rf"[ ](?:is now|is|was|ist|es|est|é)[:]?[ ]+)(?:{_QUOTED}"
    r"|(?P<value>[^\s\"'`“”‘’\[]+)(?P<after>[ ]*\S?))"
)
_WRITTEN = re.compile(
    rf"(?i)(?P<before>\b{_PASS}[\"'`]?[ ]?(?::|=|:=|=>|->)[ ]?)"
    rf"(?:{_QUOTED}|(?P<value>[^\s\"'`,;\[]+))"
)
_PIN = re.compile(r"(?i)(\bpin(?:[ ](?:code|number))?(?:[ ]is[:]?[ ]|[ ]?[:=][ ]?))\d{4,8}\b")

# What follows "the password is" without being one.
_ORDINARY = """
    a about active again all also always an and any as at bad being blank broken by case
    changed compromised correct currently default different due easy empty encrypted enough
    even expired expiring false fine forgotten good gone hard hashed hidden in incorrect
    insecure invalid just kept known leaked literally locked long lost missing my needed
    never no none not now null off ok okay old on one only optional or our outdated probably
    protected public random really required reset right safe salted same saved secret secure
    set shared short simple so some still stored strong stronger synced that the their this
    to too true under undefined unique unknown unset up updated valid very weak what where
    which wrong your string text str int bool input field value type prompt login page
    manager
"""
_NOT_ONE = frozenset(_ORDINARY.split())
_CODE = re.compile(r"[<{$(*%]|\w+\(|\w+\.\w+\.|os\.|env\b|\*+\Z|x+\Z|\.+\Z", re.IGNORECASE)


def _told(found: re.Match[str]) -> str:
    """In a sentence: what is quoted, what looks like one, or a word that the sentence ends on."""
    if found["phrase"]:
        return _in_quotes(found)
    value, bare = found["value"], found["value"].rstrip(".,;:!?)")
    last = found["after"].strip() in ("", ".", ",", ";", "!", "?", ")")
    if not _can_be_one(bare) or not (_looks_like_one(bare) or last or bare != value):
        return found[0]
    return f"{found['before']}{PASSWORD}{value[len(bare) :]}{found['after']}"


def _written(found: re.Match[str]) -> str:
    if found["phrase"]:
        return _in_quotes(found)
    value, bare = found["value"], found["value"].rstrip(".)")
    return f"{found['before']}{PASSWORD}{value[len(bare) :]}" if _can_be_one(bare) else found[0]


def _in_quotes(found: re.Match[str]) -> str:
    if not _can_be_one(found["phrase"]):
        return found[0]
    return f"{found['before']}{found['open']}{PASSWORD}{found['close']}"


def _can_be_one(word: str) -> bool:
    return bool(word) and word.lower() not in _NOT_ONE and not _CODE.match(word)


def _looks_like_one(word: str) -> bool:
    inner = word[1:]
    return any(not c.isalpha() and c not in "'’-" for c in word) or inner != inner.lower()


# ---------------------------------------------------------------- cards

_DIGITS = re.compile(
    r"(?<![\w])(?<!\d[.,-])(?:\d{14,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?"
    r"|3\d{3}([ -])\d{6}\2\d{4,5})(?![\w])(?![.,-]\d)"
)


def _card(found: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", found[0])
    return CARD if _issued(digits) and _checks(digits) else found[0]


def _issued(digits: str) -> bool:
    """Whether a network gives out numbers that begin so and are so long."""
    four, length = int(digits[:4]), len(digits)
    if digits[0] == "4":
        return length in (16, 19)
    if 5100 <= four <= 5599 or 2221 <= four <= 2720:
        return length == 16
    if digits[:2] in ("34", "37"):
        return length == 15
    if digits[:2] in ("30", "36", "38", "39"):
        return length == 14
    if 3528 <= four <= 3589 or four == 6011 or 6440 <= four <= 6599 or digits[:2] == "62":
        return length in (16, 19)
    return False


def _checks(digits: str) -> bool:
    """Luhn's check: every second digit from the right doubled, its digits added up."""
    doubled = (int(d) * (1 + place % 2) for place, d in enumerate(reversed(digits)))
    return len(set(digits)) > 1 and sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0
