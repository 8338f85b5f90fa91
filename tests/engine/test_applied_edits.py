"""What the API clears by itself: recorded, shown, and told to the break detector."""

import pytest
from engine.held import Held

from everturn.decide.cache_breaks import NoBreak
from everturn.decide.events import EventContext, make_prediction_missed
from everturn.decide.options import Options
from everturn.decide.settings import DeclarativeSettings, MicroSettings
from everturn.history.edits import ServerCleared
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

CLEARS_EARLY = Options(
    micro=MicroSettings(
        steps=(),
        declare=True,
        declarative=DeclarativeSettings(tool_results=True, trigger=20_000, target=10_000),
    )
)


@pytest.mark.spec("MC-15")
def test_what_the_api_reports_as_cleared_is_recorded_shown_and_no_break(tmp_path):
    held = Held(tmp_path, under=CLEARS_EARLY)
    for _ in range(6):
        held.burst(1, tokens=4_000)
    log = held.runner.conversation.log.records
    facts = [record.edit for record in log if isinstance(record.edit, ServerCleared)]
    entries = [edit for entry in held.twin.ledger() for edit in entry["applied_edits"]]
    assert facts == [
        ServerCleared(edit["type"], edit["cleared_tool_uses"], edit["cleared_input_tokens"])
        for edit in entries
    ]
    assert facts
    assert all(isinstance(done.settled.verdict, NoBreak) for done in held.done)
    spelled = b"\n".join(encode_record(record) for record in log)
    assert [record.edit for record in parse_session_file(spelled).records] == [record.edit for record in log]


@pytest.mark.spec("PC-8", "MC-15")
def test_what_the_api_cleared_is_the_verdict_and_no_entry_counts_as_lost(tmp_path):
    held = Held(tmp_path, under=CLEARS_EARLY)
    for _ in range(6):
        held.burst(1, tokens=4_000)
    cleared = [bool(entry["applied_edits"]) for entry in held.twin.ledger()]
    verdicts = [done.settled.check.verdict for done in held.done if done.settled.check]
    assert [verdict == "cleared by the API" for verdict in verdicts] == cleared
    assert {*verdicts} == {"as predicted", "cleared by the API"}
    first = held.done[cleared.index(True)].settled.check
    edit = held.twin.ledger()[cleared.index(True)]["applied_edits"][0]
    assert first.why.startswith(
        f"the API cleared {edit['cleared_tool_uses']} tool uses ({edit['cleared_input_tokens']:,} tokens): "
    )
    event = make_prediction_missed(first, EventContext(at=held.twin.clock.now()))
    assert event is not None
    assert (event.verdict, event.why) == ("cleared by the API", first.why)
