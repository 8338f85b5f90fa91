"""Which headers go on, and which end here.

Everything goes on as it came, except the headers that belong to one connection (RFC 9110 7.6.1), those that
are meant for the gateway, and in requests for messages the encodings that the gateway cannot read.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from everturn.gateway.failures import GatewayError
from everturn.gateway.values import MODES, Mode

RawHeaders = Sequence[tuple[bytes, bytes]]

OWN_PREFIX: Final = b"x-everturn-"
MODE: Final = b"x-everturn-mode"
TOKEN: Final = b"x-everturn-token"
SESSION: Final = b"x-everturn-session"
NOTE: Final = b"x-everturn-note"
SESSION_ID: Final = b"x-claude-code-session-id"
AGENT_ID: Final = b"x-claude-code-agent-id"
TOKEN_PREFIX: Final = "evt_"
# Encodings of replies that can be read for the record.
READABLE_ENCODINGS: Final = frozenset({b"gzip", b"x-gzip", b"deflate", b"identity"})
MAX_NOTE: Final = 200

_CONNECTION: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
     b"trailer", b"transfer-encoding", b"upgrade"}
)  # fmt: skip
# The gateway's HTTP client writes these itself.
_REWRITTEN: Final = frozenset({b"host", b"expect", b"content-length"})


def find_header(headers: RawHeaders, name: bytes) -> bytes:
    """The first value of a header; names are in lower case."""
    return next((value for each, value in headers if each == name), b"")


def drop_connection_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without the headers of this connection, and those that its `connection` header names."""
    found = [(name.lower(), value) for name, value in headers]
    named = {
        each.strip().lower() for name, value in found if name == b"connection" for each in value.split(b",")
    }
    return [each for each in found if each[0] not in _CONNECTION and each[0] not in named]


def make_request_headers(headers: RawHeaders, *, is_read: bool) -> list[tuple[str, str]]:
    """The headers for the upstream, in order. `is_read`: the reply will be recorded."""
    kept: list[tuple[str, str]] = []
    for name, value in drop_connection_headers(headers):
        if name in _REWRITTEN or name.startswith(OWN_PREFIX) or _is_own_token(name, value):
            continue
        if name == b"accept-encoding" and is_read:
            value = keep_readable_encodings(value)
        kept.append((name.decode("latin-1"), _decode(value)))
    return kept


def keep_readable_encodings(value: bytes) -> bytes:
    """The encodings that a client accepts, without those that the gateway cannot read; unchanged if it can
    read all of them."""
    given = [each.strip() for each in value.split(b",")]
    kept = [each for each in given if each.partition(b";")[0].strip().lower() in READABLE_ENCODINGS]
    if len(kept) == len(given):
        return value
    return b", ".join(kept) or b"identity"


def _is_own_token(name: bytes, value: bytes) -> bool:
    return name == b"authorization" and read_bearer(value).startswith(TOKEN_PREFIX)


def read_bearer(value: bytes) -> str:
    scheme, _, token = value.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def read_mode(headers: RawHeaders) -> Mode | None:
    """The mode that a request asks for; None if it asks for none."""
    value = find_header(headers, MODE)
    if not value:
        return None
    for mode in MODES:
        if value.strip().lower() == mode.encode():
            return mode
    raise GatewayError(
        400,
        "invalid_mode",
        f"The header {MODE.decode()} is {value[:40].decode('latin-1')!r}; send 'observe' or 'manage'.",
    )


def read_betas(headers: RawHeaders) -> list[str]:
    values = b",".join(value for name, value in headers if name == b"anthropic-beta")
    return [each.strip() for each in values.decode("latin-1").split(",") if each.strip()]


def set_betas(headers: list[tuple[str, str]], betas: Sequence[str]) -> list[tuple[str, str]]:
    """The headers with these betas, where they name others."""
    known = [
        each.strip()
        for name, value in headers
        if name == "anthropic-beta"
        for each in value.split(",")
        if each.strip()
    ]
    missing = [each for each in betas if each not in known]
    if not missing:
        return headers
    others = [each for each in headers if each[0] != "anthropic-beta"]
    return [*others, ("anthropic-beta", ",".join([*known, *missing]))]


def replace_header(headers: list[tuple[str, str]], name: str, value: str) -> list[tuple[str, str]]:
    """The headers with one value for this name; without it if the value is empty."""
    others = [each for each in headers if each[0] != name]
    return [*others, (name, value)] if value else others


def make_own_headers(session: str, mode: Mode, notes: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """What every response carries (GW-9)."""
    own = [(SESSION, (session or "none").encode()), (MODE, mode.encode())]
    if notes:
        text = "; ".join(notes).encode("ascii", "replace")[:MAX_NOTE]
        own.append((NOTE, bytes(byte if 32 <= byte < 127 else 63 for byte in text)))
    return own
