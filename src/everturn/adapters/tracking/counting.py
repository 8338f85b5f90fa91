"""What a count of a caller's list counts: the messages that everturn would send for it.

Nothing is decided and nothing is recorded: the list is what the conversation sends by now, with the summaries
and cleared results that it has, and behind it what the caller adds. A compaction that the next request will
make is not in it yet.

On models that bind thinking to the prompt, a count is checked as a request is. What the conversation would
drop for the next request, after a change of tools for example, is not known before it is decided. So there is
a second list without any thinking, for the case that the first one is refused.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.begun_reply import end_as_asked
from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.system_messages import encode_request
from everturn.errors import EverturnError
from everturn.history.edits import ThinkingDropped
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.view.flatten import flatten
from everturn.view.tool_inputs import read_schemas
from everturn.wire.anthropic import Request

_COUNTED: Final = "counted"


class ConversationBusy(EverturnError):
    """Somebody works on the conversation for longer than a count can wait."""


class KnownRecords(msgspec.Struct, frozen=True):
    """The records that the conversation of a request has, and how many links of the request they are."""

    records: Sequence[Record] = ()
    links: int = 0


class CountPlan(msgspec.Struct, frozen=True):
    """The lists to count for one request."""

    request: CallerRequest
    # None if the list is not known: then it is counted as it came.
    known: KnownRecords | None
    binds_thinking: bool

    def messages(self) -> list[Any] | None:
        """The messages to count; None for the caller's own."""
        return _decode(self.encoded_messages())

    def messages_without_thinking(self) -> list[Any] | None:
        """The same after a refusal; None if thinking cannot be the reason."""
        return _decode(self.encoded_messages_without_thinking())

    def encoded_messages(self) -> msgspec.Raw | None:
        """`messages` as they are sent: recorded blocks have their own bytes."""
        return None if self.known is None else _encode_messages(self.request, self.known)

    def encoded_messages_without_thinking(self) -> msgspec.Raw | None:
        if not self.binds_thinking:
            return None
        return _encode_messages(self.request, self.known or KnownRecords(), has_thinking=False)


class _Body(msgspec.Struct):
    messages: msgspec.Raw


def _decode(messages: msgspec.Raw | None) -> list[Any] | None:
    return None if messages is None else msgspec.json.decode(messages)


def _encode_messages(
    request: CallerRequest, known: KnownRecords, *, has_thinking: bool = True
) -> msgspec.Raw:
    records = [*known.records]
    for message in request.new_messages(known.links):
        kind = "assistant" if message.role == "assistant" else "user"
        parent = records[-1].uuid if records else ""
        records.append(
            Record(kind=kind, uuid=f"{_COUNTED}-{len(records)}", parent=parent, blocks=message.blocks)
        )
    if not has_thinking and (seen := Log(records).view.records):
        edit = ThinkingDropped(since=seen[0].uuid)
        last = records[-1].uuid
        records.append(Record(kind="system", uuid=f"{_COUNTED}-thinking", parent=last, edit=edit))
    shown = flatten(Log(records).view, read_schemas(request.preamble.tools)).messages
    messages = end_as_asked(shown, request)
    body = encode_request(
        Request(model=request.model, messages=tuple(messages)),
        native=request.has_system_messages,
        has_config=request.has_message_config,
    )
    # A copy: a part of the body would keep all of it in memory.
    return msgspec.json.decode(body, type=_Body).messages.copy()
