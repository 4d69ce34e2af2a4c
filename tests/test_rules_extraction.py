"""Cards without a model: third person, dated, linked to their turns, small talk left out."""

from __future__ import annotations

from datetime import datetime

import pytest

from justmem.domain import Card, Session, Turn
from justmem.extraction.rules import RulesExtractor, extract_by_rules

AT = datetime(2023, 5, 8, 13, 56)


def chat(*said: tuple[str, str]) -> list[Card]:
    turns = tuple(Turn(speaker=speaker, text=text) for speaker, text in said)
    return extract_by_rules(Session(id="s1", at=AT, turns=turns))


def nora(text: str) -> list[Card]:
    """What Nora says to Ivar."""
    return chat(("Nora", text), ("Ivar", "Bye!"))


def assisted(*texts: str) -> list[Card]:
    """A user and an assistant, in turns."""
    turns = tuple(
        Turn(speaker=("user", "assistant")[n % 2], role=("user", "assistant")[n % 2], text=text)
        for n, text in enumerate(texts)
    )
    return extract_by_rules(Session(id="s1", at=AT, turns=turns))


# ---------------------------------------------------------------- the third person


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I went to a choir rehearsal.", "went to a choir rehearsal"),
        ("I'm learning the piano.", "is learning the piano"),
        ("I've been running a lot.", "has been running a lot"),
        ("I was scared of the dark.", "was scared of the dark"),
        ("I love hiking and have two dogs.", "loves hiking and has two dogs"),
        ("I really study hard.", "really studies hard"),
        ("I don't like mushrooms.", "doesn't like mushrooms"),
        ("We visited the museum.", "visited the museum"),
        ("Had a wild week at work!", "had a wild week at work"),
        ("Trying to get the roof mended.", "is trying to get the roof mended"),
        ("I bought a bike and I painted it.", "bought a bike and painted it"),
        ("Wow, Ivar! I moved to Oslo.", "moved to Oslo"),
        ("I took my kids to the beach.", "took Nora's kids to the beach"),
        ("I told you about Oslo.", "told Ivar about Oslo"),
        ("We both love jazz.", "said Nora and Ivar both love jazz"),
        ("We all hiked around the lake.", "hiked around the lake"),
        ("Exciting news: I started a rowing course.", "started a rowing course"),
        ("I totally agree! Rowing keeps me awake.", "said rowing keeps Nora awake"),
        ("Breaking old habits isn't easy for me.", "said breaking old habits isn't easy for Nora"),
        ("Love is hard work at my age.", "said love is hard work at Nora's age"),
        ("I cycle; the bus takes too long.", "cycles; the bus takes too long"),
        (
            "This book I read last year reminds me of home.",
            "said this book Nora read in 2022 reminds them of home",
        ),
        (
            "This past weekend we saw a fox.",
            "saw a fox this past weekend (the weekend of 6 May 2023)",
        ),
        ("Inspiring 💪 I emailed the shops.", "emailed the shops"),
        (
            "Opening the studio's been a joy - I love it.",
            "said opening the studio's been a joy - Nora loves it",
        ),
        ("Together, we can change a lot.", "said together they can change a lot"),
    ],
)
def test_the_speaker_becomes_the_subject(said: str, fact: str) -> None:
    (card,) = nora(said)
    assert (card.subject, card.fact) == ("Nora", fact)


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("This is the house I grew up in.", "said this is the house Nora grew up in"),
        (
            "Last week was wild - I won a medal in Molde.",
            "said the week of 1 May 2023 was wild - Nora won a medal in Molde",
        ),
    ],
)
def test_a_clause_with_a_verb_of_its_own_is_not_moved(said: str, fact: str) -> None:
    (card,) = nora(said)
    assert card.fact == fact


def test_what_belongs_to_the_speaker_is_a_subject_of_its_own() -> None:
    (card,) = nora("My kids are so excited about summer break.")
    assert card.text == "Nora's kids are so excited about summer break"


def test_what_is_said_of_the_world_is_what_the_speaker_said() -> None:
    (card,) = nora("The harbour lights were so bright tonight!")
    assert card.text == "Nora said the harbour lights were so bright on 8 May 2023"


def test_a_general_you_is_not_taken_for_the_other_speaker() -> None:
    (card,) = nora("Running makes you feel alive every single morning.")
    assert "Ivar" not in card.text


# ---------------------------------------------------------------- what is kept, and together


@pytest.mark.parametrize(
    "said",
    [
        "Hey Ivar! Good to see you! How have you been?",
        "Thanks, Ivar! That's so sweet.",
        "You're doing great, keep it up!",
        "Wow, that's amazing!",
        "Take care, bye!",
        "",
        "🎉🎉🎉",
        "I'll definitely check out some of those resources, thanks for the tips!",
        "I will keep that in mind.",
        "I really like these ideas!",
        "I think that's all for now.",
        "Talk later!",
    ],
)
def test_small_talk_makes_no_cards(said: str) -> None:
    assert nora(said) == []


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I like those ideas, especially the brass lamps.", "especially the brass lamps"),
        ("I'll try the 4-7-8 breathing exercise tonight.", "4-7-8 breathing exercise"),
        ("I'll check those out, thanks, I am more of a red wine person.", "red wine person"),
        ("By the way I adopted a cat called Miso.", "adopted a cat"),
        ("And by the way, I've been reading about Oslo.", "has been reading about Oslo"),
        ("Actually I've never been fishing in Molde.", "has never been fishing"),
        ("So guess what, I joined a choir in Molde!", "joined a choir"),
        ("So much happened in Molde since we last talked.", "since they talked"),
    ],
)
def test_what_is_told_beside_small_talk_stays(said: str, fact: str) -> None:
    assert any(fact in card.fact for card in nora(said))


def test_a_short_answer_is_kept_with_its_question() -> None:
    cards = chat(("Nora", "How long have you been keeping bees?"), ("Ivar", "Since 2016!"))
    (card,) = cards
    assert card.subject == "Ivar"
    assert "since 2016" in card.fact.lower()
    assert "How long has Ivar been keeping bees?" in card.fact
    assert card.turns == (1, 2)


def test_a_reply_that_asks_back_is_kept_without_its_question() -> None:
    cards = chat(("Ivar", "Did you win the race?"), ("Nora", "Yes, twice! How was your day?"))
    assert [card.fact for card in cards] == ['said yes, twice (asked "Did Nora win the race?")']


def test_an_answer_that_asks_back_in_one_breath_is_kept() -> None:
    (card,) = chat(("Ivar", "How many kids do you have?"), ("Nora", "Three, why?"))
    assert card.fact == 'said Three (asked "How many kids does Nora have?")'


def test_a_question_keeps_its_grammar_with_a_name() -> None:
    said = ("Nora", "I wanted something calm for the evenings.")
    (card,) = chat(("Ivar", "What made you try pottery?"), said)
    assert card.fact.endswith('(asked "What made Nora try pottery?")')


def test_a_question_that_points_back_brings_what_it_points_at() -> None:
    cards = chat(
        ("Nora", "Those boats look fast! Who built them?"),
        ("Ivar", "My uncle built them in Molde."),
    )
    assert "Those boats look fast! Who built them?" in cards[0].fact


def test_a_sentence_that_leans_on_the_one_before_joins_it() -> None:
    (card,) = nora("I went to a workshop. They talked about tarring wooden hulls.")
    assert card.fact == "went to a workshop; they talked about tarring wooden hulls"


def test_what_can_stand_alone_is_a_card_of_its_own() -> None:
    first = "We finally sold the old boat to a fisherman from Molde."
    cards = nora(f"{first} I want to learn the cello before next winter.")
    assert [card.fact.split()[0] for card in cards] == ["finally", "wants"]
    assert {card.turns for card in cards} == {(1,)}


def test_scraps_of_one_turn_share_a_card() -> None:
    (card,) = nora("I sold the boat. I felt free.")
    assert card.fact == "sold the boat; felt free"


@pytest.mark.parametrize(
    ("asks", "answers", "fact"),
    [
        ("How old is he?", "Four. He sleeps all day.", "said four; he sleeps all day"),
        ("Have you been there?", "Yes, twice! I loved it.", "said twice; Ivar loved it"),
        ("Who came along?", "Great! My boss came along.", "came along"),
        ("Who came along?", "Sounds fun! My boss came along.", "came along"),
    ],
)
def test_a_short_answer_stays_with_what_follows_it(asks: str, answers: str, fact: str) -> None:
    card = chat(("Nora", asks), ("Ivar", answers))[0]
    assert card.fact.split(" (asked")[0] == fact
    assert card.turns == (1, 2)


def test_a_scrap_that_answers_nothing_is_left_out() -> None:
    cards = chat(("Nora", "My oven is broken."), ("Ivar", "Four. I know a good smith in Molde."))
    assert "our" not in cards[-1].fact


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Glad work goes well in Molde.", "is glad work goes well in Molde"),
        ("So excited about the new boat shed!", "is so excited about the new boat shed"),
        ("Scared that he might run off.", "is scared that he might run off"),
        ("Happy birthday songs bore my aunt.", "said happy birthday songs bore Nora's aunt"),
        ("Gotta fix the oven by May.", "has to fix the oven by May 2023"),
        ("Growing up there must have been fun.", "said growing up there must have been fun"),
        ("But the snow bores my dogs.", "said the snow bores Nora's dogs"),
        ("Reminds me of my aunt in Molde.", "said reminds Nora of their aunt in Molde"),
    ],
)
def test_a_feeling_or_a_duty_without_a_subject_is_the_speakers(said: str, fact: str) -> None:
    assert [card.fact for card in nora(said)] == [fact]


@pytest.mark.parametrize(
    "said", ["I knew it!", "Fingers crossed for the race!", "I feel the same.", "Chat soon!"]
)
def test_what_is_said_to_be_kind_is_no_card(said: str) -> None:
    assert nora(said) == []


def test_a_fact_is_of_the_time_of_its_main_clause() -> None:
    (card,) = nora("I am allergic to nuts, so there will be none in my shop.")
    assert card.status == "ongoing"
    (card,) = nora("I will sell the shop, because I am tired of it.")
    assert card.status == "planned"


def test_different_dates_are_different_cards() -> None:
    cards = nora("I ran a race yesterday. I signed up for pottery last week.")
    assert [str(card.event_date) for card in cards] == ["2023-05-07", "2023-05-01/2023-05-07"]


def test_a_photo_is_content() -> None:
    (card,) = nora("My card number is [card number].")
    assert card.text == "Nora's card number is [card number]"
    (card,) = nora("[shared a photo: a photo of a dog on a beach]")
    assert card.text == "Nora shared a photo of a dog on a beach"
    assert card.kind == "interaction"


def test_the_same_words_twice_are_one_card() -> None:
    cards = chat(
        ("Nora", "I moved from Sweden."),
        ("Ivar", "Oh!"),
        ("Nora", "I moved from Sweden."),
    )
    assert len(cards) == 1


def test_every_card_names_turns_that_exist() -> None:
    cards = chat(
        ("Nora", "I adopted a cat last week. Her name is Pim."),
        ("Ivar", "Do you have other pets?"),
        ("Nora", "Yes, a dog named Bruno."),
    )
    assert cards
    assert all(1 <= turn <= 3 for card in cards for turn in card.turns)
    assert all(card.session_id == "s1" and card.said_at == AT for card in cards)


# ---------------------------------------------------------------- dates, kinds, statuses


def test_relative_dates_are_written_out() -> None:
    (card,) = nora("Yesterday I went to a choir rehearsal.")
    assert card.fact == "went to a choir rehearsal on 7 May 2023"
    assert str(card.event_date) == "2023-05-07"


def test_an_event_without_a_date_stays_undated() -> None:
    (card,) = nora("I lost my compass at sea.")
    assert str(card.event_date) == "unknown"


def test_a_turn_with_its_own_time_is_dated_by_it() -> None:
    turn = Turn(speaker="Ann", text="I ran a race today.", at=datetime(2022, 1, 2))
    (card,) = extract_by_rules(Session(id="s", at=AT, turns=(turn,)))
    assert str(card.event_date) == "2022-01-02"
    assert card.said_at == datetime(2022, 1, 2)


@pytest.mark.parametrize(
    ("said", "kind", "status"),
    [
        ("I signed up for a pottery class.", "event", "completed"),
        ("I'm going to visit my uncle in June.", "event", "planned"),
        ("I love painting animals.", "preference", "stable"),
        ("I've been married for 5 years.", "measurement", "ongoing"),
        ("I have a sister in Oslo.", "relation", "stable"),
        ("I play guitar, piano, violin and drums.", "list", "stable"),
        ("I'm swamped at work right now.", "state", "ongoing"),
    ],
)
def test_kinds_and_statuses(said: str, kind: str, status: str) -> None:
    (card,) = nora(said)
    assert (card.kind, card.status) == (kind, status)


# ---------------------------------------------------------------- a user and an assistant


def test_a_request_becomes_an_interaction_with_its_reply() -> None:
    cards = assisted("Can you write a 7-day itinerary for Kyoto?", "Day 1: ...")
    (card,) = cards
    assert card.text == "User asked the assistant to write a 7-day itinerary for Kyoto"
    assert (card.kind, card.turns) == ("interaction", (1, 2))


def test_what_the_user_tells_beside_the_request_is_remembered() -> None:
    cards = assisted("I just bought a Sony A7. Any tips for lenses?", "Sure: ...")
    assert [card.kind for card in cards] == ["event", "interaction"]
    assert cards[0].text == "User just bought a Sony A7"


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("When will the art show be held", 'asked the assistant "When will the art show be held"'),
        (
            "is there a shorter way to the harbour museum",
            'asked the assistant "is there a shorter way to the harbour museum"',
        ),
        ("Ok let's combine both chapters", "asked the assistant to combine both chapters"),
        ("Let it be five chapters long", "asked the assistant to let it be five chapters long"),
        (
            "You will answer as a medieval pirate captain. You will never break this character.",
            'asked the assistant "You will answer as a medieval pirate captain"',
        ),
    ],
)
def test_what_an_assistant_is_to_do_is_no_fact(said: str, fact: str) -> None:
    (card,) = assisted(said, "Aye.")
    assert (card.kind, card.fact, card.turns) == ("interaction", fact, (1, 2))


@pytest.mark.parametrize(
    "said",
    [
        "It's fascinating to see how musicians used their platform throughout history.",
        "Looks good to me.",
        "That makes a lot of sense now.",
        "By following these plans, you can stay on track in every genre.",
    ],
)
def test_what_is_about_nobody_makes_no_cards(said: str) -> None:
    assert assisted(said, "Indeed.") == []


def test_a_word_or_two_that_answer_the_assistant_are_told() -> None:
    asked = assisted("I want to buy a bike.", "How tall are you?", "5 feet 8 inches")
    assert [card.fact for card in asked][-1] == "said 5 feet 8 inches"


def test_material_to_work_on_is_one_card() -> None:
    report = "The river rose by a metre in May. Two bridges were closed for a week. "
    (card,) = assisted(9 * report, "What a spring.")
    assert card.kind == "interaction"
    assert card.fact.startswith('told the assistant "The river rose by a metre in May.')


def test_a_list_is_one_card() -> None:
    (card,) = assisted("oat milk.\nten eggs.\nrye bread.\nfour lemons.", "Noted.")
    assert card.fact == 'told the assistant "oat milk. ten eggs. rye bread. four lemons"'


@pytest.mark.parametrize(
    "said",
    [
        "Dr. Amaral retired, so Biscuit's new vet is Dr. Nunes.",
        "Emma is allergic to cats, just so you know.",
        "Dad bought a Tesla, as you know.",
        "You need to know that I have diabetes.",
        "Put my dog to sleep yesterday, I'm heartbroken.",
        "Should I get the job, I will move to Munich.",
        "What is important to me is that my kids are safe.",
        "The lease expires in June.",
        "Je suis allergique aux noix.",
        "Plan of the week: running on Monday, swimming on Friday.",
        "I told the assistant manager that I quit my job.",
        "i have asthma.\ni live in oslo.\nmy dog is called rex.\nmy wife is ann.",
    ],
)
def test_news_are_no_requests_whatever_they_begin_with(said: str) -> None:
    cards = assisted(said, "Noted.")
    assert cards
    assert all(card.kind != "interaction" for card in cards)


@pytest.mark.parametrize("again", ["really ", "ok ", "and, ", "|", "\n"])
def test_what_is_said_over_and_over_takes_no_time(again: str) -> None:
    said = f"It was {again * 100}purple, what I saw in Molde."
    assert nora(said)
    assert assisted(said, "Was it?")
    assert assisted(said + again * 20_000, "Was it?")


def test_we_as_one_of_many_is_not_the_speaker_alone() -> None:
    (church,) = assisted("We are an evangelical church in Ohio.", "Welcome.")
    assert church.text == "User said they are an evangelical church in Ohio"


def test_asking_a_person_is_something_that_happened() -> None:
    (card,) = assisted("I asked my boss for a raise last Friday.", "And?")
    assert (card.kind, card.fact[:5]) == ("event", "asked")


def test_an_assistants_words_make_no_cards() -> None:
    assert assisted("Hi!", "I live in the cloud and I love jazz.") == []


def test_a_named_user_keeps_the_name() -> None:
    turns = (
        Turn(speaker="Ann", text="I live in Bergen."),
        Turn(speaker="assistant", role="assistant", text="Nice."),
    )
    (card,) = extract_by_rules(Session(id="s", at=AT, turns=turns))
    assert card.text == "Ann lives in Bergen"


@pytest.mark.parametrize(
    "pasted",
    [
        "```python\n" + "x = 1\ny = 2\n" * 50 + "```",
        "| a | b |\n" * 40,
        "The quick brown fox jumps over the lazy dog. " * 100,
    ],
)
def test_a_paste_is_one_card_not_a_hundred(pasted: str) -> None:
    cards = assisted(f"Please explain this:\n\n{pasted}", "It says ...")
    assert 1 <= len(cards) <= 3
    assert any(card.fact.startswith("pasted ") for card in cards)


# ---------------------------------------------------------------- anything else


@pytest.mark.parametrize(
    "text",
    [
        "Ich war gestern im Kino und habe einen Film gesehen.",
        "我昨天去了图书馆。",
        "ok",
        "?",
        "[",
        "I",
        "I.",
        "and I",
        "my",
        "a" * 10_000,
        "I am " * 2_000,
        "\u0000\ud7ff",
        "((((" * 500,
        "x, " * 3_000,
    ],
)
def test_any_text_gives_sensible_cards_or_none(text: str) -> None:
    for card in nora(text):
        assert card.subject.startswith(("Nora", "Ivar"))
        assert card.fact.strip()


def test_two_hundred_turns_are_no_trouble() -> None:
    cards = chat(*[(("Ann", "Bo")[n % 2], f"I planted tree number {n} today.") for n in range(200)])
    assert len(cards) == 200


async def test_the_extractor_makes_no_calls() -> None:
    session = Session(id="s", at=AT, turns=(Turn(speaker="Ann", text="I moved to Rome."),))
    extraction = await RulesExtractor().extract(session, limit=None)
    assert extraction.calls == ()
    assert [card.text for card in extraction.cards] == ["Ann moved to Rome"]
