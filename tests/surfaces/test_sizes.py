"""One state has one size, whoever is asked (TOK-5)."""

import json
from shutil import copyfile

import pytest
from click.testing import CliRunner
from surfaces.desk import tool

import everturn
from everturn.cli import main


def shown(*arguments):
    done = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_compact_context_undo_and_the_session_give_the_same_number(desk):
    with desk.open(tools=[tool("Read", lambda given: "a line of code\n" * 900)]) as session:
        desk.use_tool(session, 8)
        before = session.context().size.next_request
    assert shown("context", desk.path)["size"]["tokens"] == before
    compacted = shown("compact", desk.path)
    after = compacted["tokens_after"]
    assert (compacted["tokens_before"], shown("context", desk.path)["size"]["tokens"]) == (before, after)
    with desk.open(tools=[tool("Read", lambda given: "")], access="read") as session:
        assert session.context().size.next_request == after
    undone = shown("undo", desk.path)
    assert (undone["tokens_before"], undone["tokens_after"]) == (after, before)
    assert shown("context", desk.path)["size"]["tokens"] == before


def test_thinking_that_a_compaction_drops_changes_no_size_that_is_shown(tmp_path):
    path = tmp_path / "session.jsonl"
    copyfile("examples/session.jsonl", path)
    before = shown("context", path)["size"]["tokens"]
    planned = shown("compact", "--dry-run", path)["tokens_before"]
    compacted = shown("compact", path)["tokens_before"]
    undone = shown("undo", path)["tokens_after"]
    again = shown("compact", "--dry-run", path)["tokens_before"]
    assert {before, planned, compacted, undone, again} == {before}


def test_what_is_kept_counts_as_it_was_reported(desk):
    """By estimate, with padding, it would be over the threshold, and the next turn would summarize it."""
    log = "Here is the log. " + "lorem ipsum dolor " * 5_000
    with desk.open(window=72_000) as session:
        desk.twin.script("Thanks.")
        session.send(log)
        desk.talk(session, 3, 60)
        second = [record.uuid for record in session.conversation.log.records if record.kind == "user"][1]
        made = session.compact(from_=second)
        assert made.tokens_after == session.context().size.next_request < made.tokens_before
        shown_after = made.tokens_after
    with desk.open(window=72_000) as session:
        assert session.context().size.next_request == shown_after
        desk.twin.script("Yes.")
        session.send("And?")
        counted = session.context().size.next_request
    assert log in json.dumps(desk.bodies[-1]["messages"])
    assert abs(counted - shown_after) < 0.03 * counted


@pytest.mark.parametrize("size", [40, 60, 90])
@pytest.mark.parametrize("form", ["full", "up_to"])
def test_no_compaction_by_hand_ends_with_more_than_there_was(desk, size, form):
    with desk.open() as session:
        desk.talk(session, turns=5, size=size)
        last = [record.uuid for record in session.conversation.log.records if record.kind == "user"][-1]
        before = session.context().size.next_request
        made = session.compact(**({"up_to": last} if form == "up_to" else {}))
        after = session.context().size.next_request
    assert after < before if isinstance(made, everturn.Compaction) else after == before


def test_a_compaction_that_is_refused_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "session.jsonl"
    copyfile("examples/session.jsonl", path)
    before = path.read_bytes()
    done = CliRunner().invoke(main, ["compact", "--from", "nope", str(path)])
    assert (done.exit_code, path.read_bytes()) == (1, before)
