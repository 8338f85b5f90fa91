"""New ids for records and conversations."""

import os
from typing import Final

# All bits that are random in a UUID of version 4, and those that say so (RFC 9562).
_RANDOM: Final = ~(0xF000 << 64 | 0xC000 << 48) & (1 << 128) - 1
_VERSION_4: Final = 0x4000 << 64 | 0x8000 << 48


def new_uuid() -> str:
    """A random UUID as text, as `str(uuid.uuid4())` gives it. Every record needs one, and building the
    object in between takes several times as long as the random bytes."""
    digits = f"{int.from_bytes(os.urandom(16), 'big') & _RANDOM | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
