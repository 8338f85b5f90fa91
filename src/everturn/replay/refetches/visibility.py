"""What of a conversation is in sight under one policy, and what is missing when it is used (RP-6).

The context is memory, the transcript is disk. A simulation tells what came into sight and what left it; a
call's faults are the blocks that it would have had to fetch again. Every string knows how many visible
blocks hold it, so asking costs the uses of the call, showing and hiding cost the strings of the block.

What a use is was settled in `index.py`, equal for every policy. What a fault costs is not decided here.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from everturn.history.edits import CacheDeleted, CacheDeletionsEnded, Cleared, Edit, Offloaded
from everturn.history.log import View
from everturn.history.records import Record
from everturn.replay.refetches.index import SessionUses
from everturn.replay.refetches.outputs import block_text, shown_blocks
from everturn.replay.refetches.strings import UseKind, occurs_in

_LONGEST_SHOWN: Final = 80


class Refetch(msgspec.Struct, frozen=True):
    """A block that was needed and not in sight: `record uuid:index`, and the first use that needed it."""

    block: str
    tokens: int
    what: str
    kind: UseKind


class _Text:
    """Words that stand for blocks: a summary, a restored file, a preview. Looked into only when asked."""

    def __init__(self, text: str, names: tuple[str, ...], moment: int) -> None:
        self.text = text
        # The record and the call that it goes with: it is hidden with them.
        self.names = names
        self.moment = moment
        self.holds: dict[int, bool] = {}


class Visibility:
    """What one policy shows of one conversation. Records are shown in their order, each before the calls
    that come after it; a call's faults are asked for before its own records are shown."""

    def __init__(self, uses: SessionUses, thread: str | int = "") -> None:
        self._uses = uses.thread(thread)
        # For each string, how many blocks in sight hold it.
        self._held = [0] * len(self._uses.strings)
        self._in_view: set[int] = set()
        self._shown: set[int] = set()
        # Hidden by name, of a record or of a call, whatever the view; deletions can end, the rest cannot.
        self._hidden: set[str] = set()
        self._deleted: set[str] = set()
        self._results = {block.answers: at for at, block in enumerate(self._uses.blocks) if block.answers}
        # Blocks that were fetched again: the name that they can be hidden by, and the moment.
        self._fetched: dict[int, tuple[str, int]] = {}
        self._texts: list[_Text] = []
        # Sightings are counted: a record without blocks has a place among texts, too. For each name, when it
        # came into sight and how many blocks were before it.
        self._moment = self._blocks_seen = 0
        self._sighted: dict[str, tuple[int, int]] = {}
        self._always = _Text(self._uses.always, (), 0)

    # ── what comes into sight ────────────────────────────────────────────────────────────────────

    def see(self, record: Record) -> None:
        """A record became visible. One that the recording does not have, and a summary, is a text.

        Edits of single results are followed; after a compaction, a trim or an undo, `show` the view.
        """
        self._sight(record.uuid)
        self._follow(record.edit)
        if (members := self._uses.members.get(record.uuid)) is not None:
            self._in_view.update(members)
            self._settle(members)
            self._blocks_seen = max(self._blocks_seen, members[-1] + 1)
            return
        for block in shown_blocks(record):
            if words := block_text(block):
                self._add_text(words, (record.uuid, block.call) if block.is_result else (record.uuid,))

    def see_text(self, text: str, under: str = "") -> None:
        """Words that stand for blocks. `under` is the record or call that they are hidden with."""
        self._sight(under)
        self._add_text(text, (under,) if under else ())

    def _sight(self, name: str) -> None:
        self._moment += 1
        self._sighted[name] = self._moment, self._blocks_seen

    def _add_text(self, text: str, names: tuple[str, ...]) -> None:
        if not self._hidden.intersection(names):
            self._texts.append(_Text(text, names, self._moment))

    def show(self, view: View) -> None:
        """Another view is in force: all of it is in sight, and nothing else."""
        known = {name for text in self._texts for name in text.names}
        self.replace(name for record in view.records for name in _names(record))
        for record in view.records:
            if record.uuid not in self._uses.members and record.uuid not in known:
                self.see(record)
        # What the view says of edits holds also where it leaves out the records that made them.
        self.hide(view.cleared)
        for edit in view.offloaded.values():
            self._offload(edit)

    def replace(self, visible: Iterable[str]) -> None:
        """Only these records, and the results of these calls, are in sight; what was hidden stays hidden."""
        names = set(visible)
        self._in_view = {at for name in names for at in self._uses.members.get(name, ())}
        self._texts = [text for text in self._texts if names.intersection(text.names)]
        self._forget_fetched(at for at, (name, _) in self._fetched.items() if name not in names)
        self._settle(self._shown | self._in_view)

    # ── what leaves it ───────────────────────────────────────────────────────────────────────────

    def hide(self, names: Iterable[str]) -> None:
        """The results of these calls, or all of these records, are out of sight for good."""
        gone = set(names)
        self._hidden |= gone
        self._texts = [text for text in self._texts if not gone.intersection(text.names)]
        self._forget_fetched(at for at, (name, _) in self._fetched.items() if name in gone)
        self._settle_named(gone)

    def hide_before(self, uuid: str) -> None:
        """Everything before that record is out of sight."""
        moment, first = self._beginning_of(uuid)
        self._in_view = {at for at in self._in_view if at >= first}
        self._texts = [text for text in self._texts if text.moment >= moment]
        self._forget_fetched(at for at, (_, fetched) in self._fetched.items() if fetched < moment)
        self._settle(self._shown)

    def _beginning_of(self, uuid: str) -> tuple[int, int]:
        """The moment and the block that a record begins with; one still to come begins after all of now."""
        start = self._uses.starts.get(uuid)
        if uuid not in self._sighted and start is None:
            raise LookupError(f"Record {uuid!r} is not of this conversation; nothing can be before it.")
        moment, before = self._sighted.get(uuid, (self._moment + 1, 0))
        return moment, before if start is None else start

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
        """The preview takes the place of the result, and goes with it."""
        if edit.call in self._hidden:
            return
        self.hide((edit.call,))
        at = self._results.get(edit.call)
        record = () if at is None else (self._uses.blocks[at].record,)
        self._texts.append(_Text(edit.preview, (edit.call, *record), self._moment))

    # ── what is missing ──────────────────────────────────────────────────────────────────────────

    def missing(self, call: int) -> tuple[Refetch, ...]:
        """The blocks that a call needs and does not see: for each use the most recent that held it."""
        return tuple(self._fault(at, string) for at, string in self._missing(call).items())

    def faults(self, call: int) -> tuple[Refetch, ...]:
        """What is missing, and from here on in sight again: it was fetched."""
        missing = self._missing(call)
        for at in missing:
            self._fetched[at] = "", self._moment
            self._count(at, +1)
        return tuple(self._fault(at, string) for at, string in missing.items())

    def fetched_as(self, fault: Refetch, name: str) -> None:
        """What was fetched stands in the conversation under that call or record, and is hidden with it."""
        for at, (_, moment) in self._fetched.items():
            if self._uses.blocks[at].name == fault.block:
                self._fetched[at] = name, moment
                return

    def _missing(self, call: int) -> dict[int, int]:
        if not 1 <= call <= len(self._uses.calls):
            return {}
        asked = self._uses.calls[call - 1]
        found: dict[int, int] = {}
        # All are judged by what was in sight when the call began, so their order does not matter.
        for string in asked.uses:
            if not self._held[string] and not self._is_in_a_text(string):
                found.setdefault(self._uses.last_holder(string, asked.start), string)
        return dict(sorted(found.items()))

    def _fault(self, at: int, string: int) -> Refetch:
        block, (kind, what) = self._uses.blocks[at], self._uses.strings[string]
        return Refetch(block.name, block.tokens, what[:_LONGEST_SHOWN], kind)

    def _is_in_a_text(self, string: int) -> bool:
        return any(self._has(text, string) for text in (self._always, *self._texts))

    def _has(self, text: _Text, string: int) -> bool:
        if string not in text.holds:
            text.holds[string] = occurs_in(self._uses.strings[string], text.text)
        return text.holds[string]

    # ── keeping count ────────────────────────────────────────────────────────────────────────────

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
                self._count(at, +1)
            elif not is_seen and at in self._shown:
                self._shown.remove(at)
                self._count(at, -1)

    def _is_hidden(self, at: int) -> bool:
        block = self._uses.blocks[at]
        by_call = block.answers in self._hidden or block.answers in self._deleted
        return (bool(block.answers) and by_call) or block.record in self._hidden

    def _forget_fetched(self, blocks: Iterable[int]) -> None:
        for at in tuple(blocks):
            del self._fetched[at]
            self._count(at, -1)

    def _count(self, at: int, step: int) -> None:
        for string in self._uses.blocks[at].holds:
            self._held[string] += step


def _names(record: Record) -> Iterator[str]:
    """What a record and the results in it can be hidden by."""
    yield record.uuid
    yield from (block.call for block in record.blocks if block.is_result)
