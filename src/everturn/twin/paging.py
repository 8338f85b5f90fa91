"""The `limit` of list endpoints."""

from typing import Final

from everturn.twin.values import invalid_request

_DEFAULT_LIMIT: Final = 20
_MAX_LIMIT: Final = 1000


def read_limit(value: str | None) -> int:
    """The number of items on a page; raises ApiError for a value outside 1 to 1000."""
    if value is None:
        return _DEFAULT_LIMIT
    if not value.isascii() or not value.isdigit() or len(value) > 6 or not 1 <= int(value) <= _MAX_LIMIT:
        raise invalid_request(f"limit: Input should be a whole number from 1 to {_MAX_LIMIT}")
    return int(value)
