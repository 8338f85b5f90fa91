"""From what the user gave to a gateway that can be served."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.adapters.tracking import make_parts
from everturn.errors import UsageError
from everturn.gateway.limits import change_limits
from everturn.gateway.stores import default_gateway_folder
from everturn.gateway.upstream import check_upstream
from everturn.gateway.values import DEFAULT_UPSTREAM, GatewaySettings, Mode
from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.options import TwinOptions

TWIN = "twin"
# Their bytes are limited (`memory_bytes`), and a tenant may be a whole team. Our choice.
GATEWAY_DEFAULTS: Final = {"limits.conversations": 4096}


def load_settings(
    *,
    upstream: str,
    mode: Mode | None,
    settings: Mapping[str, str],
    config_path: Path | None,
    limits: Mapping[str, str],
    allowed_hosts: Sequence[str] = (),
    memory_only: bool = False,
) -> GatewaySettings:
    """Load the configuration. `upstream` is an address; "" for the API's."""
    values: dict[str, Any] = dict(settings)
    if memory_only:
        values["store.kind"] = "memory"
    parts = make_parts(None, config=config_path or "auto", defaults=GATEWAY_DEFAULTS, **values)
    if parts.folder is not None and not parts.options.store.folder:
        parts = msgspec.structs.replace(parts, folder=default_gateway_folder())
    chosen, caps = change_limits(dict(limits))
    return GatewaySettings(
        parts=parts,
        upstream=check_upstream(upstream or DEFAULT_UPSTREAM),
        mode=mode or parts.options.gateway.mode,
        allowed_hosts=frozenset(name.lower() for name in allowed_hosts),
        limits=chosen,
        caps=caps,
    )


@contextmanager
def open_upstream(name: str) -> Generator[str, None, None]:
    """The address of the upstream during a `with` block; "twin" starts one."""
    if name != TWIN:
        yield name
        return
    # What is recorded of it must not count as paid.
    with serve_twin(build_twin(clock="real", options=TwinOptions(marks_practice=True))) as url:
        yield url


def check_reachable(host: str, has_tokens: bool) -> None:
    """Raise for an address that others can reach, if there are no tokens."""
    if has_tokens or host == "localhost":
        return
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise UsageError(
            f"{host} can be reached from other machines, so the gateway needs tokens. Make one with "
            "`everturn gateway token NAME --tokens FILE`, then add --tokens FILE here."
        )


def describe_costs(calls: int, dollars: float, saved: float, hit_ratio: float, mode: Mode) -> str:
    """What a session cost and saved, in one line."""
    noun = "call" if calls == 1 else "calls"
    cost = f"{calls} {noun}, ${dollars:.4f}, {hit_ratio:.0%} of the input read from the prompt cache"
    # A client may have asked for the other mode in its headers.
    if mode == "observe" and not saved:
        return f"{cost}; saved $0.0000 (observed only; --mode manage lets everturn decide)"
    if saved < 0:
        return f"{cost}; cost about ${-saved:.4f} more than unmanaged, net"
    return f"{cost}; saved about ${saved:.4f} net"


def describe_passed_through(counted: Mapping[str, int]) -> list[str]:
    """What was relayed without being understood, the most frequent reason first: one line for each."""
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return [
        f"{count} {'request was' if count == 1 else 'requests were'} passed through unchanged: {reason}"
        for reason, count in ordered
    ]
