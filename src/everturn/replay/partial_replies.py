"""Replies that were cut off: the middleware and the gateway keep what arrived of them beside the transcript.

They are paid for and in no conversation, so its records do not have them.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from everturn.history.records import Usage
from everturn.safe_files import MAX_SESSION_BYTES, read_file
from everturn.session.bill import UsageTotals, price_usage
from everturn.session.store.jsonl_store import FILES_SUFFIX

_PATTERN: Final = "partial-*.json"


class _PartialReply(msgspec.Struct):
    model: str = ""
    usage: Usage | None = None


_decode: Final = msgspec.json.Decoder(_PartialReply).decode


def price_partial_replies(transcript: str) -> UsageTotals:
    """What those beside this transcript have cost, by the usage that had arrived. One that cannot be read, or
    has no usage, is a call without a known price."""
    return sum(map(_price, sorted(Path(f"{transcript}{FILES_SUFFIX}").glob(_PATTERN))), UsageTotals())


def _price(path: Path) -> UsageTotals:
    try:
        reply = _decode(read_file(path, max_bytes=MAX_SESSION_BYTES))
        # When the reply was cut off, unless the file was copied since.
        day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return UsageTotals(calls=1, unpriced=1)
    if reply.usage is None:
        return UsageTotals(calls=1, unpriced=1)
    return price_usage(reply.usage, reply.model, day)
