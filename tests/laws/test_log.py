"""The view of a growing log, against definitions that look at the whole list."""

import builders as b
import msgspec
import pytest
from builders import compute_view
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs

from everturn.history.edits import Undone
from everturn.history.log import Log
from everturn.history.records import Record


@st.composite
def compacted_logs(draw: st.DrawFn) -> list[Record]:
    """Stretches of conversation with boundaries between them; some have lost their summary."""
    records: list[Record] = []
    for at in range(draw(st.integers(0, 4))):
        stretch = draw(broken_logs(4, edits=True))
        records += [_renamed(record, f"{at}.{record.uuid}") for record in stretch]
        records.append(b.boundary(f"b{at}"))
        records += draw(
            st.sampled_from([[], [b.system(uuid=f"hook{at}")], [b.attachment("note", uuid=f"n{at}")]])
        )
        if draw(st.booleans()):
            records.append(b.summary(uuid=f"s{at}", parent=f"b{at}"))
    return records


def _renamed(record: Record, uuid: str) -> Record:
    return type(record)(**{**{f: getattr(record, f) for f in record.__struct_fields__}, "uuid": uuid})


def last_boundary_in_force(records: list[Record]) -> int:
    """The last boundary whose next message is its summary; 0 when there is none."""
    for at in range(len(records) - 1, -1, -1):
        if records[at].is_boundary:
            after = records[at + 1 :]
            stop = next((n for n, each in enumerate(after) if each.is_boundary), len(after))
            spoken = [each for each in after[:stop] if each.kind in ("user", "assistant")]
            if spoken and spoken[0].compact_summary:
                return at
    return 0


def naive(records: list[Record]) -> list[Record]:
    """From the last boundary in force on; boundaries without force are not seen."""
    start = last_boundary_in_force(records)
    return [each for at, each in enumerate(records[start:]) if not each.is_boundary or (at == 0 and start)]


@pytest.mark.spec("TR-5")
@given(compacted_logs())
def test_the_view_is_what_follows_the_last_boundary_that_has_its_summary(records: list[Record]):
    # A user record first, so that position 0 is never a boundary and can stand for "none".
    records = [b.user("hello", uuid="first"), *records]
    log, seen = Log(), []
    for end, record in enumerate(records, start=1):
        log.append(record)
        assert list(log.view.records) == naive(records[:end])
        seen.append(log.view)
    assert seen == [compute_view(records[:end]) for end in range(1, len(records) + 1)]


@pytest.mark.spec("TR-3")
@given(compacted_logs())
def test_a_view_that_was_taken_never_changes(records: list[Record]):
    log = Log()
    taken = []
    for record in records:
        log.append(record)
        now = log.view
        taken.append((now, list(now.records), dict(now.cleared), dict(now.offloaded), now.stale, now.pins))
    for then, *values in taken:
        assert [list(then.records), dict(then.cleared), dict(then.offloaded), then.stale, then.pins] == values


@pytest.mark.spec("TR-3")
@given(compacted_logs())
def test_nothing_ever_leaves_the_log(records: list[Record]):
    assert Log(records).records == records


@given(broken_logs(5, edits=True), broken_logs(5), st.lists(st.just("note"), max_size=2))
def test_an_undo_gives_the_view_that_would_be_without_the_compaction(
    before: list[Record], since: list[Record], notes: list[str]
):
    since = [_renamed(record, f"since {record.uuid}") for record in since]
    while since and since[0].kind == "attachment":
        since.pop(0)
    restored = [b.attachment(text, uuid=f"restored {at}") for at, text in enumerate(notes)]
    undone = b.edited(Undone("b", "wanted back"), "undo")
    log = Log([*before, b.boundary("b"), b.summary(), *restored, *since, undone])
    # Only that replies since then tell of another size is not forgotten.
    replies = frozenset(record.uuid for record in since if record.kind == "assistant")
    assert log.view == msgspec.structs.replace(compute_view([*before, *since]), shrunk=replies)
    assert log.notes == []


@pytest.mark.spec("TR-9")
@given(broken_logs(8), broken_logs(3), st.data())
def test_a_kept_segment_stands_where_its_anchor_says(before: list[Record], since: list[Record], data):
    before = [b.user("hello", uuid="first"), *before]
    since = [_renamed(record, f"since {record.uuid}") for record in since]
    head = data.draw(st.integers(0, len(before) - 1))
    tail = data.draw(st.integers(head, len(before) - 1))
    kept = before[head : tail + 1]
    summary = b.summary()
    for anchor, order in (("s", [summary, *kept]), ("b", [*kept, summary])):
        boundary = b.boundary("b", kept=(before[head].uuid, anchor, before[tail].uuid))
        seen = compute_view([*before, boundary, summary, *since])
        assert list(seen.records) == [boundary, *order, *since]
        assert seen.stale == {record.uuid for record in kept}
