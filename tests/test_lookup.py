"""LOOKUP: the answer lies in one place, and a compact card holds it."""

from datetime import datetime, timedelta

from justmem import Access, Budget
from justmem.ports import Prompt
from stories import HISTORY, NOW, Make, extract_history, plan, scripted


async def test_a_local_question_reads_cards_and_cites_the_exact_words(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer=lambda prompt: {
            "answer": "1:58",
            "used": [line.split()[0] for line in prompt.user.splitlines() if "1:58" in line],
            "sufficient": True,
        },
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    answer = await memory.ask("How fast was my half marathon?", at=NOW)

    assert answer.access is Access.LOOKUP
    assert answer.text == "1:58"
    [citation] = answer.citations
    assert citation.quote == "I ran my first half marathon yesterday, in 1:58!"
    assert (citation.session_id, citation.turn, citation.speaker) == ("run", 1, "User")
    session = await memory.session("run")
    assert session.turn(citation.turn).text[citation.start : citation.end] == citation.quote


async def test_the_answer_model_sees_the_cards_the_question_and_its_time_and_no_turns(
    make: Make,
) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer={"answer": "x", "used": ["1"], "sufficient": True},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    await memory.ask("How fast was my half marathon?", at=NOW)

    shown = model.prompts[-1].user
    assert "User ran a first half marathon in 1:58 (2024-03-10)\n" in shown
    assert "Saturday 2024-06-01" in shown
    assert "How do your legs feel?" not in shown


async def test_what_memory_does_not_hold_is_refused_not_guessed(make: Make) -> None:
    model = scripted(
        extract=extract_history,
        plan=plan(),
        answer={"answer": "Probably Biscuit.", "used": [], "sufficient": False},
    )
    memory = await make(model)
    await memory.remember_many(HISTORY)

    answer = await memory.ask("What is my cat's name?", at=NOW)

    assert not answer.sufficient
    assert answer.text == "That is not in memory."
    assert answer.citations == ()


async def test_an_empty_memory_refuses_without_any_call(make: Make) -> None:
    model = scripted()
    memory = await make(model)

    answer = await memory.ask("What is my cat's name?")

    assert not answer.sufficient
    assert model.prompts == []
    assert answer.receipt.tokens == 0


async def test_what_was_said_after_the_time_of_the_question_is_left_out(make: Make) -> None:
    model = scripted(extract=extract_history, plan=plan())
    memory = await make(model)
    await memory.remember_many(HISTORY)

    evidence = await memory.recall("What did I buy?", at="2024-05-19")
    assert {card.session_id for card in evidence.cards} <= {"run", "kyoto"}

    same_day = await memory.recall("What did I buy?", at="2024-05-20T00:01")
    assert "bike" in {card.session_id for card in same_day.cards}


async def test_words_that_only_the_assistant_said_are_no_evidence_and_no_error(make: Make) -> None:
    memory = await make()
    turns = [{"role": "assistant", "content": "Walnuts are lovely."}]
    await memory.remember({"id": "said", "at": "2024-05-20", "turns": turns})
    evidence = await memory.recall("Who loves walnuts?")
    assert evidence.cards == ()


def says(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_a_day_given_by_its_date_finds_what_was_told_on_it(make: Make) -> None:
    """Sixty other days share the words of the question, that day only its date."""
    memory = await make()
    for number in range(60):
        at = datetime(2023, 4, 1) + timedelta(days=number)
        await memory.remember(says(f"I shared exciting news on radio {number}."), at=at)
    await memory.remember(says("I joined a gym."), at=datetime(2023, 6, 16), id="gym")

    evidence = await memory.recall("What exciting news did I share on 16 June, 2023?", at=NOW)
    assert "gym" in {card.session_id for card in evidence.cards}


async def test_what_happened_in_a_month_is_found_though_told_in_the_next(make: Make) -> None:
    memory = await make()
    for number in range(60):
        at = datetime(2023, 4, 1) + timedelta(days=number)
        await memory.remember(says(f"I mentioned a fun activity on radio {number}."), at=at)
    skied = says("I skied in Banff last month.")
    await memory.remember(skied, at=datetime(2023, 8, 6), id="banff")

    evidence = await memory.recall("What fun activity did I mention doing in July 2023?", at=NOW)
    assert "banff" in {card.session_id for card in evidence.cards}


async def test_two_facts_of_one_turn_share_a_place_and_are_both_read(make: Make) -> None:
    memory = await make(
        scripted(
            extract={
                "cards": [
                    "Ana | is a four years old dog | unknown | stable | fact | 1",
                    "Ana | weighs twelve kilos as a dog | unknown | stable | fact | 1",
                ]
            },
            plan=plan(),
            answer={"answer": "Twelve kilos", "used": ["2"], "sufficient": True},
        )
    )
    await memory.remember(
        says("Ana is a four years old dog and weighs twelve kilos."), at=NOW, id="ana"
    )

    answer = await memory.ask("How old is the dog Ana, and what does the dog Ana weigh?")

    assert len(answer.evidence.chosen) == 1
    assert {card.fact for card in answer.evidence.cards} == {
        "is a four years old dog",
        "weighs twelve kilos as a dog",
    }
    assert answer.citations[0].session_id == "ana"


async def test_what_is_read_is_bounded_however_many_share_a_place(make: Make) -> None:
    """Of twelve cards on three turns, three places and at most four more are read."""
    kinds, verbs = ("oolong", "sencha", "matcha"), ("likes", "drinks", "buys", "brews")

    def extract(prompt: Prompt) -> dict[str, list[str]]:
        (kind,) = [kind for kind in kinds if kind in prompt.user]
        line = "User | {} {} tea | unknown | stable | preference | 1"
        return {"cards": [line.format(verb, kind) for verb in verbs]}

    memory = await make(scripted(extract=extract, plan=plan()), budget=Budget(cards=3))
    for day, kind in enumerate(kinds, 1):
        told = f"I like {kind} tea, drink {kind} tea, buy {kind} tea and brew {kind} tea."
        await memory.remember(says(told), at=datetime(2024, 5, day))
    evidence = await memory.recall("Which tea do I like?", at=NOW)
    assert len(evidence.chosen) == 3
    assert len(evidence.candidates) == 12
    assert 3 <= len(evidence.cards) <= 7


async def test_a_limit_also_holds_for_turns_that_have_no_cards_yet(make: Make) -> None:
    memory = await make()
    for number, kind in enumerate(("oolong", "sencha", "matcha"), 1):
        await memory.remember(says(f"I drink {kind} tea."), at=datetime(2024, 5, number), id=kind)
    for kind in ("assam", "ceylon"):
        await memory.keep(says(f"I drink {kind} tea."), at=datetime(2024, 5, 8), id=kind)
    for limit, waiting in ((1, 0), (2, 1), (3, 2), (5, 2)):
        found = await memory.recall("Which tea do I drink?", at=NOW, limit=limit)
        read = [card.session_id for card in found.cards]
        assert len(read) == limit
        assert [one.card.session_id for one in found.chosen] == read
        assert len({"assam", "ceylon"} & set(read)) == waiting
