"""One state has one size, whoever is asked (TOK-5)."""

import json

from click.testing import CliRunner
from surfaces.desk import tool

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
