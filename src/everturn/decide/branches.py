"""The branches that rewinds have left behind (CP-36).

Many branches may share a long beginning, so each record is looked at once, and not once for each branch. The
branches are numbered such that those with the same record on them are neighbours: what is on which branches
is told by ranges of numbers.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from everturn.decide.rewind import continued_by, is_message, text_of_record
from everturn.history.records import Record

# From a branch to another one, without that one: in order, and apart from one another.
_Range = tuple[int, int]


class Branch(msgspec.Struct, frozen=True):
    """A branch that was left behind: rewinding to `uuid` returns to it as it was left. Where `uuid` is a
    message that has no reply, it is taken back, with what was pinned behind it. `text` is what the user said
    last on the branch, and `messages` how many messages on it are not in what is continued now."""

    uuid: str
    text: str
    messages: int


def list_branches(abandoned: Sequence[Record]) -> tuple[Branch, ...]:
    """The branches among the abandoned records, the one that was left last at the end."""
    records = {record.uuid: record for record in abandoned if record.uuid}
    tree = _Tree(records)
    tips = _find_tips(records)
    for tip in tips:
        tree.follow(tip)
    # What is linked in a circle has no tip: its newest message is taken for one.
    for record in filter(is_message, reversed(records.values())):
        if record.uuid not in tree.reached:
            tips.append(record)
            tree.follow(record)
    sides = _Sides(tree, tips)
    # Of two that hang on one another the newer one stays.
    found = [tree.way(tip.uuid) for tip in tips if not sides.leave_out(tip)]
    return tuple(
        Branch(way.end, text_of_record(way.said) if way.said else "", way.messages)
        for way in found
        if way.end
    )


def find_end_of_branch(messages: Sequence[Record]) -> str:
    """A branch is named by its last reply, or by a message that has none: rewinding to that one takes it
    back. "" if it has neither."""
    return next((each.uuid for each in reversed(messages) if _can_name(each)), "")


def _can_name(record: Record) -> bool:
    return record.kind == "assistant" or _is_said(record)


def _is_said(record: Record) -> bool:
    return record.kind == "user" and not any(block.is_result for block in record.blocks)


def _find_tips(records: Mapping[str, Record]) -> list[Record]:
    """The messages that no other one continues. A file may hold a record behind one that continues it."""
    continued: set[str] = set()
    for record in filter(is_message, records.values()):
        at = continued_by(record)
        while at and at not in continued:
            continued.add(at)
            before = records.get(at)
            at = continued_by(before) if before and not is_message(before) else ""
    return [each for each in records.values() if is_message(each) and each.uuid not in continued]


class _Way(NamedTuple):
    """What there is from a record back to the beginning of its branch. `begins` is what the oldest message on
    it continues."""

    messages: int = 0
    end: str = ""
    said: Record | None = None
    begins: str = ""

    def behind(self, record: Record) -> "_Way":
        """The same with one more record behind it."""
        if not is_message(record):
            return self
        return _Way(
            self.messages + 1,
            record.uuid if _can_name(record) else self.end,
            record if _is_said(record) else self.said,
            self.begins if self.messages else record.parent,
        )


class _Tree:
    """The records on the ways back from the tips, each after the one that it continues."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        self.records = records
        self._ways: dict[str, _Way] = {}
        # What is linked in a circle is on all branches that reach the circle: one of it stands for all.
        self.circles: dict[str, str] = {}
        # Of each record, what it continues; "" for the first one.
        self.reached: dict[str, str] = {}

    def follow(self, tip: Record) -> None:
        walked: dict[str, Record] = {}
        at = tip.uuid
        while at in self.records and at not in self.reached and at not in self.circles and at not in walked:
            walked[at] = self.records[at]
            at = continued_by(walked[at])
        back = list(walked)
        if at in walked:
            circle = back[back.index(at) :]
            self.circles.update(dict.fromkeys(circle, at))
            self.reached.update(dict.fromkeys(circle, ""))
            del back[back.index(at) :]
        for uuid in reversed(back):
            self._ways[uuid] = self.way(at).behind(self.records[uuid])
            self.reached[uuid] = self.circles.get(at, at) if at in self.reached else ""
            at = uuid

    def way(self, at: str) -> _Way:
        """Where a circle is entered decides what stands first in it."""
        if at in self.circles and at not in self._ways:
            seen: dict[str, Record] = {}
            name = at
            while name not in seen:
                seen[name] = self.records[name]
                name = continued_by(seen[name])
            made = _Way()
            for record in reversed(seen.values()):
                made = made.behind(record)
            self._ways[at] = made
        return self._ways.get(at, _Way())

    def number(self, tips: Iterable[Record]) -> dict[str, _Range]:
        """The numbers of the branches that each record is on."""
        ends = Counter(self.circles.get(tip.uuid, tip.uuid) for tip in tips)
        sizes = Counter(ends)
        for uuid, before in reversed(self.reached.items()):
            sizes[before] += sizes[uuid]
        # That of a branch that ends at a record is the first of those that the record is on.
        free = {"": 0}
        found: dict[str, _Range] = {}
        for uuid, before in self.reached.items():
            found[uuid] = (free[before], free[before] + sizes[uuid])
            free[uuid] = free[before] + ends[uuid]
            free[before] += sizes[uuid]
        return {uuid: found[self.circles.get(uuid, uuid)] for uuid in found}


class _Sides:
    """Finds branches that belong to another one although nothing on that one leads there: pieces of its
    replies, and results of their calls that it has not (`history/threads.py`)."""

    def __init__(self, tree: _Tree, tips: Sequence[Record]) -> None:
        self.records = tree.records
        self.on = tree.number(tips)
        # Whether the branch of this number is listed.
        self.listed = bytearray(b"\1" * len(tips))
        replies, answers = dict[str, list[_Range]](), dict[str, list[_Range]]()
        for record in filter(is_message, self.records.values()):
            if record.message_id:
                replies.setdefault(record.message_id, []).append(self.on[record.uuid])
            for call in _results_of(record):
                answers.setdefault(call, []).append(self.on[record.uuid])
        begins = dict[str, list[_Range]]()
        for tip in tips:
            at = self.on[tip.uuid][0]
            begins.setdefault(tree.way(tip.uuid).begins, []).append((at, at + 1))
        self.replies, self.answers, self.begins = map(_merge_each, (replies, answers, begins))

    def leave_out(self, tip: Record) -> bool:
        at = self.on[tip.uuid][0]
        self.listed[at] = False
        is_left_out = any(self.listed.find(1, *found) >= 0 for found in self._beside(tip))
        self.listed[at] = not is_left_out
        return is_left_out

    def _beside(self, tip: Record) -> Iterator[_Range]:
        """The branches, also those that are not listed, that this message belongs to."""
        parent = self.records.get(tip.parent)
        if tip.kind == "assistant":
            pieces = self.replies.get(tip.message_id, [])
            if parent is not None and parent.message_id == tip.message_id:
                yield from pieces
            else:
                yield from _intersect(pieces, self._named(tip.parent))
        elif parent is not None:
            beside = _merge([*self._named(parent.uuid), *self.replies.get(parent.message_id, [])])
            for call in _results_of(tip):
                yield from _intersect(beside, _invert(self.answers[call], len(self.listed)))

    def _named(self, uuid: str) -> list[_Range]:
        """The branches that have this message, or begin behind it."""
        record = self.records.get(uuid)
        own = [self.on[uuid]] if record is not None and is_message(record) else []
        return _merge([*own, *self.begins.get(uuid, [])])


def _results_of(record: Record) -> set[str]:
    return {block.call for block in record.blocks if block.is_result}


def _merge_each(ranges: Mapping[str, Iterable[_Range]]) -> dict[str, list[_Range]]:
    return {name: _merge(each) for name, each in ranges.items()}


def _merge(ranges: Iterable[_Range]) -> list[_Range]:
    found: list[_Range] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        elif start < stop:
            found.append((start, stop))
    return found


def _invert(ranges: Sequence[_Range], count: int) -> list[_Range]:
    starts, stops = [0, *(stop for _, stop in ranges)], [*(start for start, _ in ranges), count]
    return [each for each in zip(starts, stops, strict=True) if each[0] < each[1]]


def _intersect(some: Sequence[_Range], others: Sequence[_Range]) -> Iterator[_Range]:
    """What is in both. The work depends on the shorter list."""
    few, many = sorted((some, others), key=len)
    for start, stop in few:
        for at in range(max(0, bisect_right(many, (start, start)) - 1), len(many)):
            if many[at][0] >= stop:
                break
            both = max(start, many[at][0]), min(stop, many[at][1])
            if both[0] < both[1]:
                yield both
