"""What is given back after a compaction: what the summary does not say, as facts, within the bound."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_session import SmallSession, call, text

from everturn.adapters.claude_code.restore import build_restored_context
from everturn.session.pin_file import append_pin
from everturn.view.fragments.session_state import MAX_CHARACTERS, session_state

DATA = Path(__file__).parents[4] / "shared" / "data" / "claude-code"

OPENING = (
    "Facts about this session from before it was compacted, read from its transcript. They are quoted for "
    "reference; the summary and the files themselves are newer where they differ."
)


def worked() -> SmallSession:
    todos = [
        {"content": "write the parser", "status": "completed"},
        {"content": "write the tests", "status": "in_progress"},
        {"content": "write the manual", "status": "pending"},
    ]
    return (
        SmallSession()
        .human("Never push to main. Always use bun. Fix the parser.")
        .reply("m1", call("c1", "Read", file_path="/p/parser.py"), plain=9)
        .result("c1", "def parse(): ...")
        .reply("m2", call("c2", "Edit", file_path="/p/parser.py", old_string="a", new_string="b"), plain=9)
        .result("c2", "ok")
        .reply("m3", call("c3", "TodoWrite", todos=todos), plain=9)
        .result("c3", "ok")
        .reply("m4", call("c4", "Write", file_path="/p/test.py", content="x"), plain=9)
        .result("c4", "ok")
        .human("Now the tests, please, with <system-reminder>tags</system-reminder> in them.")
        .reply("m5", text("On it."), plain=9)
    )


def told(session: SmallSession, folder: Path, last_before: str = "") -> str:
    path = folder / "s.jsonl"
    path.write_bytes(session.to_bytes())
    answer = build_restored_context(
        {"transcript_path": str(path)}, {"last_uuid": last_before} if last_before else None
    )
    return answer.text.replace(str(path), "THE TRANSCRIPT")


EVERYTHING = f"""{OPENING}

What the user asked for throughout, and the summary does not say:
- "Always use bun."
- "Never push to main."

Tasks:
- [in_progress] write the tests
- [pending] write the manual

The user's last message:
"Now the tests, please, with &lt;system-reminder>tags&lt;/system-reminder> in them."

Files used last, the latest first:
- /p/test.py (written)
- /p/parser.py (read, edited)

Everything that was said is in THE TRANSCRIPT"""


def test_what_the_summary_left_out_is_told(tmp_path):
    assert told(worked().boundary(100).summary("We fixed the parser."), tmp_path) == EVERYTHING


def test_what_the_summary_says_is_not_said_again(tmp_path):
    asked = "Now the tests, please, with <system-reminder>tags</system-reminder> in them."
    summary = f"Rules: never push to `main`! They asked: **{asked}**"
    lines = told(worked().boundary(100).summary(summary), tmp_path).splitlines()
    assert '- "Always use bun."' in lines
    assert '- "Never push to main."' not in lines
    assert "The user's last message:" not in lines


def test_a_transcript_that_was_not_written_yet_is_taken_whole(tmp_path):
    session = worked()
    assert told(session, tmp_path, last_before=session.lines[-1]["uuid"]) == EVERYTHING
    assert told(session, tmp_path) == EVERYTHING


def test_only_the_last_compaction_is_restored_from(tmp_path):
    session = (
        worked().boundary(100).summary("We fixed the parser. Rules: never push to main; always use bun.")
    )
    session.human("Do the manual.").reply("m6", call("c6", "Read", file_path="/p/manual.md"), plain=9)
    session.result("c6", "words").boundary(100).summary("We did the manual: Do the manual.")
    assert (
        told(session, tmp_path)
        == f"""{OPENING}

Files used last, the latest first:
- /p/manual.md (read)

Everything that was said is in THE TRANSCRIPT"""
    )


def test_a_second_compaction_that_was_not_written_yet_is_not_taken_for_the_first(tmp_path):
    session = (
        worked().boundary(100).summary("We fixed the parser. Rules: never push to main; always use bun.")
    )
    session.human("Do the manual.").reply("m6", call("c6", "Read", file_path="/p/manual.md"), plain=9)
    session.result("c6", "words")
    files = told(session, tmp_path, last_before=session.lines[-1]["uuid"]).partition("Files used last")[2]
    assert "/p/manual.md (read)" in files


LINES = st.lists(
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=4_000), max_size=30
)


@given(LINES, LINES, LINES, st.text(max_size=4_000), st.text(max_size=300))
def test_what_is_told_is_never_longer_than_a_hook_may_say(rules, tasks, files, message, path):
    words = session_state(rules=rules, tasks=tasks, files=files, last_message=message, transcript=path)
    assert len(words) <= MAX_CHARACTERS
    assert bool(words) == bool(rules or tasks or files or message)


def test_what_there_is_no_room_for_is_counted():
    words = session_state(rules=["r" * 2_000] * 9, tasks=["- a task"], transcript="t")
    assert "(and 7 more)\n\nTasks:\n- a task" in words


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the recorded sessions do not lie beside this checkout (../shared/data)"
)
def test_recorded_sessions_are_restored_within_the_bound():
    paths = [path for path in sorted(DATA.rglob("*.jsonl")) if b'"compact_boundary"' in path.read_bytes()][:8]
    answers = [build_restored_context({"transcript_path": str(path)}, None).text for path in paths]
    assert [len(answer) <= MAX_CHARACTERS for answer in answers] == [True] * len(paths)
    assert any("Files used last" in answer for answer in answers)


def test_words_pinned_from_outside_are_told_too(tmp_path):
    append_pin(tmp_path / "s.jsonl", "Keep the API stable.")
    lines = told(worked().boundary(100).summary("We fixed the parser."), tmp_path).splitlines()
    assert '- "[pinned by the agent, not by the user] Keep the API stable."' in lines
    assert '- "Never push to main."' in lines
