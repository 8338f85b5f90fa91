"""Two requests in a row, as terminal output: what the later one no longer had, and what it added."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from everturn.dashboard.layout import Screen, counted
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.replay.requests_seen import RequestDifference, SeenBlock

# Enough lines of a block to recognise it.
MAX_LINES: Final = 6
_INDENT: Final = "  "


def render_difference(found: RequestDifference, why: str, screen: Screen) -> list[Text]:
    """`why` says why the cache broke at the later request; empty if it did not."""
    said = f"The cache broke at call {found.number:,}: {why}." if why else "The cache did not break here."
    same = f"The first {found.common:,} blocks of both requests are the same."
    if found.common < 2:
        same = f"The first block of both requests is {'the same' if found.common else 'different'}."
    lines = [Text(line) for sentence in (said, same) for line in screen.wrapped(sentence)]
    if not found.removed_count:
        added = f"Call {found.number:,} only added {counted(found.added_count, 'block')}."
        if why:
            added += " So the messages did not break the cache: time, model, tools or system prompt did."
        return [*lines, *(Text(line) for line in screen.wrapped(added))]
    lines += _side(f"Only before call {found.number:,}", found.removed, found.removed_count, screen)
    return lines + _side(f"Only in call {found.number:,}", found.added, found.added_count, screen)


def _side(title: str, blocks: Sequence[SeenBlock], count: int, screen: Screen) -> list[Text]:
    lines = [Text(), Text(screen.fitted(f"{title}: {counted(count, 'block')}"), HEAD)]
    for block in blocks:
        lines.append(Text(screen.fitted(f"{block.role}, {block.kind}"), QUIET))
        lines += [Text(f"{_INDENT}{line}") for line in _cut(block, screen)]
    hidden = count - len(blocks)
    return [*lines, Text(f"and {counted(hidden, 'more block')}", QUIET)] if hidden > 0 else lines


def _cut(block: SeenBlock, screen: Screen) -> Iterator[str]:
    narrow = screen._replace(width=max(1, screen.width - len(_INDENT)))
    every = [line for line in block.text.splitlines() if line.strip()]
    yield from (narrow.fitted(line) for line in every[:MAX_LINES])
    more = max(0, len(every) - MAX_LINES)
    if more or block.left:
        left = f" and {counted(block.left, 'character')}" if block.left else ""
        yield narrow.fitted(f"({counted(more, 'more line')}{left})")
