import pytest

from everturn.chat.tools.todo import MAX_TODOS, Todo, TodoList, todo_tool
from everturn.session.session import Session
from everturn.twin.upstream import make_twin_send

TODOS = [
    {"content": "Read the  parser", "status": "completed", "activeForm": "Reading"},
    {"content": "Fix it", "status": "in_progress"},
    {"content": "Run the tests", "status": "pending"},
]


def test_the_list_is_replaced_as_a_whole():
    todo = TodoList()
    run = todo_tool(todo).run
    assert run({"todos": TODOS}) == "List saved: 2 of 3 open."
    assert todo.todos == (
        Todo("Read the parser", "completed"),
        Todo("Fix it", "in_progress"),
        Todo("Run the tests", "pending"),
    )
    assert run({"todos": TODOS[:1]}) == "List saved: all done."
    assert run({"todos": []}) == "The list is empty."
    assert todo.todos == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "TodoWrite needs `todos`: a list of objects."),
        ({"todos": ["Fix it"]}, "`todos` of TodoWrite must be a list of objects; it was \"['Fix it']\"."),
        ({"todos": [{"status": "pending"}]}, "TodoWrite needs `content`: a non-empty string."),
        (
            {"todos": [{"content": "a", "status": "soon"}]},
            "`status` of TodoWrite must be one of pending, in_progress, completed; it was 'soon'.",
        ),
        (
            {"todos": [{"content": "a"}] * (MAX_TODOS + 1)},
            f"The list has {MAX_TODOS + 1} steps; the maximum is {MAX_TODOS}. Combine some.",
        ),
    ],
)
def test_a_list_that_makes_no_sense_leaves_the_old_one(fields, said):
    todo = TodoList()
    todo.replace((Todo("old"),))
    with pytest.raises(Exception) as problem:  # noqa: PT011
        todo_tool(todo).run(fields)
    assert (str(problem.value), todo.todos) == (said, (Todo("old"),))


def test_a_compaction_would_bring_the_list_back(tmp_path, twin):
    call = {"type": "tool_use", "name": "TodoWrite", "input": {"todos": TODOS}}
    twin.script({"content": [call]}, "Kept.")
    with Session.open(
        tmp_path / "s.jsonl", tools=[todo_tool(TodoList())], send=make_twin_send(twin.twin), roots=[tmp_path]
    ) as session:
        session.send("Make a list. " + "Look closely. " * 3_000)
        assert session.dry_run().restoration.todos == (
            "- [completed] Read the parser\n- [in_progress] Fix it\n- [pending] Run the tests"
        )
