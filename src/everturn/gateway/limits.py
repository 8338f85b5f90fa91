"""The limits of the gateway and their defaults. docs/gateway.md has the table."""

import math
from typing import Final

import msgspec

from everturn.errors import UsageError

MIB = 1 << 20
# Timers cannot be set for longer than this, and nothing is larger. Our choice.
MAX_LIMIT: Final = 10**15


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Each can be changed with `--limit NAME=VALUE`."""

    # All header lines of a request together, and how many there may be.
    header_bytes: int = 64 * 1024
    headers: int = 200
    # A request to the Messages API; the API's own limit is 32 MB.
    body_bytes: int = 34 * MIB
    # The same after decompression.
    decompressed_bytes: int = 64 * MIB
    # Requests to other endpoints, which are not kept in memory; the Files API takes 500 MB.
    upload_bytes: int = 512 * MIB
    # A request with more messages is relayed and not read. So is JSON that is nested deeper than the parser
    # goes, which is about 1,000 levels.
    messages: int = 100_000
    # What is kept of a reply for its record; a longer one is relayed and not recorded.
    reply_bytes: int = 64 * MIB
    # Seconds for the headers and the body of a request, and for a whole response.
    request_seconds: int = 120
    stream_seconds: int = 3600
    # Running requests of one tenant.
    requests: int = 64
    # Requests, and replies, that wait to be recorded, and the bytes of all of them; further ones are relayed
    # and not recorded, and that is reported.
    recordings: int = 1024
    recording_bytes: int = 256 * MIB
    # Conversations in memory, of all tenants; those that were not used for the longest time are read from
    # their store when they are needed again, which takes five times as long. 1,000 of 200 KB are 257 MB.
    memory_bytes: int = 384 * MIB


class CapSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The most that summaries may use, per session and per tenant and day. 0 allows none."""

    session_calls: int = 100
    session_tokens: int = 30_000_000
    session_dollars: float = 50.0
    tenant_calls: int = 1_000
    tenant_tokens: int = 300_000_000
    tenant_dollars: float = 500.0


def change_limits(given: dict[str, str]) -> tuple[Limits, CapSettings]:
    """The limits with some of them changed, by name."""
    limits, caps = msgspec.to_builtins(Limits()), msgspec.to_builtins(CapSettings())
    for name, value in given.items():
        group = limits if name in limits else caps if name in caps else None
        if group is None:
            known = ", ".join([*limits, *caps])
            raise UsageError(f"There is no limit {name!r}. The limits are: {known}.")
        try:
            number = type(group[name])(value)
        except ValueError:
            number = math.nan
        # Not the other way round: a comparison with NaN is false.
        if not 0 <= number <= MAX_LIMIT:
            what = "whole number" if type(group[name]) is int else "number"
            raise UsageError(f"The limit {name} is {value[:40]!r}; give a {what} from 0 to {MAX_LIMIT:,}.")
        group[name] = number
    return msgspec.convert(limits, Limits), msgspec.convert(caps, CapSettings)
