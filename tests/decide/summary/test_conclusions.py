"""What the model concluded: the newest ranks first, nothing is told twice. What was refused did not run."""

import builders as b
import pytest

from everturn.decide.extractive.reading.facts import Facts, QuotedText
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import quote
from everturn.decide.extractive.writing.trouble import problem_solving

CAUSES = [f"The parser fails in part {n} because of its lexer." for n in range(4)]


def said(*texts: str) -> tuple[QuotedText, ...]:
    return tuple(QuotedText(text, f"r{at}") for at, text in enumerate(texts))


def entry(text: str, rank: int, record: str) -> SummaryEntry:
    return SummaryEntry(quote(text), rank, record=record)


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_the_newest_conclusions_are_told_in_their_order_and_rank_first(most: int):
    facts = Facts(statements=said(CAUSES[0], f"{CAUSES[1]} {CAUSES[2]}", CAUSES[3]))
    told = [
        entry(CAUSES[0], 6, "r0"),
        entry(CAUSES[1], 4, "r1"),
        entry(CAUSES[2], 2, "r1"),
        entry(CAUSES[3], 0, "r2"),
    ]
    assert problem_solving(facts, SummarySettings(conclusions=most)) == told[-most:]


def test_a_conclusion_that_was_drawn_twice_is_told_where_it_was_drawn_last():
    facts = Facts(statements=said(CAUSES[0], CAUSES[1], CAUSES[0]))
    assert problem_solving(facts, SummarySettings()) == [
        entry(CAUSES[1], 2, "r1"),
        entry(CAUSES[0], 0, "r2"),
    ]


def test_what_a_report_tells_is_not_told_again():
    statements = said(CAUSES[0], CAUSES[1], f"Done. {CAUSES[0]}", CAUSES[2])
    facts = Facts(statements=statements, reports=statements[2:3])
    told = problem_solving(facts, SummarySettings())
    assert [(each.record, each.rank) for each in told] == [("r2", 0), ("r1", 2), ("r3", 0)]
    assert told[1:] == [entry(CAUSES[1], 2, "r1"), entry(CAUSES[2], 0, "r3")]


def test_sentences_that_are_too_long_or_too_short_are_no_conclusions():
    sentence = CAUSES[0].removesuffix(".")
    facts = Facts(statements=said(f"{sentence}\nso the lexer it is"))
    length = len(sentence)
    assert problem_solving(facts, SummarySettings(sentence=length)) == [entry(sentence, 0, "r0")]
    assert problem_solving(facts, SummarySettings(sentence=length - 1)) == []


REFUSED = "The user doesn't want to proceed with this tool use. To tell you how, the user said:\nnot now"


def test_a_check_that_the_user_refused_was_not_run():
    def records(answer: str, **more: bool) -> Facts:
        return extract_facts(
            [
                b.user("Mend the parser.", uuid="u"),
                b.assistant(b.call("c1", "Edit", file_path="/p/a.py", new_string="x"), uuid="a1", id="m1"),
                b.result("c1", "done", uuid="r1"),
                b.assistant(b.call("c2", "Bash", command="pytest -q"), uuid="a2", id="m2"),
                b.user([b.answer("c2", answer, **more)], uuid="r2"),
            ]
        )

    refused, failed = records(REFUSED, is_error=True), records("E   assert 1 == 2", is_error=True)
    passed = records("3 passed")
    checks = [(each.state.last_check, each.state.unchecked) for each in (refused, failed, passed)]
    assert checks == [("", ("/p/a.py",)), ("pytest -q", ()), ("pytest -q", ())]
    assert (refused.refused, failed.refused, passed.refused) == ({"c2": "not now"}, {}, {})
    assert (refused.failed, failed.failed, passed.failed) == ({"c2"}, {"c2"}, frozenset())
    assert refused.corrections == (QuotedText("not now", "r2", "Bash pytest -q"),)
    assert [(each.failures, each.state.failing) for each in (refused, passed)] == [((), ())] * 2
    assert [(each.deed.call, each.lines) for each in failed.failures] == [("c2", ("E   assert 1 == 2",))]
