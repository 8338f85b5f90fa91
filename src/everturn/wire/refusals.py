"""Which part of a request a provider refused: its error messages, where something can be done about them."""

import re
from typing import Final

# A signature that does not fit (bound thinking: api-facts 7), or thinking of the last reply that was changed.
_THINKING: Final = re.compile(
    r"[Ii]nvalid `?signature`? in `?thinking`?|`?(?:redacted_)?thinking`? blocks .{0,60}cannot be modified"
)


def refuses_thinking(message: str) -> bool:
    """Whether recorded thinking was refused: the request can be sent without it."""
    return _THINKING.search(message) is not None
