"""Which headers go on, and which end here.

Everything goes on as it came, except the headers that belong to one connection (RFC 9110 7.6.1), those that
are meant for the gateway, and in requests for messages the encodings that the gateway cannot read.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
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
# What every response has once (GW-9).
_OWN: Final = (SESSION, MODE)


def find_header(headers: RawHeaders, name: bytes) -> bytes:
    """The first value of a header; names are in lower case."""
    for each, value in headers:
        if each == name:
            return value
    return b""


def drop_connection_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without the headers of this connection, and those that its `connection` header names."""
    kept: list[tuple[bytes, bytes]] = []
    named: set[bytes] = set()
    for given, value in headers:
        name = given.lower()
        if name not in _CONNECTION:
            kept.append((name, value))
        elif name == b"connection":
            named.update(each.strip().lower() for each in value.split(b","))
    return [each for each in kept if each[0] not in named] if named else kept


def make_response_headers(
    headers: Iterable[tuple[bytes, bytes]], status: int, method: str
) -> list[tuple[bytes, bytes]]:
    """The headers for the client, in order. The length of a body that is not sent is left out: 204 must not
    have it (RFC 9110 8.6), and for 304 the server would wait for that body. So are session and mode of a
    gateway behind this one, which says its own; the notes of both are kept."""
    kept = [each for each in drop_connection_headers(headers) if each[0] not in _OWN]
    if status == 204 or (status == 304 and method != "HEAD"):
        return [each for each in kept if each[0] != b"content-length"]
    return kept


def make_request_headers(
    headers: RawHeaders, *, is_read: bool, keeps_token: bool = False
) -> list[tuple[str, str]]:
    """The headers for the upstream, in order. `is_read`: the reply will be recorded. `keeps_token`: the token
    in them is not for this gateway, but for one behind it."""
    kept: list[tuple[str, str]] = []
    for name, value in drop_connection_headers(headers):
        if name in _REWRITTEN or (name.startswith(OWN_PREFIX) and not (keeps_token and name == TOKEN)):
            continue
        if name == b"authorization" and not keeps_token and read_bearer(value).startswith(TOKEN_PREFIX):
            continue
        if name == b"accept-encoding" and is_read:
            value = keep_readable_encodings(value)
        # Bytes that are not UTF-8 are restored by who sends them.
        kept.append((name.decode("latin-1"), value.decode(errors="surrogateescape")))
    return kept


@lru_cache(maxsize=64)
def keep_readable_encodings(value: bytes) -> bytes:
    """The encodings that a client accepts, without those that the gateway cannot read; unchanged if it can
    read all of them."""
    given = [each.strip() for each in value.split(b",")]
    kept = [each for each in given if each.partition(b";")[0].strip().lower() in READABLE_ENCODINGS]
    if len(kept) == len(given):
        return value
    return b", ".join(kept) or b"identity"


def read_bearer(value: bytes) -> str:
    scheme, _, token = value.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


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
    found: list[str] = []
    for name, value in headers:
        if name == b"anthropic-beta":
            found += (each.strip() for each in value.decode("latin-1").split(",") if each.strip())
    return found


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
