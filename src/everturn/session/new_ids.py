"""New ids for records and conversations."""

import os


def new_uuid() -> str:
    """A random UUID, version 4 (RFC 9562 5.4). Every record needs one, and an object of the module `uuid`
    costs several times as much as its text."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
