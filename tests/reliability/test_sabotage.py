"""Every promise is broken on purpose, one bug each: its kind finds it, within what `make test` runs of it.

The causes of what was found are among the bugs, so that the default run would find them again.
"""

import os
import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest
from reliability.crashes import theatre
from reliability.findings import FOUND
from reliability.hostile_input import DEFAULT_TRIALS
from reliability.kinds import KINDS
from reliability.scenes import SCENES
from reliability.score import Tally

from everturn import terminal_text
from everturn.adapters.claude_code.settings import edit_entries
from everturn.adapters.tracking import caller_list, caller_request, chain, stored_conversations
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.adapters.tracking.list_memo import ListMemo
from everturn.adapters.tracking.respelling import Alignment
from everturn.chat.tools import command_scope
from everturn.decide import rewind
from everturn.decide.compact import divide, flow
from everturn.decide.thinking import ThinkingTracker
from everturn.engine import compactor, conversation
from everturn.history import threads
from everturn.history.blocks import TOOL_USE
from everturn.history.edits import Rewound
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.session import files, transcripts
from everturn.session.config import sources
from everturn.session.memory_files import confined
from everturn.session.recall import index
from everturn.session.store import JsonlStore, line_tags
from everturn.session.store.file_system import LocalFileSystem
from everturn.view.flatten import Flattener
from everturn.wire import claude_code_reader, line_sums, sse

FIRST = 20_261_115
# The most trials that a bug may take; `make test` runs at least as many of each kind.
SHARE = {
    "conversations": 1_000, "steps": 80, "kills": 200, "disk-failures": 100, "power-cuts": 1_000,
    "index-kills": 30, "damage": 1_000, "clocks": 160, "upgrade": 100, "two-writers": 100, "callers": 8,
}  # fmt: skip

Patch = pytest.MonkeyPatch


def segments_count_without_their_summary(patch: Patch) -> None:
    def find(kept, record):
        return {**kept.in_force, **kept.waiting}.get(record.parent, (record.parent, -1))

    patch.setattr(threads._KeptSegments, "find", find)


def blank_messages_are_compacted(patch: Patch) -> None:
    patch.setattr(divide, "is_blank", lambda block: False)
    # A compaction that can only enlarge, or of a newest message alone, is refused, which hides the bug.
    patch.setattr(flow, "preview_compaction", flow._preview)
    patch.setattr(flow, "has_unanswered", lambda records: False)


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


def any_words_are_the_same_words(patch: Patch) -> None:
    """A list is taken for any other of the same length."""
    # What is joined in this way is kept by the process, and must not stay for later tests.
    patch.setattr(caller_request, "_lists", ListMemo())
    patch.setattr(chain, "_join", lambda before, role, content: blake2b(before + role.encode()).digest())


def any_option_is_covered(patch: Patch) -> None:
    patch.setattr(command_scope, "_is_covered", lambda word, family: True)


def any_letter_is_plain(patch: Patch) -> None:
    patch.setattr(command_scope, "_PLAIN", re.compile(""))


def restored_files_may_lie_anywhere(patch: Patch) -> None:
    def place(roots: files.Roots, path: str) -> tuple[str, str]:
        return "/", os.path.realpath(os.path.join(roots.folders[0], path)).lstrip("/")

    patch.setattr(files.Roots, "place", place)


def memory_files_may_lie_anywhere(patch: Patch) -> None:
    patch.setattr(confined, "_root_of", lambda real, roots: Path("/"))


def projects_may_choose_the_provider(patch: Patch) -> None:
    patch.setattr(sources, "NOT_FOR_PROJECTS", ())


def hooks_stay_when_they_are_removed(patch: Patch) -> None:
    patch.setattr(edit_entries, "_without_hooks", lambda change, event, keep_empty: change)


def unreadable_lines_are_left_out(patch: Patch) -> None:
    read = claude_code_reader._read

    def without(data: bytes) -> claude_code_reader.Transcript:
        found = read(data)
        return msgspec.structs.replace(found, lines=tuple(line for line in found.lines if line.records))

    patch.setattr(claude_code_reader, "_read", without)


def a_carriage_return_ends_no_line(patch: Patch) -> None:
    patch.setattr(sse, "_LINE_END", re.compile(rb"\r\n|\n"))


def controls_above_ascii_are_printed(patch: Patch) -> None:
    replaced = terminal_text._replaced
    patch.setattr(terminal_text, "_replaced", lambda letter: letter if letter > "\x7f" else replaced(letter))


def escapes_are_shown_as_they_are(patch: Patch) -> None:
    patch.setattr(terminal_text, "_escape", lambda letter: letter)


def a_newest_message_is_summarized(patch: Patch) -> None:
    patch.setattr(flow, "start_of_unanswered", lambda records: 0)
    # Otherwise it keeps that message.
    patch.setattr(flow, "_keep_last_messages", lambda *given: None)


def fewer_tools_raise(patch: Patch) -> None:
    """As marks did that had their place in a list of more tools."""
    prepare_flow = TrackedConversation.prepare_flow

    def prepare(tracked, request, setting):
        if len(request.preamble.tools) < len(tracked.preamble.tools):
            raise IndexError("list index out of range")
        return prepare_flow(tracked, request, setting)

    patch.setattr(TrackedConversation, "prepare_flow", prepare)


def what_is_left_out_is_an_edit(patch: Patch) -> None:
    """Each reminder that is gone makes another conversation, and compactions are paid for again."""

    def align(segments, request, start):
        return Alignment(start, [], 0, is_respelled=False)

    patch.setattr(caller_list, "align", align)
    patch.setattr(stored_conversations, "align", align)


def bound_thinking_stays_behind_a_summary(patch: Patch) -> None:
    """The API refuses it there, though the caller's list is a legal one."""
    for module in (conversation, compactor):
        patch.setattr(module, "drop_thinking", lambda *given: None)


def a_paused_turn_has_ended(patch: Patch) -> None:
    """Its thinking is dropped before it goes on, and the API refuses the rest of it."""

    def has_open_calls(view: Flattener) -> bool:
        return any(block.kind == TOOL_USE and block.call not in view._told for block in view._turn.said)

    patch.setattr(Flattener, "in_tool_loop", property(has_open_calls))


def undone_thinking_fits_any_tools(patch: Patch) -> None:
    """The tools have changed while it was out of view: the API refuses it."""
    patch.setattr(ThinkingTracker, "came_back", lambda thinking, written_with: None)


def what_stands_before_a_summary_goes_on_behind_it(patch: Patch) -> None:
    """A rewind to the last message before a summary then shows all that was summarized."""

    def summarized(segments: threads._KeptSegments, boundary: int, name: str) -> None:
        for tail, kept in tuple(segments.waiting.items()):
            if kept[1] == boundary:
                segments.in_force[tail] = segments.waiting.pop(tail)

    patch.setattr(threads._KeptSegments, "summarized", summarized)


def sessions_go_on_beside_a_rewind(patch: Patch) -> None:
    """They continue the words of a hook there, which may be the end of what a compaction has kept."""
    append = Log.append

    def beside(log: Log, record: Record) -> str:
        tip = log.tip
        change = append(log, record)
        if isinstance(record.edit, Rewound) and tip is not None and record.parent != tip.uuid:
            log.tip = tip
        return change

    patch.setattr(Log, "append", beside)


def what_was_done_at_the_end_of_a_branch_is_left(patch: Patch) -> None:
    """A return goes on behind the last reply, and not behind a compaction or a pin that followed it."""
    patch.setattr(rewind, "_find_last_done", lambda records, last, end: end)


BUGS: tuple[tuple[str, Callable[[Patch], None]], ...] = (
    ("conversations", segments_count_without_their_summary),
    ("conversations", blank_messages_are_compacted),
    ("steps", undos_bring_nothing_back),
    ("steps", what_stands_before_a_summary_goes_on_behind_it),
    ("steps", sessions_go_on_beside_a_rewind),
    ("steps", what_was_done_at_the_end_of_a_branch_is_left),
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
    ("callers", any_words_are_the_same_words),
    ("hostile-commands", any_option_is_covered),
    ("hostile-commands", any_letter_is_plain),
    ("hostile-paths", restored_files_may_lie_anywhere),
    ("hostile-paths", memory_files_may_lie_anywhere),
    ("hostile-settings", projects_may_choose_the_provider),
    ("hostile-settings", hooks_stay_when_they_are_removed),
    ("hostile-transcripts", unreadable_lines_are_left_out),
    ("hostile-streams", a_carriage_return_ends_no_line),
    ("hostile-terminal", controls_above_ascii_are_printed),
    ("hostile-terminal", escapes_are_shown_as_they_are),
    ("callers", a_newest_message_is_summarized),
    ("callers", fewer_tools_raise),
    ("callers", what_is_left_out_is_an_edit),
    ("callers", bound_thinking_stays_behind_a_summary),
    ("callers", a_paused_turn_has_ended),
    ("callers", undone_thinking_fits_any_tools),
)


@pytest.mark.parametrize(("kind", "bug"), BUGS, ids=lambda value: getattr(value, "__name__", value))
def test_a_bug_is_found_by_the_kind_whose_promise_it_breaks(
    kind: str, bug: Callable[[Patch], None], monkeypatch
):
    if kind in ("kills", "disk-failures"):
        # The stage is for all tests of a process: it is set, and its scenes are rehearsed, without the bug.
        for scene in SCENES:
            theatre().rehearsed(scene)
    bug(monkeypatch)
    done = Tally(KINDS[kind])
    seeds = range(DEFAULT_TRIALS[kind]) if kind in DEFAULT_TRIALS else range(FIRST, FIRST + SHARE[kind])
    for seed in (*FOUND.get(kind, ()), *seeds):
        done.run(seed)
        if done.row.lost:
            return
    pytest.fail(f"{kind} has found nothing in {done.row.trials:,} trials ({done.row.unknown} unknown)")


def test_every_kind_has_a_bug_that_it_finds():
    # Those of the replicas and gateways are in `test_replicas.py`: they need a server of their own. A long
    # caller is a caller, judged by the same code.
    elsewhere = {"replicas", "gateways", "long-callers"}
    found = {kind for kind, _ in BUGS} | elsewhere
    assert found == KINDS.keys() | elsewhere == SHARE.keys() | DEFAULT_TRIALS.keys() | elsewhere
