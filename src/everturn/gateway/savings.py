"""What a managed conversation has saved: what its calls would have cost unmanaged, less what they cost.

Unmanaged, a call sends the client's whole list. The part that the call before had sent is read from the
cache, unless the cache has expired; the rest is written. While nothing has been removed, the size of the list
is what the API reports, and nothing is saved. After that it grows with the bytes that the client sends, at
the tokens per byte that were reported before; those of this call, if there is no call before. A request of a
thread has only the new messages, so it adds to the bytes before it.
"""

from datetime import date
from decimal import Decimal
from typing import Final

import msgspec

from everturn.history.records import Usage
from everturn.session.bill import price_usage

_TTL_SECONDS: Final = {"5m": 300.0, "1h": 3600.0}


class ListSize(msgspec.Struct, frozen=True):
    """The client's list at one call, in tokens and bytes, and when that was, in seconds."""

    tokens: int
    bytes: int
    at: float


def estimate_list(
    usage: Usage,
    body_bytes: int,
    sent_bytes: int,
    before: ListSize | None,
    at: float,
    *,
    is_added: bool,
    is_reduced: bool,
) -> ListSize:
    """The list of a call. `is_added`: the client's body is only what comes after the list before.
    `is_reduced`: less than the list was sent."""
    size = body_bytes + (before.bytes if before is not None and is_added else 0)
    if not is_reduced:
        return ListSize(usage.context, size, at)
    tokens, bytes_ = (usage.context, sent_bytes) if before is None else (before.tokens, before.bytes)
    return ListSize(max(usage.context, round(tokens * size / bytes_)), size, at)


def estimate_unmanaged(usage: Usage, now: ListSize, before: ListSize | None, ttl: str) -> Usage:
    """The usage of the same call with the client's whole list. If there is no call before, such as in a fork,
    what this call wrote is all that is written: a saving that is not certain is not counted."""
    if before is None:
        new = usage.input_tokens + usage.cache_creation_input_tokens
        return Usage(
            input_tokens=usage.input_tokens,
            cache_creation_input_tokens=usage.cache_creation_input_tokens,
            cache_read_input_tokens=max(0, now.tokens - new),
            output_tokens=usage.output_tokens,
        )
    is_cached = usage.cache_creation_input_tokens + usage.cache_read_input_tokens > 0
    is_warm = now.at - before.at <= _TTL_SECONDS.get(ttl, 300.0)
    read = min(before.tokens, now.tokens) if is_warm and is_cached else 0
    written = now.tokens - read if is_cached else 0
    return Usage(
        input_tokens=now.tokens - read - written,
        cache_creation_input_tokens=written,
        cache_read_input_tokens=read,
        output_tokens=usage.output_tokens,
    )


def compute_saved(usage: Usage, unmanaged: Usage, summaries: Decimal, model: str, on: date) -> Decimal:
    """Net dollars of one call; `summaries` is what summaries since the call before cost. May be negative."""
    cost, other = (price_usage(each, model, on).dollars for each in (usage, unmanaged))
    return other - cost - summaries
