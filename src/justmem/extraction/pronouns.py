"""First and second person turned into names: "I went" -> subject "Nora", fact "went"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from justmem.extraction.verbs import BASES, agree, is_adverb, is_past, singular
from justmem.words import is_stop


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
    (re.compile(r"(?<![\w.'])i(?=['\s])(?!\.)"), "I"),
    (re.compile(r"\bI'?m\b|\bIm\b"), "I am"),
    (re.compile(r"\b(I|we|you|they)'?ve\b", re.IGNORECASE), r"\1 have"),
    (re.compile(r"\b(I|we|you|they|he|she|it|that|there)'ll\b", re.IGNORECASE), r"\1 will"),
    (re.compile(r"\b(we|you|they)'re\b", re.IGNORECASE), r"\1 are"),
    (
        re.compile(r"\b(I|we|you)'d (been|had|gone|always wanted|never|already)\b", re.IGNORECASE),
        r"\1 had \2",
    ),
    (re.compile(r"\b(I|we|you)'d\b", re.IGNORECASE), r"\1 would"),
    (re.compile(r"\b(where|what|how|why|when|who)'d (you|they|he|she)\b", re.I), r"\1 did \2"),
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


# ---------------------------------------------------------------- the speaker, by name

_MENTION = re.compile(
    r"\b(?:(?P<joined>and|but),? )?(?P<who>I|[Ww]e)\b(?P<adverbs>(?: (?:\w+ly|just|also|still|even"
    r"|never|always|last|first|all|both))*) (?P<verb>[a-z']+)"
    r"|\b(?P<turned>am|was|have|do|did|can|will|could|should|would) (?:I|we)\b"
    r"|\b(?P<alone>I|[Ww]e)\b|\b(?P<own>[Mm]y|[Oo]ur)\b|\b(?P<owned>mine|ours)\b"
    r"|\b(?P<self>myself|ourselves)\b|\b(?P<object>me|us)\b"
)
# "My mate and I are": who does it beside the speaker, so the verb stays as it is.
_PARTNER = re.compile(
    r"(?:(?:my|the|our|a) [\w'-]+(?: [\w'-]+)?|[A-Z][\w-]+|my [\w'-]+, [\w'-]+,?) ", re.IGNORECASE
)
_PLURAL = {"am": "are", "was": "were", "wasn't": "weren't", "isn't": "aren't", "'m": "are"}


def by_name(text: str, name: str, *, subject: bool = True) -> str:
    """Every mention of the speaker in the third person: the first by name, for a card must be
    clear (and found) on its own; the rest as "they", for nobody's gender is guessed. Where the
    speaker is the `subject`, "and I went" is "and went"."""
    named = False

    def mention(match: re.Match[str]) -> str:
        nonlocal named
        verb = match["verb"]
        if match["joined"] and subject and match.start() > 0:
            return f"{match['joined']}{match['adverbs']} {agree(verb)}"
        if match["self"]:
            return "themselves"
        first, named = not named, True
        if verb:
            lead = f"{match['joined']} " if match["joined"] else ""
            if match["joined"] == "and" and _PARTNER.fullmatch(text[: match.start()]):
                return f"{lead}{name}{match['adverbs']} {verb}"
            if first:
                return f"{lead}{name}{match['adverbs']} {agree(verb)}"
            return f"{lead}they{match['adverbs']} {_PLURAL.get(verb, verb)}"
        if match["turned"]:
            turned = match["turned"]
            return f"{agree(turned)} {name}" if first else f"{_PLURAL.get(turned, turned)} they"
        if match["own"]:
            return f"{name}'s" if first else "their"
        if match["owned"]:
            return f"{name}'s" if first else "theirs"
        if match["object"]:
            return name if first else "them"
        return name if first else "they"

    return _MENTION.sub(mention, text).strip()


# "If you", "makes you": people in general, not the other speaker.
_GENERIC = re.compile(
    r"\b(?:if|when|once|whenever|unless|until|as|whatever|wherever|how|what|where|make|makes|made"
    r"|making|give|gives|giving|let|lets|help|helps|helping|remind|reminds|take|takes|teach"
    r"|teaches|keep|keeps|around|tell|tells|show|shows|and|that|so|because|but|things) you\b"
    r"|\byou (?:can|could|gotta|never know|just|have to|need to|know|get|really|don't|should)\b",
    re.IGNORECASE,
)


def _second_person(text: str, other: str) -> str:
    """ "You" becomes the other speaker, unless it may mean anyone."""
    if not other or _GENERIC.search(text):
        return text
    text = re.sub(r"\byour\b", f"{other}'s", text, flags=re.IGNORECASE)
    text = re.sub(r"\byours\b", f"{other}'s", text, flags=re.IGNORECASE)
    text = re.sub(
        r"(?<!to )(?<!not )\b(are|were|do|did|will|would|can|could|should) you\b",
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
        r"(?P<before>\b(?:make|makes|made|let|lets|help|helps|helped) )?"
        r"\byou (?P<verb>[a-z']+)",
        # "What made you try it?": the verb follows another, and stays as it is.
        lambda m: (
            f"{m['before'] or ''}{asked} " + (m["verb"] if m["before"] else _after_name(m["verb"]))
        ),
        text,
        flags=re.IGNORECASE,
    )
    return re.sub(r"\byou\b", asked, text, flags=re.IGNORECASE)


def _capital_as(model: str, word: str) -> str:
    return word[0].upper() + word[1:] if model[:1].isupper() else word


# ---------------------------------------------------------------- subjects

# What "this" and "last" name where they say when: "this book I read" does not.
_TIME = (
    r"weeks?|weekends?|months?|years?|days?|nights?|mornings?|afternoons?|evenings?|time|spring"
    r"|summer|autumn|fall|winter|season|semester|term|holidays?|(?:sun|mon|tues|wednes|thurs|fri"
    r"|satur)days?|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|christmas|easter|thanksgiving|birthday|hour"
)
_LEAD = re.compile(
    r"^(?P<lead>(?:"
    r"(?:since|when|after|before|while|as|if|whenever|once|because)\b[^,.!?;]{3,70},"
    rf"|(?:(?:last|this|next|the other|every)(?= (?:[\w'-]+ ){{0,2}}?(?:{_TIME})\b)"
    r"|on|in|at|during|over|for|as an?|back in)"
    r" (?:(?! - |(?<= )(?:was|were|is|are|has been) )[^,;.!?—–]){2,40}?(?<! and),?"
    r"|(?:yesterday|today|tonight|recently|lately|sometimes|usually|currently|earlier|now|once"
    r"|one day"
    r"|yesterday (?:morning|evening|afternoon)),?"
    r") )?(?P<who>I|[Ww]e(?: all)?)\s+(?P<rest>\S.*)$",
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
    r"^(?P<adverbs>(?:(?:really|recently|finally|actually|definitely|just|also"
    r"|still) )*)(?P<verb>[\w']+)\b(?P<rest>.*)$",
    re.DOTALL,
)
_NOT_PARTICIPLES = frozenset(
    ("nothing", "something", "everything", "anything", "evening", "morning", "king", "thing")
) | {"spring", "during", "string", "ring", "wedding", "painting", "according", "being", "seeing"}


def tell(statement: str, voices: Voices) -> Told:
    """The statement in the third person, with its subject apart. Where the speaker is not the
    subject, the fact is what the speaker said."""
    text = _SINCE.sub(r"since they \1", expand(statement))
    text = _second_person(_together(text, voices), voices.other)
    name = voices.speaker
    several = _SEVERAL.match(text)
    if several:
        they = "together they " if several["together"] else "they "
        return Told(name, f"said {they}{by_name(text[several.end() :], name)}")
    opening = _LEAD.match(text)
    if opening:
        return Told(name, _first_person(opening, name))
    owned = _POSSESSED.match(text)
    if owned:
        rest = by_name(f"{owned['verb']}{owned['rest']}", name)
        noun = owned["noun"].split()
        if noun[-1] in ("I", "me"):  # "My partner and I told": both did
            noun[-1] = name
        if not is_adverb(noun[-1].lower()):
            return Told(f"{name}'s {' '.join(noun)}", rest)
    dropped = _dropped(text)
    if dropped is not None:
        return Told(name, by_name(dropped, name))
    text = uncapital(re.sub(r"^(?:but|and)\s+", "", text, flags=re.IGNORECASE))
    return Told(name, "said " + by_name(text, name, subject=False))


# The two who talk, not the speaker alone.
_SINCE = re.compile(
    r"\bsince we (?:last )?(talked|spoke|chatted|met)\b(?=\s*(?:[,.;!-]|and\b|but\b|$))",
    re.IGNORECASE,
)
# "We are a small church", "together we can": the speaker alone is none, and cannot.
_SEVERAL = re.compile(
    r"(?P<together>together,? )we (?=\w)"
    r"|we (?=are (?:both |an? (?!bit|little|lot|few|couple of|day|week|month|year)\b)"
    r"|(?:can|could|must|need to|have to|should|will) all\b)",
    re.IGNORECASE,
)


def _together(text: str, voices: Voices) -> str:
    """ "We both": the two who talk."""
    if not voices.other:
        return text
    pair = f"{voices.speaker} and {voices.other}"
    text = re.sub(r"\b(?:we|us) both\b", f"{pair} both", text, flags=re.IGNORECASE)
    return re.sub(r"\b(?:you and I|you and me|me and you)\b", pair, text, flags=re.IGNORECASE)


def _first_person(opening: re.Match[str], name: str) -> str:
    fact = by_name(singular(opening["rest"]), name)
    lead = (opening["lead"] or "").strip(" ,")
    if not lead:
        return fact
    lead = by_name(lead[0].lower() + lead[1:], name)
    # "Last week I joined a group, and it's fun" -> "joined a group last week, and it's fun".
    if len(lead.split()) > 5:
        return f"{fact} ({lead})"
    first = _CLAUSE.search(fact)
    cut_at = first.start() if first else len(fact)
    return f"{fact[:cut_at]} {lead}{fact[cut_at:]}"


_CLAUSE = re.compile(
    r"[;:.!?(]|, (?:and|but|so|which|because|it|it's)\b| [-–—] |—| (?:but|so|which|because)\b"
    r"| and (?:it|they|he|she|was|is|got|had|felt|saw|met|it's|that)\b"
)


def _dropped(text: str) -> str | None:
    """ "Had a wild week", "Trying to fix it", "Been busy": the speaker is meant."""
    match = _DROPPED.match(text)
    if match is None:
        return None
    verb, rest, adverbs = match["verb"].lower(), match["rest"], match["adverbs"].lower()
    if verb == "gotta":
        return f"{adverbs}has to{rest}"
    if _FEELS.match(text):
        return f"is {text[0].lower()}{text[1:]}"
    if verb == "been":
        return f"has {adverbs}been{rest}"
    if verb.endswith("ing") and len(verb) > 4 and verb not in _NOT_PARTICIPLES:
        # "Running is my escape" has a verb of its own; "Trying to fix it" has not.
        if rest.startswith((",", "'")) or _OWN_VERB.match(rest):
            return None
        return f"is {adverbs}{verb}{rest}"
    if verb == "don't":
        negated = re.match(r" (?:know|want|have|think|like|get|see|feel|need|even|really)\b", rest)
        return f"{adverbs}doesn't{rest}" if negated else None
    if verb in _DROPS and rest.strip() and not _IS.match(rest):  # "Love is hard" is about love
        return f"{adverbs}{agree(verb)}{rest}"
    if verb in ("could", "would", "should", "might", "did", "was", "were", "used"):
        return None
    if (is_past(verb) and rest.strip() and not is_adverb(verb)) or verb == "can't":
        return f"{adverbs}{agree(verb)}{rest}"
    return None


# "So excited to go", "Glad work is going well": feelings, and whose they are is plain. "Happy
# birthday" and "proud moments" are none.
_FEELS = re.compile(
    r"(?:(?:so|super|really|very|just|totally|also|still) )*"
    r"(?:glad|thrilled|stoked|pumped|grateful|thankful|sorry"
    r"|(?:excited|scared|worried|relieved|anxious|happy|proud|nervous|ready|sad|lucky|tired|curious"
    r"|keen|eager|ashamed|afraid|confident)"
    r"(?= (?:to|about|that|for|of|with|at|when|because|I|we|they|you|he|she|it|my|our|your)\b))"
    r"(?= (?!(?:is|are|was|were)\b))",
    re.IGNORECASE,
)
_DROPS = frozenset(("wish", "need", "want", "think", "feel", "guess", "miss", "hate", "enjoy"))
_DROPS |= {"prefer", "love", "hope", "plan", "believe", "haven't", "am", "have"}
_IS = re.compile(r"\s+(?:is|are|was|were|can|has|isn't|can't)\b")
_OWN_VERB = re.compile(
    r"[^.!?;]*?(?:\b(?:is|are|was|were|has|can|will|makes|gives|helps|brings|means|feels|takes|keeps"
    r"|fills|gets|warms|reminds|must|would|could|should|might|isn't|aren't|wasn't|hasn't|can't"
    r"|won't|doesn't)\b"
    r"|'s (?:my|the|a|so|been)\b|(?<!that )(?<!which )\b(?:sounds|seems)\b)"
)


def uncapital(text: str) -> str:
    """A sentence's capital goes, a name's stays."""
    first = re.match(r"[A-Z][a-z']*\b(?!\s+[A-Z])", text)
    if first is None:
        return text
    word = first.group().lower()
    verb = word in BASES or word.removesuffix("s") in BASES
    if word in _COMMON or is_stop(word) or verb or word.endswith(("ing", "ly")):
        return text[0].lower() + text[1:]
    return text


_COMMON_WORDS = """each every people everyone everything someone something nothing nature life even
sometimes last next another it's that's there's here's they're he's she's who's what's let's kids
family friends music art yesterday today tonight recently maybe definitely sounds looks seems feels
breath-taking family's life's nature's work practice hard good great nice new old fun happy small
since almost never whenever whatever while though although until till between long funny crazy
four five six seven eight nine ten gotta reminds being little big first second best sure super
pretty love time home school dogs cats books"""
_COMMON = frozenset(_COMMON_WORDS.split())
