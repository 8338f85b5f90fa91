"""Where a fork divides the view so that it is the last request with one more question (CP-10, PC-12)."""

from typing import Any

import builders as b
import msgspec
import pytest
from decide.compact.bench import AUTO, LIMITS, MODEL, Bench, manual
from decide.compact.test_work import context

from everturn.decide.compact.unsent import as_sent, first_unsent
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.measure.outline import BlockLocation, Preamble
from everturn.measure.prefix_cache import Breakpoint
from everturn.measure.tokens import pad_estimate
from everturn.view.breakpoints import Breakpoints
from everturn.view.flatten import flatten
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters, TtlChoice

SENT = [
    b.user("Look. " * 20, uuid="u1"),
    b.assistant(b.call("c1", "Read", file_path="/a"), id="m1", uuid="a1"),
    b.result("c1", "x" * 400, uuid="r1"),
]
# 300 characters, in two pieces of one response: 100 tokens with padding.
NEW = [b.assistant("y" * 160, id="m2", uuid="a2"), b.assistant("z" * 140, id="m2", uuid="a3")]


def scene(records: list[Record], *, reach: int = 2, thinking: dict[str, Any] | None = None, **more: Any):
    view = Log(records).view
    parameters = KeyParameters(TtlChoice("5m", ""), thinking=thinking)
    places = ((BlockLocation(reach, 0), Breakpoint(-1, "5m")),) if reach >= 0 else ()
    captured = CapturedRequest(MODEL.id, Preamble(), parameters, flatten(view).messages, {})
    return context(view=view, captured=captured, answered=Breakpoints(places), **more)


def planned(records: list[Record], asked=AUTO, **fields: Any):
    return msgspec.structs.replace(Bench(records).planned(asked, size=LIMITS.auto), **fields)


@pytest.mark.parametrize(
    ("size", "at"),
    [(pad_estimate(75) * 100 // 3, "a2"), (pad_estimate(75) * 100 // 3 + 1, "")],
)
def test_what_was_not_sent_yet_is_left_out_from_its_share_of_the_context_on(size: int, at: str):
    records = [*SENT, *NEW]
    assert first_unsent(planned(records), scene(records, size=size)) == at
    assert first_unsent(planned(records), scene(records, size=size), least_share=0.0) == "a2"


def test_a_compaction_by_hand_summarizes_everything_unless_the_newest_message_is_kept():
    records = [*SENT, *NEW]
    by_hand = planned(records, manual())
    assert first_unsent(by_hand, scene(records)) == ""
    assert first_unsent(msgspec.structs.replace(by_hand, keeps_newest=True), scene(records)) == "a2"


@pytest.mark.parametrize(
    ("records", "reach", "thinking", "at"),
    [
        pytest.param([*SENT, *NEW], 2, None, "a2", id="the last request"),
        pytest.param([*SENT, *NEW], 0, None, "a2", id="a breakpoint further up"),
        pytest.param([*SENT, *NEW], 3, None, "", id="a breakpoint behind it"),
        pytest.param([*SENT, *NEW], -1, None, "", id="no breakpoint"),
        pytest.param([*SENT, *NEW], 2, {"type": "enabled"}, "", id="a tool loop without thinking"),
        pytest.param([*SENT, *NEW], 2, {"type": "adaptive"}, "a2", id="in another mode"),
        pytest.param([b.user("Look.", uuid="u1")], 0, None, "", id="no answer"),
        pytest.param(NEW, 0, None, "", id="nothing before the answer"),
        pytest.param(
            [*SENT, b.assistant("y" * 300, id="", uuid="a2"), b.assistant("z" * 300, id="", uuid="a3")],
            2,
            None,
            "",
            id="responses without a name",
        ),
    ],
)
def test_the_view_is_divided_where_the_last_request_ended(records, reach, thinking, at):
    found = first_unsent(planned([*SENT, *NEW]), scene(records, reach=reach, thinking=thinking))
    assert found == at


def test_a_part_is_sent_as_it_was_if_it_is_exactly_the_last_request():
    records = [*SENT, *NEW]
    given = scene(records)
    up_to = msgspec.structs.replace(AUTO, form="up_to", at="a2")
    plan = planned(records, up_to)
    found = as_sent(plan, given)
    assert found == msgspec.structs.replace(
        given.captured, messages=given.captured.messages[:3], breakpoints=given.answered
    )
    assert as_sent(planned(records), given) is None
    other = scene([b.user("Another.", uuid="u1"), *SENT[1:], *NEW])
    assert as_sent(plan, msgspec.structs.replace(given, captured=other.captured)) is None
