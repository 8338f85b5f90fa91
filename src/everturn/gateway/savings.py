"""What a managed conversation has saved: what its calls would have cost unmanaged, less what they cost.

Unmanaged, a call sends the client's whole list. The part that the call before had sent is read from the
cache, unless the cache has expired; the rest is written. The size of the list is estimated from the bytes of
both requests and the tokens that the API reported for one. While nothing has been removed, nothing is saved.
"""

from datetime import date
from decimal import Decimal
from typing import Final

import msgspec

from everturn.history.records import Usage
from everturn.session.bill import price_usage

_TTL_SECONDS: Final = {"5m": 300.0, "1h": 3600.0}


class ListSize(msgspec.Struct, frozen=True):
    """The client's list at one call, in tokens, and when that was, in seconds."""

    tokens: int
    at: float


def estimate_list(usage: Usage, client_bytes: int, sent_bytes: int, at: float) -> ListSize:
    return ListSize(round(usage.context * max(1.0, client_bytes / sent_bytes)), at)


def estimate_unmanaged(usage: Usage, now: ListSize, before: ListSize | None, ttl: str) -> Usage:
    """The usage of the same call with the client's whole list."""
    is_cached = usage.cache_creation_input_tokens + usage.cache_read_input_tokens > 0
    is_warm = before is not None and now.at - before.at <= _TTL_SECONDS.get(ttl, 300.0)
    read = min(before.tokens, now.tokens) if before is not None and is_warm and is_cached else 0
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
