"""A small hand-made map of words that go together, for the second view of a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from justmem.words import stem

_TOPICS = """
pet: dog cat puppy kitten animal named
instrument: plays guitar piano violin drums clarinet music
music: song band concert artist sings plays listens
book: read reading novel author library
movie: film watched show series
hobby: enjoys likes free time passion activity
activity: went played visited did together hiking painting
destress: relax unwind calm stress relief clear mind
stress: overwhelmed pressure anxiety relax cope
relax: unwind calm peaceful
exercise: workout gym run running yoga fitness class
sport: plays team game basketball soccer tennis swimming
trip: travel travelled visited vacation went to
travel: trip visited vacation country city
country: visited travelled city abroad
city: visited travelled lives
food: ate cooked recipe meal restaurant dish
cook: recipe dish baked meal made
recipe: cooked baked dish made
dessert: cake baked ice cream cookies sweet
job: work works career company role hired
career: job work wants to become
business: store shop started opened company customers
school: college degree studies class university
family: husband wife kids parents mother father brother sister
child: kids son daughter baby
friend: met together known supports
relationship: married dating partner single breakup
health: doctor illness diet weight exercise injury
injury: hurt broke doctor accident
diet: healthy eating food weight
event: attended went to took part joined
volunteer: charity shelter community helped
charity: volunteer donated fundraiser raised
art: painting painted drew drawing made
paint: painting painted drew art
craft: made pottery knitting sewing
gift: gave present received birthday
buy: bought purchased got new ordered
spend: spent cost paid price bought
money: paid cost spent saved price
car: drive vehicle repair bought
home: house apartment moved lives
move: moved relocated new home
game: played video game board game tournament
camp: camping trip tent forest mountain campfire
hike: hiking trail mountain nature
garden: plants planted flowers vegetables
technology: device phone laptop app
class: lesson course workshop signed up
award: won prize competition place
dream: wants hopes goal plans to
goal: wants plans hopes to achieve
plan: going to will wants next
fear: afraid scared worried anxious
support: helped encouraged there for
religious: church faith prayer
faith: church religious prayer
politics: campaign vote government community
military: army veteran service
date: went out restaurant met partner
meat: steak chicken beef eats
sleep: tired rest insomnia night
meet: met meeting saw visited
festival: concert show attended music
museum: gallery exhibit visited art
wedding: married bride ceremony attended
birthday: party celebrated turned gift
"""
_SHORT = 3  # letters: "jog", "jogging"


def _forms(head: str) -> Iterator[str]:
    """A word as it is inflected. Not by its stem: "care" has that of "car"."""
    short = head[:-1] if head[-1] in "ey" else head
    yield from (head, f"{head}s", f"{head}es", f"{head}ren")
    doubled = f"{head}{head[-1]}"
    for base in (head, short, doubled) if len(head) > _SHORT else (doubled,):
        yield from (f"{base}{end}" for end in ("ed", "ing", "ies", "ied"))


_MAP = {
    form: tuple(tail.split())
    for head, _, tail in (line.partition(":") for line in _TOPICS.strip().splitlines())
    for form in _forms(head.strip())
}


def related(said: Iterable[str], *, most: int = 10) -> list[str]:
    """Words that go with these, without the ones already there."""
    given = list(dict.fromkeys(said))
    known = set(map(stem, given))
    found = [word for one in given for word in _MAP.get(one, ())]
    return [word for word in dict.fromkeys(found) if stem(word) not in known][:most]
