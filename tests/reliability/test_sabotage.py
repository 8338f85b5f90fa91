"""Every promise is broken on purpose, one bug each: its kind finds it, within what `make test` runs of it.

The causes of what was found are among the bugs, so that the default run would find them again.
"""

from collections.abc import Callable

import pytest
from reliability.findings import FOUND
from reliability.kinds import KINDS
from reliability.score import Tally

from everturn.adapters.tracking.known_conversations import ConversationMatch, KnownConversations
from everturn.decide.compact import divide
from everturn.history import threads
from everturn.history.log import Log
from everturn.session import transcripts
from everturn.session.recall import index
from everturn.session.store import JsonlStore, line_tags
from everturn.session.store.file_system import LocalFileSystem
from everturn.wire import claude_code_reader, line_sums

FIRST = 20_261_115
# The most trials that a bug may take; `make test` runs at least as many of each kind.
SHARE = {
    "conversations": 20_000, "steps": 400, "kills": 2_000, "disk-failures": 300, "power-cuts": 1_000,
    "index-kills": 60, "damage": 1_000, "clocks": 400, "upgrade": 200, "two-writers": 100, "callers": 12,
}  # fmt: skip

Patch = pytest.MonkeyPatch


def segments_count_without_their_summary(patch: Patch) -> None:
    def find(kept, record):
        return {**kept.in_force, **kept.waiting}.get(record.parent, (record.parent, -1))

    patch.setattr(threads._KeptSegments, "find", find)


def blank_messages_are_compacted(patch: Patch) -> None:
    patch.setattr(divide, "is_blank", lambda block: False)


def undos_bring_nothing_back(patch: Patch) -> None:
    patch.setattr(Log, "_undo", lambda log, boundary: "extended")


def writes_are_kept_back(patch: Patch) -> None:
    """Each is made with the next one: a process that dies has acknowledged what is nowhere."""
    kept: dict[int, bytes] = {}

    def later(store: JsonlStore, data: bytes) -> None:
        before, kept[id(store)] = kept.get(id(store), b""), data
        store._io.write(store._fd, before)

    patch.setattr(JsonlStore, "_write", later)


def errors_of_the_disk_are_passed_on(patch: Patch) -> None:
    patch.setattr(JsonlStore, "_guarded", lambda store, steps: steps())


def short_writes_are_acknowledged(patch: Patch) -> None:
    patch.setattr(JsonlStore, "_write", lambda store, data: store._io.write(store._fd, data))


def nothing_is_synced(patch: Patch) -> None:
    patch.setattr(JsonlStore, "_sync", lambda store: None)


def the_index_says_that_it_is_complete(patch: Patch) -> None:
    """A database that was cut off is taken as it is, and nothing is added to it."""
    catch_up = index.RecallIndex._catch_up

    def once(found) -> int:
        return catch_up(found) if found._place == ":memory:" else 0

    patch.setattr(index.RecallIndex, "_catch_up", once)


def checksums_are_not_compared(patch: Patch) -> None:
    patch.setattr(transcripts, "check_sums", lambda data: line_sums.check_sums(data)._replace(problems=()))


def the_end_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(transcripts, "check_end", lambda state, data, end_sum: ())


def damaged_formats_count(patch: Patch) -> None:
    patch.setattr(line_tags, "check_sums", lambda data: line_sums.FileSums(0, (), ()))


def records_are_sorted_by_their_time(patch: Patch) -> None:
    in_file = JsonlStore.records.fget
    assert in_file is not None
    patch.setattr(
        JsonlStore,
        "records",
        property(lambda store: tuple(sorted(in_file(store), key=lambda r: r.timestamp))),
    )


def older_edits_are_not_read(patch: Patch) -> None:
    patch.setattr(claude_code_reader, "_edit", lambda seen: None)


def nobody_locks(patch: Patch) -> None:
    patch.setattr(LocalFileSystem, "try_lock", lambda disk, fd: True)
    patch.setattr(JsonlStore, "_check_alone", lambda store: None)


def any_conversation_will_do(patch: Patch) -> None:
    def find(known, chain, preamble_digest):
        return next((ConversationMatch(each, len(each.chain)) for each in known), None)

    patch.setattr(KnownConversations, "find", find)


BUGS: tuple[tuple[str, Callable[[Patch], None]], ...] = (
    ("conversations", segments_count_without_their_summary),
    ("conversations", blank_messages_are_compacted),
    ("steps", undos_bring_nothing_back),
    ("kills", writes_are_kept_back),
    ("disk-failures", errors_of_the_disk_are_passed_on),
    ("disk-failures", short_writes_are_acknowledged),
    ("power-cuts", nothing_is_synced),
    ("index-kills", the_index_says_that_it_is_complete),
    ("damage", checksums_are_not_compared),
    ("damage", the_end_is_not_looked_at),
    ("damage", damaged_formats_count),
    ("clocks", records_are_sorted_by_their_time),
    ("upgrade", older_edits_are_not_read),
    ("two-writers", nobody_locks),
    ("callers", any_conversation_will_do),
)


@pytest.mark.parametrize(("kind", "bug"), BUGS, ids=lambda value: getattr(value, "__name__", value))
def test_a_bug_is_found_by_the_kind_whose_promise_it_breaks(
    kind: str, bug: Callable[[Patch], None], monkeypatch
):
    bug(monkeypatch)
    done = Tally(KINDS[kind])
    for seed in (*FOUND.get(kind, ()), *range(FIRST, FIRST + SHARE[kind])):
        done.run(seed)
        if done.row.lost:
            return
    pytest.fail(f"{kind} has found nothing in {done.row.trials:,} trials ({done.row.unknown} unknown)")


def test_every_kind_has_a_bug_that_it_finds():
    # Kinds of hostile input break promises of `tests/security`, whose guards are in `tests/sabotage`.
    durable = {name for name in KINDS if not name.startswith("hostile-")}
    assert {kind for kind, _ in BUGS} == durable == SHARE.keys()
