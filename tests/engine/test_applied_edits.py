"""What the API clears by itself: recorded, shown, and told to the break detector."""

import msgspec
import pytest
from engine.held import Held

from everturn.decide.cache_breaks import NoBreak
from everturn.decide.policy import get_policy
from everturn.decide.settings import DeclarativeSettings, MicroSettings
from everturn.history.edits import ServerCleared
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

CLEARS_EARLY = msgspec.structs.replace(
    get_policy("none"),
    declares=True,
    micro=MicroSettings(declarative=DeclarativeSettings(tool_results=True, trigger=20_000, target=10_000)),
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
