"""Practice: calls that the twin answered. Nobody pays for them, so no total includes them.

The mark is in the id of the request, which every transcript keeps: a conversation can go on with a model.
"""

from typing import Final

_API: Final = "req_"
_PRACTICE: Final = "req_practice_"


def mark_practice(request_id: str) -> str:
    return _PRACTICE + request_id.removeprefix(_API)


def is_practice(request_id: str) -> bool:
    return request_id.startswith(_PRACTICE)


def describe_practice(calls: int) -> str:
    """For people: how many calls are left out of a total, and why."""
    what = "1 call was" if calls == 1 else f"{calls:,} calls were"
    return f"{what} practice with the twin: nothing was billed, and no total includes them"
