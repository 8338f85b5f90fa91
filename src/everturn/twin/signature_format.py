"""The format of the twin's signatures: an authenticated record of what was signed.

A signature contains everything that is needed to check it, so any twin can read any twin's signatures. Equal
input gives equal bytes. `signatures.py` decides whether a record is accepted.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Literal

from everturn.measure.model_table import MODELS, Model

# Not a secret: it only distinguishes the twin's signatures from any others.
_KEY: Final = b"everturn twin, thinking signatures, 1"
_HEADER: Final = b"\x12\xb4\x01"
_DIGEST: Final = 16
_NAME: Final = 8
# Padding, because real signatures have a few hundred characters. The total is a whole number of base64
# groups, so that every character is significant.
_PADDING: Final = 122
EMPTY_DIGEST: Final = bytes(_DIGEST)

SignatureKind = Literal["thinking", "omitted", "redacted", "compaction"]
_KINDS: Final[tuple[SignatureKind, ...]] = ("thinking", "omitted", "redacted", "compaction")
_BY_NAME: Final[Mapping[bytes, Model]] = {
    blake2b(model.id.encode(), digest_size=_NAME).digest(): model for model in MODELS
}


@dataclass(frozen=True, slots=True)
class SignatureRecord:
    """The contents of a signature."""

    kind: SignatureKind
    model: Model
    workspace: bytes
    text: bytes
    prefix: bytes
    chain: bytes


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


def text_digest(text: str) -> bytes:
    return digest(text.encode(errors="surrogatepass"))


def sign(
    text: str,
    *,
    model: Model,
    workspace: str,
    prefix: bytes = EMPTY_DIGEST,
    chain: bytes = EMPTY_DIGEST,
    kind: SignatureKind = "thinking",
) -> str:
    """A signature of the text, by this model, for this place in a conversation."""
    name = blake2b(model.id.encode(), digest_size=_NAME).digest()
    owner = blake2b(workspace.encode(errors="surrogatepass"), digest_size=_NAME).digest()
    record = bytes((_KINDS.index(kind),)) + name + owner + text_digest(text) + prefix + chain
    mac = hmac.digest(_KEY, record, "sha256")
    return base64.b64encode(_HEADER + record + mac + _padding(mac)).decode()


def _padding(mac: bytes) -> bytes:
    return (blake2b(mac, digest_size=64).digest() * 2)[:_PADDING]


@lru_cache(maxsize=20_000)
def decode_signature(signature: str) -> SignatureRecord | None:
    """The contents of a signature, or None if no twin created it."""
    try:
        data = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return None
    size = 1 + 2 * _NAME + 3 * _DIGEST
    record, mac = data[len(_HEADER) : len(_HEADER) + size], data[len(_HEADER) + size :][:32]
    if hmac.digest(_KEY, record, "sha256") != mac or data != _HEADER + record + mac + _padding(mac):
        return None
    model = _BY_NAME.get(record[1 : 1 + _NAME])
    if model is None or record[0] >= len(_KINDS):
        return None
    rest = record[1 + _NAME :]
    digests = [rest[_NAME + at * _DIGEST :][:_DIGEST] for at in range(3)]
    return SignatureRecord(_KINDS[record[0]], model, rest[:_NAME], *digests)
