from itertools import count

import pytest

from everturn.chat.permission import Permissions
from everturn.chat.subagent import MAX_ROUNDS, SearchAgent
from everturn.chat.tools.files.workspace import Workspace
from everturn.session.session import Session
from everturn.session.upstream import UpstreamError
from everturn.twin.upstream import make_twin_send


def call(name, **given):
    """A reply that calls a tool."""
    return {"content": [{"type": "tool_use", "name": name, "input": given}]}


class Desk:
    def __init__(self, folder, twin):
        self.folder, self.twin, self.opened = folder, twin, []
        self.send = make_twin_send(twin.twin)
        numbers = count(1)
        (folder / "work").mkdir()
        (folder / "work/a.py").write_text("def tax(x):\n    return x\n")
        self.workspace = Workspace(folder / "work")
        self.searcher = SearchAgent(
            self.workspace,
            Permissions(),
            opens=self.open,
            new_path=lambda: folder / f"search-{next(numbers)}.jsonl",
        )

    def open(self, path, *, tools, system):
        self.opened.append((path.name, [tool.name for tool in tools]))
        return Session.open(
            path, model="claude-haiku-4-5", tools=tools, system=system, send=self.send, roots=[self.folder]
        )


@pytest.fixture
def desk(tmp_path, twin):
    return Desk(tmp_path, twin)


def test_it_searches_in_a_conversation_of_its_own_and_gives_its_last_words(desk):
    desk.twin.script(
        call("Grep", pattern="def tax"),
        call("Read", file_path="a.py"),
        "The tax is in a.py, line 1.",
    )
    assert desk.searcher("Where is the tax?") == "The tax is in a.py, line 1."
    assert desk.opened == [("search-1.jsonl", ["Read", "Glob", "Grep"])]


def test_what_it_cost_is_added_up_over_all_questions(desk):
    for _ in range(2):
        desk.twin.script("Nothing.")
        desk.searcher("Where?")
    spent = desk.searcher.spent
    assert (spent.calls, len(desk.opened)) == (2, 2)
    assert spent.dollars > 0


def test_a_search_that_does_not_end_is_asked_to_report(desk):
    desk.twin.script(*(call("Glob", pattern="*.py") for _ in range(MAX_ROUNDS + 1)), "So far: a.py.")
    assert desk.searcher("Where?") == "So far: a.py."
    assert desk.searcher.spent.calls == MAX_ROUNDS + 2


def test_one_that_searches_on_all_the_same_has_no_report(desk):
    desk.twin.script(*(call("Glob", pattern="*.py") for _ in range(MAX_ROUNDS + 2)))
    with pytest.raises(Exception, match="returned an empty report"):
        desk.searcher("Where?")


def test_a_provider_that_fails_is_told_and_what_was_spent_is_counted(desk):
    desk.twin.script(call("Glob", pattern="*.py"))
    send, calls = desk.send, count()

    def failing(body, betas):
        if next(calls):
            raise UpstreamError(529, "overloaded_error", "Overloaded")
        return send(body, betas)

    desk.send = failing
    with pytest.raises(UpstreamError, match="Overloaded"):
        desk.searcher("Where?")
    assert desk.searcher.spent.calls == 1


def test_what_the_searcher_read_the_main_agent_has_not(desk):
    desk.twin.script(call("Read", file_path="a.py"), "Read.")
    desk.searcher("Read a.py")
    assert desk.workspace.seen_version(desk.workspace.resolve("a.py")) is None


def test_the_rules_of_the_twin_are_enough_to_search(desk):
    assert desk.searcher("Find where `tax` occurs.") == (
        "I searched for tax and found it in 1 file. "
        "Of a.py I read 2 lines: line 1 is `def tax(x):`, and the file defines tax."
    )
