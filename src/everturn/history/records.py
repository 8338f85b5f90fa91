"""Records: what happened, one immutable fact each (TR-1, TR-3).

A record keeps the bytes of the line it was read from; the fields beside them are what the engine looks
at. How a line is spelled on disk is known in `wire/claude_code_reader.py` alone.
"""

from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from everturn.history.blocks import Block
from everturn.history.edits import Cleared, Compacted, Edit

RecordKind = Literal["user", "assistant", "system", "attachment", "progress"]
KINDS: frozenset[str] = frozenset(get_args(RecordKind))

# The model name of a reply that no model gave: "No response requested.", an API error shown as text.
SYNTHETIC = "<synthetic>"


class CacheCreation(msgspec.Struct, frozen=True, gc=False):
    """Cache writes by lifetime."""

    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What the API reported for one call: three disjoint kinds of input, and the output."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    cache_creation: CacheCreation | None = None

    @property
    def context(self) -> int:
        """Tokens that the model was shown."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    @property
    def total(self) -> int:
        """What the context holds once the reply is part of it (TOK-5)."""
        return self.context + self.output_tokens


class ReplyMeta(msgspec.Struct, frozen=True, gc=False):
    """What an assistant record knows of the API response that it is a piece of."""

    message_id: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Usage | None = None
    request_id: str = ""

    @property
    def is_synthetic(self) -> bool:
        return self.model == SYNTHETIC


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact. `raw` is its JSON object as it stands in the file.

    `subtype` tells what kind of system record or attachment it is. An attachment's payload is its one
    block, of kind "attachment"; how it reads to the model is decided in `view/`.
    """

    kind: RecordKind
    uuid: str
    parent: str = ""
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


def record_time(record: Record) -> datetime | None:
    """The time of a record in UTC; None when it has none that can be read."""
    try:
        moment = datetime.fromisoformat(record.timestamp)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def is_sent(record: Record) -> bool:
    """Whether the model sees anything of a record at all (FLAT-1)."""
    if record.kind in ("progress", "system"):
        return False
    return not (record.display_only or (record.kind == "assistant" and record.api_error))


def reported_usage(record: Record) -> Usage | None:
    """Usage that really came from the API: synthetic replies and error texts carry none (TOK-5)."""
    reply = record.reply
    if reply is None or reply.usage is None or reply.is_synthetic or record.api_error:
        return None
    return reply.usage if reply.usage.context > 0 else None


def make_edit_record(edit: Edit, *, uuid: str, after: Record | None, at: datetime) -> Record:
    """The record that makes an edit part of history, appended behind `after`."""
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
