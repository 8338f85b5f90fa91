"""A text within so many tokens: whole or cut, and which of the two."""

from collections.abc import Callable

import msgspec


class TruncatedText(msgspec.Struct, frozen=True):
    text: str
    is_cut: bool = False


def truncate_to_tokens(text: str, tokens: int, estimate: Callable[[str], int]) -> TruncatedText:
    """The beginning of a text, cut at the end of a line unless that would lose more than half of what fits.
    Shrunk by the ratio of the estimate, until the estimate agrees."""
    if estimate(text) <= tokens:
        return TruncatedText(text)
    shown = text
    while shown and (size := estimate(shown)) > tokens:
        shown = shown[: min(len(shown) - 1, len(shown) * max(tokens, 0) // max(size, 1))]
    end = shown.rfind("\n") + 1
    return TruncatedText(shown[:end] if 2 * end >= len(shown) else shown, is_cut=True)
