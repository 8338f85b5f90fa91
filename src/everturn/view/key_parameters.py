"""How long a written prefix should live, decided once per session (PC-9, PC-10, PC-18).

Writing with a lifetime of one hour costs twice the base price, with five minutes 1.25 times. The lifetime and
everything else that is part of the cache key is latched at a session's first request: a change in the middle
would change the key and pay for the whole prefix again.
"""

from collections.abc import Hashable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from everturn.measure.capabilities import Capabilities
from everturn.measure.prefix_cache import Ttl

RequestKind = Literal["conversation", "fork"]


class TtlSettings(msgspec.Struct, frozen=True):
    """Who may ask for an hour: an eligible account, and a source that matches one of the patterns."""

    eligible: bool = False
    sources: tuple[str, ...] = ("main*", "sdk", "agent:*")
    # On Bedrock an hour is asked for only when this says so; `eligible` is about Anthropic's own accounts.
    bedrock_1h: bool = False
    # A subscriber who pays by use beyond the plan keeps five minutes.
    in_overage: bool = False


class TtlChoice(msgspec.Struct, frozen=True):
    ttl: Ttl
    why: str


def choose_ttl(
    source: str, purpose: RequestKind, settings: TtlSettings, capabilities: Capabilities
) -> TtlChoice:
    if purpose == "fork":
        return TtlChoice("5m", "a fork is over before an hour could pay off")
    if "1h" not in capabilities.ttls:
        return TtlChoice("5m", "the provider supports only five minutes")
    if refusal := _not_eligible(settings, capabilities):
        return TtlChoice("5m", refusal)
    if not any(fnmatchcase(source, pattern) for pattern in settings.sources):
        return TtlChoice("5m", f"source {source!r} is not in the list of sources for one hour")
    return TtlChoice("1h", f"source {source!r} may ask for an hour")


def _not_eligible(settings: TtlSettings, capabilities: Capabilities) -> str:
    """Why the account may not request one hour; empty if it may (PC-18)."""
    if capabilities.name == "bedrock":
        return "" if settings.bedrock_1h else "on Bedrock one hour must be enabled (ttl.bedrock_1h)"
    if not settings.eligible:
        return "the account is not eligible for an hour"
    return "the account is in overage" if settings.in_overage else ""


class KeyParameters(msgspec.Struct, frozen=True):
    """What is part of the cache key in addition to tools, system, model and messages."""

    lifetime: TtlChoice
    betas: tuple[str, ...] = ()
    thinking: Mapping[str, Any] | None = None
    effort: str = ""
    speed: str = ""
    tool_choice: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = {}


class LatchedParameters(msgspec.Struct, frozen=True):
    """The parameters that are sent, and the requested changes that were not made."""

    parameters: KeyParameters
    refused: tuple[str, ...] = ()


def latch_parameters(latched: KeyParameters | None, wanted: KeyParameters) -> LatchedParameters:
    """The parameters of the first request apply for the whole session, whatever later requests ask for."""
    if latched is None or latched == wanted:
        return LatchedParameters(latched or wanted)
    names = [
        name for name in KeyParameters.__struct_fields__ if getattr(latched, name) != getattr(wanted, name)
    ]
    said = [
        f"{name} stays {_shown(getattr(latched, name))}"
        for name in names
        if not _same_ttl(name, latched, wanted)
    ]
    return LatchedParameters(latched, tuple(said))


def _same_ttl(name: str, latched: KeyParameters, wanted: KeyParameters) -> bool:
    """Two reasons for the same lifetime are not a change."""
    return name == "lifetime" and latched.lifetime.ttl == wanted.lifetime.ttl


def _shown(value: Hashable | TtlChoice) -> str:
    return value.ttl if isinstance(value, TtlChoice) else str(value)


def to_request_fields(parameters: KeyParameters) -> dict[str, Any]:
    """The parameters as fields of a request; betas go into a header."""
    own: dict[str, Any] = {
        "thinking": parameters.thinking,
        "speed": parameters.speed,
        "tool_choice": parameters.tool_choice,
        "output_config": _output_config(parameters),
    }
    return {**parameters.extra, **{name: value for name, value in own.items() if value}}


def _output_config(parameters: KeyParameters) -> dict[str, Any]:
    """The one field that two parameters share: a format may be set next to the effort."""
    effort = {"effort": parameters.effort} if parameters.effort else {}
    return {**parameters.extra.get("output_config", {}), **effort}
