"""The request of a hold (EC-2): the conversation as it is, a breakpoint for an hour on the last reply, and
nothing asked for.

The API answers `max_tokens: 0` with an empty reply and writes at the breakpoints (api-facts 1.9). It wants a
message of the user behind the breakpoint: a full stop, or a stand-in result for each tool that still runs.
Whatever comes next in the conversation, its prefix is the same up to the last reply.

Where somebody else places the breakpoints, the last request is sent once more instead: that renews the entry
it wrote. One token of an answer is asked for, because its breakpoint is on the last message.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.economy.amounts import format_compared
from everturn.decide.economy.holds import HoldDecision, HoldForm, HoldInputs, decide_hold
from everturn.history.blocks import result_block, text_block
from everturn.history.messages import Message
from everturn.history.records import Record, Usage
from everturn.measure.model import Model
from everturn.measure.outline import BlockLocation
from everturn.measure.prediction import Prediction
from everturn.measure.prefix_cache import Breakpoint
from everturn.view.breakpoints import Breakpoints, can_carry_breakpoint
from everturn.view.forks import CapturedRequest
from everturn.view.requests import build_request
from everturn.wire.anthropic import Request

# Output of a hold that the API does not accept empty: a few words of thinking and of an answer. An
# assumption; no recording has such a call.
LEAST_OUTPUT: Final = 100
_STAND_IN: Final = "."


class PlannedHold(msgspec.Struct, frozen=True):
    """A hold, whether it is worth sending, and all that the holds after it depend on."""

    given: HoldInputs
    decision: HoldDecision
    captured: CapturedRequest
    prediction: Prediction

    def renewed(self, usage: Usage) -> "PlannedHold":
        """The next hold of the same pause."""
        given = self.given.after_hold(usage)
        return msgspec.structs.replace(self, given=given, decision=decide_hold(given))

    def request(self) -> Request:
        return build_request(self.captured, self.captured.breakpoints)


def held_for(cost: float, decision: HoldDecision) -> str:
    """What a hold has cost, beside what it was expected to."""
    paid, saving = format_compared(cost, decision.expected)
    return f"held for {paid}, expected saving {saving}:{decision.why.partition(':')[2]}"


def least_output(thinking: Mapping[str, Any] | None, form: HoldForm = "hour") -> int:
    """Tokens that the answer to a hold has: none, except in the mode `enabled` (api-facts 1.9)."""
    if (thinking or {}).get("type") == "enabled":
        return LEAST_OUTPUT
    return 1 if form == "repeat" else 0


def is_answered(records: Sequence[Record]) -> bool:
    """Whether the model spoke last."""
    said = (record.kind for record in reversed(records) if record.kind in ("user", "assistant"))
    return next(said, "") == "assistant"


def up_to_reply(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Without what stands behind the last reply: results that were never given, added to make it valid."""
    last = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return messages[: last + 1]


def hindrance(captured: CapturedRequest, model: Model, form: HoldForm = "hour") -> str:
    """Why the API would refuse a hold of this conversation, or read nothing for it; "" if it would not."""
    if form == "repeat":
        return "" if captured.messages else "there is no reply yet"
    fields: Mapping[str, Any] = captured.settings
    output: Mapping[str, Any] = fields.get("output_config") or {}
    choice: Mapping[str, Any] = fields.get("tool_choice") or {}
    if "format" in output:
        return "a reply in a given format is asked for"
    if choice.get("type") in ("any", "tool"):
        return "a call of a tool is asked for"
    if not captured.messages:
        return "there is no reply yet"
    blocks = (block for message in captured.messages for block in message.blocks)
    if not model.keeps_thinking and any(block.is_thinking for block in blocks):
        return "a new message removes the thinking that the cached prefix has"
    if _spot(captured.messages) is None:
        return "the last reply cannot carry a breakpoint"
    return ""


def to_hold(captured: CapturedRequest, form: HoldForm = "hour") -> CapturedRequest:
    """The request of a hold. `captured` ends with the reply and has no `hindrance`."""
    budget = (captured.parameters.thinking or {}).get("budget_tokens", 0)
    most = budget + 1 if least_output(captured.parameters.thinking, form) else 0
    fields = {name: value for name, value in captured.settings.items() if name != "stream"}
    if form == "repeat":
        return msgspec.structs.replace(
            captured, messages=captured.messages[:-1], settings={**fields, "max_tokens": most}
        )
    spot = _spot(captured.messages)
    places = ((spot, Breakpoint(-1, "1h" if form == "hour" else "5m")),) if spot else ()
    return msgspec.structs.replace(
        captured,
        messages=(*captured.messages, _stand_in(captured.messages[-1])),
        settings={**fields, "max_tokens": most},
        breakpoints=Breakpoints(places),
    )


def _spot(messages: tuple[Message, ...]) -> BlockLocation | None:
    blocks = messages[-1].blocks
    for index in range(len(blocks) - 1, -1, -1):
        if can_carry_breakpoint(blocks[index]):
            return BlockLocation(len(messages) - 1, index)
    return None


def _stand_in(reply: Message) -> Message:
    running = [block.call for block in reply.blocks if block.kind == "tool_use" and block.call]
    results = tuple(result_block(call, _STAND_IN) for call in running)
    return Message("user", results or (text_block(_STAND_IN),))
