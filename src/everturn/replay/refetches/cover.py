"""Which missing strings count, how certain that is, and which blocks have to be fetched for them (RP-14).

Tier 1 is certain: replaced text, two quoted or three copied lines from one block or a long quotation, an id.
Tier 2 is probable: two copied lines, two independent names or files from one block, or the file that a call
reads or edits. Single names, and what the
same call reads again anyway, never count. The strings of a call are covered by the fewest blocks, then the
smallest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from everturn.replay.refetches.index import CallUses, HeldBlock, ThreadUses
from everturn.replay.refetches.strings import NEVER_OWN, NeededString, UseKind, count_visible_chars

Tier = Literal[1, 2]

# One quoted or thought line of this length is enough; shorter ones need a second line from the same block.
LONG_LINE_CHARS: Final = 40
# So many copied lines from one block are certain; two are probable.
COPIED_LINES: Final = 3
# A name, a file or an id is found again by a search: the median result of a recorded search.
SEARCH_TOKENS: Final = 500

_REPLACED: Final[tuple[UseKind, ...]] = ("old_text", "partial")
# Kinds of which one string is enough.
COUNTED_ALONE: Final[tuple[UseKind, ...]] = (*_REPLACED, "id", "argument")
_REPEATED: Final[tuple[UseKind, ...]] = ("quoted", "copied")
_MENTIONED: Final[tuple[UseKind, ...]] = ("argument", "file", "name")
_PATHS: Final[tuple[UseKind, ...]] = ("argument", "file")
_FOUND_BY_SEARCH: Final[tuple[UseKind, ...]] = ("id", *_MENTIONED)


class FetchedBlock(msgspec.Struct, frozen=True):
    """A block that has to be fetched, the strings that need it, and what it costs in tokens."""

    block: int
    strings: tuple[int, ...]
    tier: Tier
    tokens: int
    # Whether a search brings only these strings back, and not the whole block.
    is_search: bool


def cover_missing(thread: ThreadUses, call: CallUses, missing: Sequence[int]) -> tuple[FetchedBlock, ...]:
    """The blocks that a call has to fetch, given the strings that it uses and does not see."""
    holders = {string: _holders(thread, call, string) for string in missing}
    found: list[FetchedBlock] = []
    # What one block leaves has to count without what that block brings.
    while left := _counted(thread, holders):
        by_block: dict[int, list[int]] = {}
        for string, (_, blocks) in left.items():
            for block in blocks:
                by_block.setdefault(block, []).append(string)
        # Certain strings have to be fetched anyway, so what else their blocks bring is not missing.
        certain = {block for tier, blocks in left.values() if tier == 1 for block in blocks}
        chosen = max(
            by_block, key=lambda at: (at in certain, len(by_block[at]), -thread.blocks[at].tokens, at)
        )
        strings = by_block[chosen]
        found.append(_fetch(thread, chosen, strings, {string: left[string][0] for string in strings}))
        brought = {*strings, *thread.blocks[chosen].holds}
        holders = {string: held for string, held in holders.items() if string not in brought}
    return tuple(sorted(found, key=lambda each: each.block))


def _fetch(thread: ThreadUses, block: int, strings: Sequence[int], tiers: Mapping[int, Tier]) -> FetchedBlock:
    """The most certain string comes first: it is the one that is shown."""
    ordered = tuple(sorted(strings, key=lambda string: tiers[string]))
    tokens = thread.blocks[block].tokens
    is_search = all(thread.strings[string][0] in _FOUND_BY_SEARCH for string in strings)
    is_search = is_search and tokens > SEARCH_TOKENS
    return FetchedBlock(block, ordered, tiers[ordered[0]], SEARCH_TOKENS if is_search else tokens, is_search)


def _holders(thread: ThreadUses, call: CallUses, string: int) -> tuple[int, ...]:
    """The blocks before a call from which it can have a string."""
    kind = thread.strings[string][0]
    earlier = thread.holders_before(string, call.start)
    held = [at for at in earlier if not _is_own_words(thread.blocks[at], kind)]
    if kind in _REPLACED:
        file = dict(call.targets).get(string, "")
        return tuple(at for at in held if file and thread.blocks[at].file == file) or tuple(held)
    if any(thread.blocks[at].file in call.reads for at in held if thread.blocks[at].file):
        return ()
    if kind in _PATHS:
        # Who fetches the file itself has its path too.
        held += _results_about(thread, thread.strings[string][1], call.start)
    return tuple(dict.fromkeys(held))


def _is_own_words(block: HeldBlock, kind: UseKind) -> bool:
    return block.is_own if kind in NEVER_OWN else block.is_prose


def _results_about(thread: ThreadUses, file: str, before: int) -> list[int]:
    """The results about a file that hold anything needed."""
    blocks = enumerate(thread.blocks[:before])
    return [at for at, block in blocks if block.answers and block.holds and block.file == file]


def _counted(
    thread: ThreadUses, holders: Mapping[int, Sequence[int]]
) -> dict[int, tuple[Tier, tuple[int, ...]]]:
    """The strings that count, with their tier and the blocks because of which they do."""
    found: dict[int, tuple[Tier, tuple[int, ...]]] = {}
    for string, blocks in holders.items():
        kind = thread.strings[string][0]
        if blocks and (kind in _REPLACED or kind == "id"):
            found[string] = 1, tuple(blocks)
        elif blocks and kind == "argument":
            found[string] = 2, tuple(blocks)
    _add(found, 1, thread, holders, _REPEATED, _are_enough_lines)
    _add(found, 2, thread, holders, ("copied",), _are_two)
    _add(found, 2, thread, holders, _MENTIONED, _are_enough_mentions)
    return found


def _add(
    found: dict[int, tuple[Tier, tuple[int, ...]]],
    tier: Tier,
    thread: ThreadUses,
    holders: Mapping[int, Sequence[int]],
    kinds: Iterable[UseKind],
    are_enough: Callable[[Sequence[NeededString]], bool],
) -> None:
    """Adds the strings of these kinds of which one block holds enough."""
    by_block: dict[int, list[int]] = {}
    for string, blocks in holders.items():
        if thread.strings[string][0] in kinds:
            for block in blocks:
                by_block.setdefault(block, []).append(string)
    for block, strings in by_block.items():
        if are_enough([thread.strings[string] for string in strings]):
            for string in strings:
                known, blocks = found.get(string, (tier, ()))
                if known == tier and block not in blocks:
                    found[string] = tier, (*blocks, block)


def _are_enough_lines(strings: Sequence[NeededString]) -> bool:
    """Three that were copied, or two that were quoted, or a long one. Two lines of code can be alike by
    chance: the usual way to write something.
    """
    quoted = {line for kind, line in strings if kind == "quoted"}
    if len({line for _, line in strings}) >= (2 if quoted else COPIED_LINES):
        return True
    return any(count_visible_chars(line) >= LONG_LINE_CHARS for line in quoted)


def _are_two(strings: Sequence[NeededString]) -> bool:
    return len(strings) >= 2


def _are_enough_mentions(strings: Sequence[NeededString]) -> bool:
    """At least two that are independent: a file and its stem are one, and so are a name and its beginning."""
    bare = sorted({_stem(string) if kind in _PATHS else string for kind, string in strings}, key=len)
    return sum(not any(each in longer for longer in bare[at + 1 :]) for at, each in enumerate(bare)) >= 2


def _stem(path: str) -> str:
    """A file's name without its ending, marked so that it is no part of a longer name."""
    return f"/{path.rpartition('/')[2].partition('.')[0].casefold()}"
