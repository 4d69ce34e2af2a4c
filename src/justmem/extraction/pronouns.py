"""First and second person turned into names: "I went" -> subject "Caroline", fact "went"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from justmem.extraction.verbs import BASES, agree, is_adverb, is_past, singular


@dataclass(frozen=True, slots=True)
class Voices:
    """Who speaks, and to whom; `other` is empty where more than one could be meant."""

    speaker: str
    other: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    subject: str
    fact: str


_EXPANSIONS = (
    (re.compile(r"\b(I)'?m\b", re.IGNORECASE), r"\1 am"),
    (re.compile(r"\b(I|we|you|they)'?ve\b", re.IGNORECASE), r"\1 have"),
    (re.compile(r"\b(I|we|you|they|he|she|it|that|there)'ll\b", re.IGNORECASE), r"\1 will"),
    (re.compile(r"\b(we|you|they)'re\b", re.IGNORECASE), r"\1 are"),
    (
        re.compile(r"\b(I|we|you)'d (been|had|gone|always wanted|never|already)\b", re.IGNORECASE),
        r"\1 had \2",
    ),
    (re.compile(r"\b(I|we|you)'d\b", re.IGNORECASE), r"\1 would"),
    (re.compile(r"\bgonna\b", re.IGNORECASE), "going to"),
    (re.compile(r"\bwanna\b", re.IGNORECASE), "want to"),
    (re.compile(r"\b(I|we) gotta\b", re.IGNORECASE), r"\1 have to"),
)


def expand(text: str) -> str:
    """Contractions of persons written out, quotes made plain."""
    text = text.replace("’", "'").replace("‘", "'").replace("“", '"').replace("”", '"')
    for pattern, plain in _EXPANSIONS:
        text = pattern.sub(plain, text)
    return text


# ---------------------------------------------------------------- objects and possessives

_FIRST = (
    (re.compile(r"\b(?:my|our) own\b", re.IGNORECASE), "their own"),
    (re.compile(r"\b(?:my|our)\b", re.IGNORECASE), "their"),
    (re.compile(r"\b(?:mine|ours)\b", re.IGNORECASE), "theirs"),
    (re.compile(r"\b(?:myself|ourselves)\b", re.IGNORECASE), "themselves"),
    (re.compile(r"\b(?:me|us)\b"), "them"),
)
# "If you", "makes you": people in general, not the other speaker.
_GENERIC = re.compile(
    r"\b(?:if|when|once|whenever|unless|until|as|whatever|wherever|how|what|where|make|makes|made"
    r"|making|give|gives|giving|let|lets|help|helps|helping|remind|reminds|take|takes|teach"
    r"|teaches|keep|keeps|around|tell|tells|show|shows|and|that|so|because|but|things) you\b"
    r"|\byou (?:can|could|gotta|never know|just|have to|need to|know|get|really|don't|should)\b",
    re.IGNORECASE,
)


def _objects(text: str) -> str:
    for pattern, plain in _FIRST:
        text = pattern.sub(plain, text)
    return text


def _second_person(text: str, other: str) -> str:
    """ "You" becomes the other speaker, unless it may mean anyone."""
    if not other or _GENERIC.search(text):
        return text
    text = re.sub(r"\byour\b", f"{other}'s", text, flags=re.IGNORECASE)
    text = re.sub(r"\byours\b", f"{other}'s", text, flags=re.IGNORECASE)
    text = re.sub(
        r"\b(are|were|have|do|did|will|would|can|could|should) you\b",
        lambda m: f"{agree(m[1])} {other}",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(
        r"\byou ((?:\w+ly |just |also |still )?)([a-z']+)",
        lambda m: f"{other} {m[1]}{_after_name(m[2])}",
        text,
        flags=re.IGNORECASE,
    )
    return re.sub(r"\byou\b", other, text, flags=re.IGNORECASE)


def _after_name(word: str) -> str:
    """Agreement only where the word surely is a verb: "you in May" has none."""
    low = word.lower()
    return agree(word) if low in BASES or low in ("were", "aren't", "haven't", "don't") else word


def question_about(question: str, asked: str) -> str:
    """A question put to someone, naming them: "Where did you go?" -> "Where did John go?"."""
    text = expand(question)
    text = re.sub(r"\byourself\b", "themselves", text, flags=re.IGNORECASE)
    text = re.sub(r"\byours?\b", f"{asked}'s", text, count=1, flags=re.IGNORECASE)
    text = re.sub(r"\byours?\b", "their", text, flags=re.IGNORECASE)
    text = re.sub(
        r"\b(are|were|have|do|did|will|would|can|could|should|haven't|don't|aren't) you\b",
        lambda m: f"{_capital_as(m[1], agree(m[1]))} {asked}",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(
        r"\byou ([a-z']+)", lambda m: f"{asked} {_after_name(m[1])}", text, flags=re.IGNORECASE
    )
    return re.sub(r"\byou\b", asked, text, flags=re.IGNORECASE)


def _capital_as(model: str, word: str) -> str:
    return word[0].upper() + word[1:] if model[:1].isupper() else word


# ---------------------------------------------------------------- subjects

_LEAD = re.compile(
    r"^(?P<lead>(?:(?:last|this|next|on|in|at|during|after|before|since|over|yesterday|today"
    r"|tonight|recently|lately|sometimes|usually|currently|these days|right now|for|as an?|when"
    r"|the other day|one day|once|earlier)\b[^,;.!?]{0,60}?),?\s+)?"
    r"(?P<who>I|we)\s+(?P<rest>\S.*)$",
    re.IGNORECASE | re.DOTALL,
)
_POSSESSED = re.compile(
    r"^(?:my|our)\s+(?P<noun>(?:[\w'&-]+\s+){1,4}?)(?P<verb>is|are|was|were|has|have|had|will|would"
    r"|can|could|did|does|do|isn't|wasn't|aren't|don't|doesn't|didn't|love|loves|loved|like|likes"
    r"|liked|went|got|came|gave|took|made|works?|worked|lives?|lived|used|wants?|wanted|helps?"
    r"|helped|keeps?|kept|means?|meant|said|told|passed|[a-z]{3,}ed)\b(?P<rest>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_DROPPED = re.compile(
    r"^(?P<adverbs>(?:\w+ly\s+|just\s+|also\s+|still\s+)*)(?P<verb>[\w']+)\b(?P<rest>.*)$",
    re.DOTALL,
)
_NOT_PARTICIPLES = frozenset(
    ("nothing", "something", "everything", "anything", "evening", "morning", "king", "thing")
) | {"spring", "during", "string", "ring", "wedding", "painting", "according", "being", "seeing"}


def tell(statement: str, voices: Voices) -> Told:
    """The statement in the third person, with its subject apart. Where the speaker is not the
    subject, the fact is what the speaker said."""
    text = _second_person(expand(statement), voices.other)
    opening = _LEAD.match(text)
    if opening:
        return Told(voices.speaker, _first_person(opening))
    owned = _POSSESSED.match(text)
    if owned:
        noun = owned["noun"].strip()
        rest = _rest(f"{owned['verb']}{owned['rest']}")
        return Told(f"{voices.speaker}'s {_objects(noun)}", rest)
    dropped = _dropped(text)
    if dropped is not None:
        return Told(voices.speaker, _rest(dropped))
    return Told(voices.speaker, "said " + _rest(_uncapital(text)))


def _first_person(opening: re.Match[str]) -> str:
    fact = _rest(singular(opening["rest"]))
    lead = (opening["lead"] or "").strip(" ,")
    if not lead:
        return fact
    lead = _rest(_uncapital(lead))
    # "Yesterday I went hiking" -> "went hiking yesterday", unless the end is already crowded.
    if len(lead.split()) <= 5 and not re.search(r"[.!?;]", fact):
        return f"{fact} {lead}"
    return f"{fact} ({lead})"


def _dropped(text: str) -> str | None:
    """ "Had a wild week", "Trying to fix it", "Been busy": the speaker is meant."""
    match = _DROPPED.match(text)
    if match is None:
        return None
    verb, rest = match["verb"].lower(), match["rest"]
    adverbs = match["adverbs"].lower()
    if verb == "been":
        return f"has {adverbs}been{rest}"
    if verb in ("gonna", "going"):
        return f"is {adverbs}going{rest}"
    if verb.endswith("ing") and len(verb) > 4 and verb not in _NOT_PARTICIPLES:
        # "Running is my escape" has a verb of its own; "Trying to fix it" has not.
        if re.match(
            r"[^,.!?]*\b(?:is|are|was|were|has|have|can|will|makes?|gives?|helps?)\b", rest
        ):
            return None
        return f"is {adverbs}{verb}{rest}"
    if (is_past(verb) and rest.strip() and not is_adverb(verb)) or verb in ("can't", "don't"):
        if verb in ("could", "would", "should", "might", "did", "was", "were", "used"):
            return None
        return f"{adverbs}{agree(verb)}{rest}"
    return None


def _rest(text: str) -> str:
    """Later mentions of the speaker: dropped after "and", "they" elsewhere."""
    text = re.sub(
        r"\b(and|but)(,?) (?:I|we) ((?:\w+ly |just |also |still |even )*)([a-z']+)",
        lambda m: f"{m[1]}{m[2]} {m[3]}{agree(m[4])}",
        text,
    )
    text = re.sub(r"\b(?:I|we) am\b", "they are", text, flags=re.IGNORECASE)
    text = re.sub(r"\bam I\b", "are they", text)
    text = re.sub(r"\b(?:I|we) was\b", "they were", text, flags=re.IGNORECASE)
    text = re.sub(r"\bI\b|\b[Ww]e\b", "they", text)
    return _objects(text).strip()


def _uncapital(text: str) -> str:
    """A sentence's capital goes, a name's stays."""
    first = re.match(r"[A-Z][a-z']*\b(?!\s+[A-Z])", text)
    if first and first.group().lower() in _COMMON:
        return text[0].lower() + text[1:]
    return text


_COMMON = frozenset(
    """the a an it that this these those there they he she his her its their my our we you your
    some many most all both each every one two three here what when where who why how if as at on
    in for from with without after before during since while because so and but or not no yes
    people everyone everything someone something nothing nature life being seeing having getting
    going making taking working helping even just also sometimes last next another such to by up
    it's that's there's here's they're he's she's who's what's let's kids family friends music art
    yesterday today tonight recently now then once about around over only hopefully maybe
    definitely sounds looks seems feels""".split()  # noqa: SIM905
)
