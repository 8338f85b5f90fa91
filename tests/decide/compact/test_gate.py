"""The gate: which summaries are let in (CP-31)."""

import msgspec
import pytest
from decide.compact.bench import SUMMARY, Bench, manual, turns

from everturn.decide.compact.gate import check_gate
from everturn.decide.compact.values import CompactionPlan
from everturn.measure.tokens import pad_estimate, rough

NINE = "\n".join(f"{at}. Section {at}:" for at in range(1, 10))


@pytest.fixture(scope="module")
def planned() -> CompactionPlan:
    return Bench(turns(3)).planned(manual())


def test_a_summary_is_let_in(planned: CompactionPlan):
    assert check_gate(SUMMARY, planned, estimate=rough) == ""


@pytest.mark.spec("CP-31")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("API Error: 500", "it is an error message"),
        (NINE, "it is a skeleton: headings with nothing under them"),
        (NINE.replace(":", ":\n- None\n- N/A"), "it is a skeleton: headings with nothing under them"),
        ("## Goal\n\n**Files**\n[to be filled in]\n", "it is a skeleton: headings with nothing under them"),
        (SUMMARY + '\n<invoke name="Read">', "it holds the syntax of a tool call"),
        (SUMMARY + '\n{"type":"tool_use","name":"Read"}', "it holds the syntax of a tool call"),
    ],
)
def test_what_is_no_summary_is_refused_with_its_reason(planned: CompactionPlan, text: str, reason: str):
    assert check_gate(text, planned, estimate=rough) == reason


def test_quoted_tool_syntax_is_no_call(planned: CompactionPlan):
    assert (
        check_gate(SUMMARY + "\nThe prompt uses `<invoke>` tags:\n> <invoke name=x>", planned, estimate=rough)
        == ""
    )


@pytest.mark.spec("CP-31")
def test_a_summary_as_large_as_what_it_replaces_is_refused(planned: CompactionPlan):
    size = pad_estimate(3_300)
    as_large = msgspec.structs.replace(planned, tokens_summarized=size)
    assert check_gate(SUMMARY, as_large, estimate=lambda text: 3_300) == (
        f"it is not smaller ({size:,} tokens) than what it replaces ({size:,})"
    )
    assert check_gate(SUMMARY, as_large, estimate=lambda text: 3_299) == ""
