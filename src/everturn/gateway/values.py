"""What the gateway's parts tell each other: modes, tenants, settings."""

from collections.abc import Collection
from typing import Final, Literal

import msgspec

from everturn.adapters.tracking.parts import TrackerParts
from everturn.gateway.limits import CapSettings, Limits

Mode = Literal["observe", "manage"]
MODES: Final[tuple[Mode, ...]] = ("observe", "manage")
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8377
DEFAULT_OPERATOR_PORT: Final = 8378
DEFAULT_UPSTREAM: Final = "https://api.anthropic.com"
# Whoever reaches a gateway that asks for no token.
LOCAL_TENANT: Final = "local"


class Tenant(msgspec.Struct, frozen=True):
    """Whose request it is. `mode` is "" where the tenant has chosen none."""

    name: str
    mode: Mode | Literal[""] = ""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. A client gives up after 300 s without content, and pings are not content (GW-5)."""

    # How long nothing is sent while a summary is written; then pings are.
    quiet: float = 45.0
    ping: float = 10.0
    # After this a summary is abandoned, and the request is sent as it is.
    summary: float = 240.0
    # How long a request is prepared where no summary is written; then it is sent as it came.
    prepare: float = 10.0
    # How long a count waits for what it is to count; then it is sent as it came.
    count: float = 1.0
    # How long the headers of a response wait for the name of the conversation.
    session: float = 0.1
    # How long the end of a reply waits for its record, where replicas share conversations.
    record: float = 0.5
    # How long an upstream may take to accept a connection, and to send the next byte.
    connect: float = 15.0
    silence: float = 600.0


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway is started with."""

    # Options, hooks and clock; its folder has a folder per tenant in it.
    parts: TrackerParts
    upstream: str = DEFAULT_UPSTREAM
    mode: Mode = "observe"
    # Host names besides localhost and IP addresses that requests may name.
    allowed_hosts: Collection[str] = ()
    limits: Limits = Limits()
    caps: CapSettings = CapSettings()
    timing: Timing = Timing()
