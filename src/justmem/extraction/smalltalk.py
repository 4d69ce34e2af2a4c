"""What people say to be kind: greetings, thanks, praise, goodbyes. No memory is made of it."""

from __future__ import annotations

import re
from collections.abc import Collection

from justmem.words import content

_INTERJECTION = re.compile(
    r"^(?:(?:no (?:worries|problem|doubt|way)|oh yeah|however|besides that|either way|wow|oh"
    r"|ooh|aww?|yeah|yep|yup|yes|no|nope|nah|sure|ok|okay|well|so|haha|hah|lol|hmm+|ah"
    r"|hey|hi|hello|thanks|thank you|thx|cool|nice|great|awesome|amazing|exactly|absolutely|totally"
    r"|definitely|definetly|agreed|right|true|sweet|yay|woah|whoa|man|dude|btw"
    r"|(?:and |but |oh,? )?by the way|interesting|listen|anyway"
    r"|anyways|also|and|but|plus|oh yeah|for sure|of course|no worries|no problem|congrats"
    r"|congratulations|i know|i agree|i see|sorry|gotcha|(?:so )?guess what|actually|honestly"
    r"|luckily|you(?:'ll never| won't| will not) believe (?:it|this|what happened)"
    r"|(?:speaking|talking) of [^,.!?]{2,30}"
    r"|unfortunately|hopefully|fortunately|speaking of which|you know|i mean|like|same|same here"
    r"|totally get it|i (?:totally |really )?get it|i feel you|no doubt|good question|fyi"
    r"|glad to hear"
    r"|(?:good )?(?:morning|afternoon|evening)"
    r"|(?:some |such )?(?:exciting|big|great|good|amazing|awesome|sad|bad) news"
    r"|good to know|no way|my bad|phew|woohoo|yikes|ugh|hmm|well done|so true)"
    r"(?:\s+(?:so much|a lot|again|there|guys?|everyone|buddy|bro|man|girl|friend|yeah|no))?"
    r"(?:\s*[,!.:;…]+-*\s*|\s*[-–—]+\s+|\s+(?=[A-Z][a-z]+[,!.]))"
    r"|(?:and |but |oh,? )?wow,? (?=(?:that|this|these|those|what|the)\b))+",
    re.IGNORECASE,
)
_GOOD = (
    r"great|awesome|amazing|cool|nice|wonderful|fantastic|lovely|incredible|good|sweet|rad|wild"
    r"|crazy"
    r"|inspiring|impressive|exciting|brilliant|beautiful|adorable|cute|fun|funny|tough|rough"
    r"|hard|sad"
    r"|terrible|bummer|true|right|perfect|delicious|gorgeous|powerful|touching|interesting|lit|neat"
    r"|epic|stunning|sick|dope|news|idea|plan|shame|yummy|tasty|blast|time"
)
_VERY = r"(?:\w+ly |so |such an? |an? |very |pretty |too |just |like |the )*"
_ADVICE = (
    r"steps?|tips?|suggestions?|ideas?|recommendations?|resources?|options?|advice|methods?"
    r"|techniques?|exercises?|links?|websites?|sites?|apps?|points?|examples?|ones?"
)
_KIND = "|".join(
    (
        # meeting and parting
        r"(?:so )?(?:good|great|nice|lovely|awesome) (?:to|hearing|seeing|talking|chatting"
        r"|catching)\b.*",
        r"(?:good|great|nice) (?:morning|afternoon|evening|night|job|work|one|luck|idea|plan"
        r"|call)\b.*",
        rf"(?:it's|it is|it was) {_VERY}(?:{_GOOD}) (?:to (?:see|hear|chat|talk|catch)|seeing"
        rf"|hearing"
        r"|talking|chatting|catching)\b.*",
        r"(?:hey|hi|hello|yo|sup)\b.{0,25}",
        r"(?:take care|(?:talk|chat|speak) (?:to|soon|later)|ttyl|see you|see ya|catch you|bye"
        r"|later|cheers|let me know|stay)\b.*",
        r"(?:i )?(?:will |'ll |i'll )(?:keep you|catch (?:up|you)|let you|talk|see you|ttyl)\b.*",
        r"(?:can't wait to (?:see|hear)|looking forward to (?:it|hearing|seeing))\b.*",
        # praise
        rf"(?:that|this|it|those|these)(?:'s| is| are| was| were| sounds?| looks?"
        rf"| must(?:'ve| have)? be(?:en)?| seems?) (?:some |all )?{_VERY}"
        rf"(?:{_GOOD})(?: (?:{_GOOD}|{_ADVICE}|to hear|stuff|job|work|pic|photo|shot|pics|picture"
        rf"|thing|dude|man"
        r"|bro|really|so))*",
        rf"(?:sounds|looks) {_VERY}(?:\w+ ){{0,2}}(?:{_GOOD})(?: to me)?"
        r"(?:,? (?:thanks?|thank you)\b.*)?",
        r"(?:that |this |it )?(?:makes? (?:\w+ ){0,3}sense|works)(?: (?:to|for) me)?(?: now)?",
        r"i (?:sure |really )?(?:hope|think|guess|suppose|believe) (?:so|not)(?: too)?",
        r"you(?:'re| are) (?:\w+ly |so |such an? |an? )*(?:amazing|awesome|great|welcome|right"
        r"|doing"
        r"|making|inspiring|incredible|killing|the best|sweet|strong|rockin\w*|on|spot|gonna|one"
        r"|wonderful|truly|talented|not alone)\b.*",
        r"(?:way to|what a|love (?:it|that|this|to hear)|congrats|congratulations|go for it)\b.*",
        r"so (?:cool|awesome|great|true|sweet|proud|nice)\b.*",
        r"i (?:just |always )?knew (?:it|that)",
        # thanks and sympathy
        r"(?:i'm|i am|so|really|just|very|super|i was)? ?(?:so |really |very |super )?(?:glad|happy"
        r"|thrilled|excited|proud|sorry|stoked|pumped) (?:for you|to (?:hear|help|see)|you|that you"
        r"|about that|it|of you|i could)\b.*",
        r"(?:i )?(?:really |truly |totally |so )?appreciate (?:it|that|you|your)\b.*",
        r"(?:thanks?|thank you|means a lot|it means a lot|your (?:support|words|kind))\b.*",
        r"(?:you're welcome|welcome|my pleasure|anytime|no problem|no worries|sure thing"
        r"|of course)\b.*",
        r"i (?:totally |really |completely )?(?:get|feel|hear) (?:it|that|you|what|how)\b.*",
        r"i (?:bet|can (?:imagine|see|tell))\b.*",
        r"i (?:\w+ly |couldn't |could not )?agree(?: more)?(?: with (?:you|that|this))?",
        # encouragement
        r"(?:keep|good luck|best of luck|have (?:a|fun)|enjoy|wishing|sending|hang in"
        r"|bring it on)\b.*",
        r"hope (?:you|to|it|all|everything)\b.*",
        r"(?:don't (?:worry|give up|hesitate)|you(?:'ve)? got this|i believe in you"
        r"|count me in)\b.*",
        r"(?:i'm here|here for you|same here|me too|you too|likewise|happy to)\b.*",
        r"(?:i )?(?:definitely |totally |really |sure )?(?:will|won't)(?: do| forget)?(?: that"
        r"| it| so)?",
        r"let's (?:keep|do it|go|catch|make|stay|chat|talk)\b.*",
        r"we (?:rock|(?:have )?got this|can do (?:it|this|that))(?: together)?",
        r"fingers crossed\b.*|(?:i )?feel the same(?: way)?|long time no (?:see|talk|chat)\b.*",
        r"(?:remember,? )?(?:i'm|i am) (?:always |just |still )*here (?:if|for you|whenever)\b.*",
        # taking advice
        r"(?:i think )?(?:i'll|i will|i'm going to|i'm gonna|gonna|will)"
        r"(?: definitely| certainly| surely| probably| just| also| be sure to| make sure to)*"
        r" (?:try|check|look|give|keep|use|follow|consider|take|start|do|go)"
        r"(?: out| into| at| with| over| through)?(?: some of| all of| all| both of| both| one of)?"
        rf" (?:it|that|those|these|them|this|your)(?: (?:{_ADVICE}))?"
        r"(?: out| a try| a shot| a go| in mind| into account| into consideration| a look| for sure"
        r"| too| then| first| today| now| soon)*(?:,? (?:thanks?|thank you)\b.*)?",
        rf"i (?:really |also |do |definitely )*(?:like|love|appreciate) (?:all )?(?:of )?"
        rf"(?:those|these|the|your) (?:{_ADVICE})(?:,? (?:thanks?|thank you)\b.*)?",
        r"(?:i think |i guess )?(?:that's|that is) (?:all|everything|it)(?: for (?:now|today)"
        r"| i (?:need|have|wanted)\b.*)?",
        r"i (?:think|guess) (?:i'll|i will) (?:stop|leave it) here\b.*",
        # asking back
        r"how(?:'s| is| are| have| has)? (?:it|you|things|everything|life|ya|u|about you)\b.*",
        r"what(?:'s| is) (?:up|new|going on|happening)\b.*|(?:what|how) about (?:you|yours)\b.*",
    )
)
_PLEASANTRY = re.compile(rf"^(?:{_KIND})$", re.IGNORECASE | re.DOTALL)


def strip_interjections(sentence: str, people: Collection[str]) -> str:
    """Without "Wow, ", "Thanks, Maria! " and the like at its head, and names called at its ends."""
    text = re.sub(r"^[^\w\"'($€£#@\[]+", "", sentence.strip())
    called = "|".join(re.escape(name) for name in sorted(people, key=len, reverse=True) if name)
    while True:
        before = text
        text = _INTERJECTION.sub("", text)
        if called:
            text = re.sub(rf"^(?:{called})\s*[,!.:-]+\s*", "", text)
        text = _THANKS.sub("", _CONJUNCTION.sub("", text))
        text = _without_kind_words(text)
        if called:
            text = re.sub(rf",\s*(?:{called})\s*([.!?]*)$", r"\1", text)
        if text == before:
            return text


_THANKS = re.compile(r"^(?:thanks|thank you|thx|appreciate)\b[^,.!?]{0,60}[,!]\s*", re.IGNORECASE)
_CONJUNCTION = re.compile(
    r"^(?:so|and|but|plus|also|well|then|haha|lol|cuz|cause|btw|by the way|oh|yeah|yep|yes|no|ok"
    r"|okay|anyway|anyways|actually|honestly|luckily|sadly|thankfully|unfortunately)\s+"
    r"(?=(?:I|I'\w+|we|we're|we've|my|our|it|it's|the|this|that|there|they|he|she|you|here|a"
    r"|an)\b)",
    re.IGNORECASE,
)


def _without_kind_words(text: str) -> str:
    """ "It's great to see you, I just came from Molde" -> "I just came from Molde"."""
    clause = re.match(r"([^,;!?—-]{4,80}?)(?:[,;!]| [-–—]|—)\s+(?=\S+ \S+ \S+)", text)
    if clause is None or _GOES_ON.match(text, clause.end()):
        return text
    if _PLEASANTRY.match(clause[1].replace("’", "'")) and len(content(clause[1])) <= 4:
        return text[clause.end() :]
    return text


# "I like those ideas, especially the second": what follows means nothing alone.
_GOES_ON = re.compile(
    r"(?:especially|particularly|mainly|mostly|including|such as)\b", re.IGNORECASE
)

_GREETING = re.compile(
    r"^(?:hey|hi|hello|so|and|well)?[, ]*(?:how(?:'s|'ve|'re| is| are| have| has)? (?:it|you|ya|u"
    r"|things|everything|life|your day|your week)\b.{0,25}|what(?:'s| is| has"
    r"|'ve)? (?:\w+ )?(?:up|new|good"
    r"|going on|happening|been up|been happening)\b.{0,25}|(?:what|how) about (?:you|u|yours)"
    r"|(?:and )?you|anything (?:new|else)\b.{0,20}|really|right|isn't it|don't you think"
    r"|know what i mean|i know,? right"
    r"|guess what|long time no (?:see|talk))\W*$",
    re.IGNORECASE,
)


def is_greeting(question: str) -> bool:
    """A question that asks for nothing in particular."""
    return len(question) < 4 or bool(_GREETING.match(question.replace("’", "'")))


def is_pleasantry(sentence: str, *, alone: bool = True) -> bool:
    """Whether the sentence, stripped, tells nothing worth keeping. One that is not `alone`, but
    follows a statement it may belong to, is kept sooner."""
    text = sentence.strip().rstrip(".!…:)( ").replace("’", "'")
    stems = content(text)
    if not any(len(one) > 2 and not one.isdigit() for one in stems):
        return True
    if _PLEASANTRY.match(text) and len(stems) <= _TELLING:
        return True
    if _TELLS.search(text):
        return False
    return len(stems) < (_THIN_LEANING if alone and _LEANS.match(text) else _THIN)


def is_scrap(sentence: str) -> bool:
    """Whether a sentence that tells nothing by itself may answer a question: "Four." """
    text = sentence.strip().rstrip(".!…:)( ").replace("’", "'")
    return bool(content(text)) and not _PLEASANTRY.match(text) and not _PRAISE.match(text)


_PRAISE = re.compile(rf"{_VERY}(?:{_GOOD})$", re.IGNORECASE)
_TELLING = 6  # a pleasantry with more content words than this says something beside
_THIN = 2  # a sentence with fewer must name a person, a thing or a number to be kept
_THIN_LEANING = 4  # and more where it is about something said before
_LEANS = re.compile(r"(?:it|that|this|they|those|these|you|your|what|so|such)\b", re.IGNORECASE)
_TELLS = re.compile(
    r"\b(?:I|I'\w+|my|me|we|we're|we've|our|us|mine)\b|\d|(?<=\s)[A-Z][a-z]|[\"“]|^(?:My|We|Our"
    r"|Me)\b"
)
