"""What is visible of a conversation under one policy, and what is missing when it is used (RP-6).

A simulation reports what becomes visible and what is hidden. The refetches of a call are the blocks that it
would have had to fetch again. For every string the number of visible blocks that contain it is kept. A lookup
costs the uses of the call; showing and hiding cost the strings of the block.

What a use is was decided in `index.py`, for all policies alike. What a refetch costs is not decided here.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Edit,
    Offloaded,
    ThinkingDropped,
)
from everturn.history.log import View
from everturn.history.records import Record
from everturn.replay.refetches.cover import FetchedBlock, Tier, cover_missing
from everturn.replay.refetches.index import SessionUses, ThreadUses
from everturn.replay.refetches.outputs import block_text, shown_blocks
from everturn.replay.refetches.strings import UseKind, occurs_in

_LONGEST_SHOWN: Final = 80


class Refetch(msgspec.Struct, frozen=True):
    """A block that was needed and not visible (`record uuid:index`), and the most certain use that needed it.

    `tokens` is what fetching it costs. Tier 1 is certain, tier 2 probable (`cover.py`).
    """

    block: str
    tokens: int
    what: str
    kind: UseKind
    tier: Tier = 1


class _Fetched(msgspec.Struct):
    """What was fetched again: the strings of a block, and the name that hides them."""

    strings: tuple[int, ...]
    name: str = ""


class _Text:
    """Text that represents blocks: a summary, a restored file, a preview. Searched only when needed."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text = text
        # The record and the call that it belongs to. It is hidden with them.
        self.names = names
        self.holds: dict[int, bool] = {}


class _ThinkingInView:
    """Which thinking of the view is no longer sent. The rest is visible: that of the current tool loop, and
    earlier one for models that keep it.
    """

    def __init__(self, uses: ThreadUses) -> None:
        self._uses = uses
        self._places: dict[str, int] = {}
        # Place of the record and number of the block, oldest first.
        self._sent: list[tuple[int, int]] = []
        self.dropped: set[int] = set()

    def add(self, record: Record) -> tuple[int, ...]:
        """The blocks that this record drops."""
        if record.uuid in self._places:
            return ()
        place = self._places[record.uuid] = len(self._places)
        blocks = self._uses.members.get(record.uuid, ())
        self._sent += [(place, at) for at in blocks if self._uses.blocks[at].is_thinking]
        if not isinstance(record.edit, ThinkingDropped):
            return ()
        first = self._index(record.edit.since)
        end = self._index(record.edit.until) if record.edit.until else len(self._sent)
        gone = tuple(at for _, at in self._sent[first:end])
        del self._sent[first:end]
        self.dropped.update(gone)
        return gone

    def _index(self, uuid: str) -> int:
        """A record that is not in view lies before all that are, as in `view/flatten.py`."""
        return bisect_left(self._sent, (self._places.get(uuid, 0), 0))


class Visibility:
    """What one policy shows of one conversation. Records are shown in order, each before the calls that
    follow it. Ask for the refetches of a call before its own records are shown.
    """

    def __init__(self, uses: SessionUses, thread: str | int = "") -> None:
        self._uses = uses.thread(thread)
        # For each string, how many visible blocks contain it.
        self._held = [0] * len(self._uses.strings)
        self._in_view: set[int] = set()
        self._shown: set[int] = set()
        # Hidden by name (of a record or a call), in any view. Cache deletions can end; the others cannot.
        self._hidden: set[str] = set()
        self._deleted: set[str] = set()
        self._thinking = _ThinkingInView(self._uses)
        self._results = {block.answers: at for at, block in enumerate(self._uses.blocks) if block.answers}
        # Blocks that were fetched again, and the name that hides each.
        self._fetched: dict[int, _Fetched] = {}
        self._texts: list[_Text] = []
        self._always = _Text(self._uses.always, ())

    # ── showing ──────────────────────────────────────────────────────────────────────────────────

    def see(self, record: Record) -> None:
        """A record became visible. Summaries, and records that are not in the recording, are texts.

        Edits of single results are applied. After a compaction, a trim or an undo, call `show` with the view.
        """
        self._settle(self._thinking.add(record))
        self._follow(record.edit)
        if (members := self._uses.members.get(record.uuid)) is not None:
            self._in_view.update(members)
            self._settle(members)
            return
        for block in shown_blocks(record):
            if words := block_text(block):
                self._add_text(words, (record.uuid, block.call) if block.is_result else (record.uuid,))

    def _add_text(self, text: str, names: tuple[str, ...]) -> None:
        if not self._hidden.intersection(names):
            self._texts.append(_Text(text, names))

    def show(self, view: View) -> None:
        """The view was replaced: exactly its records are visible now."""
        known = {name for text in self._texts for name in text.names}
        self.replace(name for record in view.records for name in _names(record))
        self._show_thinking(view.records)
        for record in view.records:
            if record.uuid not in self._uses.members and record.uuid not in known:
                self.see(record)
        # Edits in the view apply even if the records that made them are not in it.
        self.hide(view.cleared)
        for edit in view.offloaded.values():
            self._offload(edit)

    def _show_thinking(self, records: Iterable[Record]) -> None:
        """Only edits that are in the view drop thinking of it."""
        before, self._thinking = self._thinking.dropped, _ThinkingInView(self._uses)
        for record in records:
            self._thinking.add(record)
        self._settle(before | self._thinking.dropped)

    def replace(self, visible: Iterable[str]) -> None:
        """Only these records, and the results of these calls, are visible. What was hidden stays hidden."""
        names = set(visible)
        self._in_view = {at for name in names for at in self._uses.members.get(name, ())}
        self._texts = [text for text in self._texts if names.intersection(text.names)]
        self._forget_fetched(at for at, each in self._fetched.items() if each.name not in names)
        self._settle(self._shown | self._in_view)

    # ── hiding ───────────────────────────────────────────────────────────────────────────────────

    def hide(self, names: Iterable[str]) -> None:
        """The results of these calls, or all of these records, are hidden for good."""
        gone = set(names)
        self._hidden |= gone
        self._texts = [text for text in self._texts if not gone.intersection(text.names)]
        self._forget_fetched(at for at, each in self._fetched.items() if each.name in gone)
        self._settle_named(gone)

    def _follow(self, edit: Edit | None) -> None:
        match edit:
            case Cleared(calls=calls):
                self.hide(calls)
            case Offloaded():
                self._offload(edit)
            case CacheDeleted(calls=calls):
                self._deleted.update(calls)
                self._settle_named(calls)
            case CacheDeletionsEnded():
                back, self._deleted = self._deleted, set()
                self._settle_named(back)
            case _:
                pass

    def _offload(self, edit: Offloaded) -> None:
        """The preview replaces the result, and is hidden with it."""
        if edit.call in self._hidden:
            return
        self.hide((edit.call,))
        at = self._results.get(edit.call)
        record = () if at is None else (self._uses.blocks[at].record,)
        self._texts.append(_Text(edit.preview, (edit.call, *record)))

    # ── what is missing ──────────────────────────────────────────────────────────────────────────

    def missing(self, call: int) -> tuple[Refetch, ...]:
        """The blocks that a call needs and does not see."""
        return tuple(map(self._refetch, self._missing(call)))

    def refetch(self, call: int) -> tuple[Refetch, ...]:
        """What is missing. It counts as fetched and is visible from now on."""
        missing = self._missing(call)
        for each in missing:
            strings = each.strings if each.is_search else self._uses.blocks[each.block].holds
            if each.block in self._fetched:
                self._forget_fetched((each.block,))
            self._fetched[each.block] = _Fetched(strings)
            self._count(strings, +1)
        return tuple(map(self._refetch, missing))

    def fetched_as(self, refetch: Refetch, name: str) -> None:
        """The refetched block is now in the conversation under that call or record, and is hidden with it."""
        for at, each in self._fetched.items():
            if self._uses.blocks[at].name == refetch.block:
                each.name = name
                return

    def _missing(self, call: int) -> tuple[FetchedBlock, ...]:
        if not 1 <= call <= len(self._uses.calls):
            return ()
        asked = self._uses.calls[call - 1]
        # All uses are checked against what was visible when the call began, so their order does not matter.
        unseen = [
            string for string in asked.uses if not self._held[string] and not self._is_in_a_text(string)
        ]
        return cover_missing(self._uses, asked, unseen) if unseen else ()

    def _refetch(self, fetched: FetchedBlock) -> Refetch:
        kind, what = self._uses.strings[fetched.strings[0]]
        name = self._uses.blocks[fetched.block].name
        return Refetch(name, fetched.tokens, what[:_LONGEST_SHOWN], kind, fetched.tier)

    def _is_in_a_text(self, string: int) -> bool:
        return any(self._has(text, string) for text in (self._always, *self._texts))

    def _has(self, text: _Text, string: int) -> bool:
        if string not in text.holds:
            text.holds[string] = occurs_in(self._uses.strings[string], text.text)
        return text.holds[string]

    # ── counting ─────────────────────────────────────────────────────────────────────────────────

    def _settle_named(self, names: Iterable[str]) -> None:
        for name in names:
            self._settle(self._uses.members.get(name, ()))
            if name in self._results:
                self._settle((self._results[name],))

    def _settle(self, blocks: Iterable[int]) -> None:
        for at in tuple(blocks):
            is_seen = at in self._in_view and not self._is_hidden(at)
            if is_seen and at not in self._shown:
                self._shown.add(at)
                self._count(self._uses.blocks[at].holds, +1)
            elif not is_seen and at in self._shown:
                self._shown.remove(at)
                self._count(self._uses.blocks[at].holds, -1)

    def _is_hidden(self, at: int) -> bool:
        block = self._uses.blocks[at]
        by_call = block.answers in self._hidden or block.answers in self._deleted
        is_gone = block.record in self._hidden or at in self._thinking.dropped
        return is_gone or (bool(block.answers) and by_call)

    def _forget_fetched(self, blocks: Iterable[int]) -> None:
        for at in tuple(blocks):
            self._count(self._fetched.pop(at).strings, -1)

    def _count(self, strings: Iterable[int], step: int) -> None:
        for string in strings:
            self._held[string] += step


def _names(record: Record) -> Iterator[str]:
    """The names that can hide a record and the results in it."""
    yield record.uuid
    yield from (block.call for block in record.blocks if block.is_result)
