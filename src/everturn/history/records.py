"""Records: what happened, one immutable value each (TR-1, TR-3).

A record keeps the bytes of the line it was read from; its fields are what the engine uses. The format on disk
is known only to `wire/claude_code_reader.py` and `wire/claude_code_writer.py`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from everturn.history.blocks import Block
from everturn.history.edits import Cleared, Compacted, Edit

RecordKind = Literal["user", "assistant", "system", "attachment", "progress"]
KINDS: frozenset[str] = frozenset(get_args(RecordKind))

# The model name of replies that no model wrote: "No response requested.", an API error shown as text.
SYNTHETIC = "<synthetic>"
# The server ran its own tools (web search) for long: the reply goes on when it is sent back (api-facts 6).
PAUSED = "pause_turn"


class CacheCreation(msgspec.Struct, frozen=True, gc=False):
    """Cache writes by lifetime."""

    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class ServerToolUse(msgspec.Struct, frozen=True, gc=False):
    """What the provider's own tools did that is not billed as tokens."""

    web_search_requests: int = 0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """The usage that the API reported for one call: three disjoint kinds of input, and the output. The fields
    behind them change the price; one that was not reported is not written."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    cache_creation: CacheCreation | None = None
    speed: str | msgspec.UnsetType | None = msgspec.UNSET
    inference_geo: str | msgspec.UnsetType | None = msgspec.UNSET
    server_tool_use: ServerToolUse | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def searches(self) -> int:
        used = self.server_tool_use
        return max(0, used.web_search_requests) if isinstance(used, ServerToolUse) else 0

    @property
    def context(self) -> int:
        """Input tokens of the call: what the model was shown."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    @property
    def total(self) -> int:
        """The size of the context once the reply is part of it (TOK-5)."""
        return self.context + self.output_tokens

    @property
    def clamped(self) -> "Usage":
        """With 0 for negative counts: they are invalid, and would reduce the context size and the bill."""
        plain, written, read, output = (
            self.input_tokens, self.cache_creation_input_tokens, self.cache_read_input_tokens,
            self.output_tokens,
        )  # fmt: skip
        if plain >= 0 and written >= 0 and read >= 0 and output >= 0:
            return self
        return msgspec.structs.replace(
            self,
            input_tokens=max(0, plain),
            cache_creation_input_tokens=max(0, written),
            cache_read_input_tokens=max(0, read),
            output_tokens=max(0, output),
        )


class ReplyMeta(msgspec.Struct, frozen=True, gc=False):
    """Data of the API response that an assistant record is part of."""

    message_id: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    request_id: str = ""
    # Tokens that the provider has deleted from its cache, over all deletions (MC-11). Known only for a
    # response that was just received: transcripts do not store it.
    deleted_tokens: int | None = None

    @property
    def is_synthetic(self) -> bool:
        return self.model == SYNTHETIC


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record. `raw` is its JSON object as it is in the file.

    `subtype` is the kind of a system record or attachment. The payload of an attachment is its only block, of
    kind "attachment"; `view/` decides how the model sees it.
    """

    kind: RecordKind
    uuid: str
    parent: str = ""
    # Its line says nothing about a parent, not even that it has none: the link may be lost.
    unlinked: bool = False
    timestamp: str = ""
    session: str = ""
    agent: str = ""
    sidechain: bool = False
    meta: bool = False
    compact_summary: bool = False
    transcript_only: bool = False
    display_only: bool = False
    api_error: bool = False
    subtype: str = ""
    # The mode in which a person wrote this message, such as "plan"; "" where the program wrote none.
    permission_mode: str = ""
    blocks: tuple[Block, ...] = ()
    reply: ReplyMeta | None = None
    edit: Edit | None = None
    raw: bytes = b""

    @property
    def is_boundary(self) -> bool:
        return self.subtype == "compact_boundary"

    @property
    def message_id(self) -> str:
        return self.reply.message_id if self.reply else ""


def is_unfinished(record: Record) -> bool:
    """Whether the model goes on with this reply when it is the last message: the API has paused it, or the
    caller has begun it (prefill), so that no response is known for it."""
    reply = record.reply
    if record.kind != "assistant" or record.api_error:
        return False
    if reply is None or not (reply.model or reply.message_id or reply.usage):
        return True
    return reply.stop_reason == PAUSED


def record_time(record: Record) -> datetime | None:
    """The time of a record in UTC; None if it has no readable time."""
    return parse_time(record.timestamp)


def parse_time(text: str) -> datetime | None:
    """A recorded time in UTC; None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        # OverflowError: at the first or last day that a date can have.
        return None


def is_sent(record: Record) -> bool:
    """Whether any part of the record is sent to the model (FLAT-1)."""
    if record.kind in ("progress", "system"):
        return False
    return not (record.display_only or (record.kind == "assistant" and record.api_error))


def reported_usage(record: Record) -> Usage | None:
    """Usage that the API reported; None for synthetic replies and error texts (TOK-5)."""
    reply = record.reply
    if reply is None or reply.usage is None or reply.is_synthetic or record.api_error:
        return None
    usage = reply.usage.clamped
    return usage if usage.context > 0 else None


def fuller_usage(known: Usage | None, other: Usage) -> Usage:
    """The more complete of two reports for one response. Lines are written while it streams, so the one with
    more output is newer, whatever the order of the lines.
    """
    return known if known is not None and known.output_tokens > other.output_tokens else other


def name_responses(records: Sequence[Record]) -> list[str]:
    """A name for each record that is equal for the records of one response; "" for records without a model.

    If responses have no id, consecutive assistant records are one response.
    """
    found: list[str] = []
    running = ""
    for record in records:
        said = record.kind == "assistant" and not record.api_error
        if not said or (record.reply and record.reply.is_synthetic):
            running = running if record.kind in ("system", "progress") else ""
            found.append("")
            continue
        known = record.message_id or (record.reply.request_id if record.reply else "")
        running = "" if known else running or record.uuid
        found.append(known or running)
    return found


def make_edit_record(edit: Edit, *, uuid: str, after: Record | None, at: datetime) -> Record:
    """The record that adds an edit to the history, appended after `after`."""
    known: dict[type[Edit], str] = {Cleared: "microcompact_boundary", Compacted: "compact_boundary"}
    return Record(
        kind="system",
        uuid=uuid,
        parent=after.uuid if after else "",
        timestamp=at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        session=after.session if after else "",
        agent=after.agent if after else "",
        sidechain=after.sidechain if after else False,
        subtype=known.get(type(edit)) or f"everturn_{type(edit).__name__.lower()}",
        edit=edit,
    )
