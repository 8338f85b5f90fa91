"""A text within so many tokens: whole or cut, and how much was cut."""

from collections.abc import Callable, Sequence

import msgspec


class TruncatedText(msgspec.Struct, frozen=True):
    text: str
    is_cut: bool = False
    # Characters that were left out.
    left_out: int = 0


def truncate_to_tokens(text: str, tokens: int, estimate: Callable[[str], int]) -> TruncatedText:
    """The beginning of a text, cut at the end of a line unless that would lose more than half of what fits.
    Shrunk by the ratio of the estimate, until the estimate agrees."""
    if estimate(text) <= tokens:
        return TruncatedText(text)
    shown = text
    while shown and (size := estimate(shown)) > tokens:
        shown = shown[: min(len(shown) - 1, len(shown) * max(tokens, 0) // max(size, 1))]
    end = shown.rfind("\n") + 1
    shown = shown[:end] if 2 * end >= len(shown) else shown
    return TruncatedText(shown, is_cut=True, left_out=len(text) - len(shown))


def truncate_middle(text: str, tokens: int, estimate: Callable[[str], int]) -> TruncatedText:
    """The head and the tail of a text, each about half: a long message has its question at either end."""
    if estimate(text) <= tokens:
        return TruncatedText(text)
    head = truncate_to_tokens(text, tokens // 2, estimate).text
    tail = truncate_to_tokens(text[::-1], tokens // 2, estimate).text[::-1]
    left_out = len(text) - len(head) - len(tail)
    return TruncatedText(f"{head}\n[... {left_out:,} characters left out ...]\n{tail}", True, left_out)


def truncate_parts(parts: Sequence[str], tokens: int, estimate: Callable[[str], int]) -> TruncatedText:
    """Several texts, blank lines between them. Where they do not fit together, short ones are whole, and each
    of the others has its head and its tail: of parallel results none disappears."""
    whole = "\n\n".join(parts)
    if estimate(whole) <= tokens:
        return TruncatedText(whole)
    sizes = [estimate(part) for part in parts]
    left, share = tokens, 0
    for done, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - done)
        if size > share:
            break
        left -= size
    cut = [truncate_middle(part, share, estimate) for part in parts]
    return TruncatedText(
        "\n\n".join(each.text for each in cut), is_cut=True, left_out=sum(each.left_out for each in cut)
    )
