from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.toolbox import build_read_only_tools, build_tools
from everturn.decide.tools import DEFAULT_TOOLS, kind_of


def test_the_tools_have_the_names_that_people_know_in_an_order_that_stays(tmp_path):
    tools = build_tools(Workspace(tmp_path), Permissions(), search=lambda question: question)
    assert [tool.name for tool in tools] == [
        "Read", "Write", "Edit", "Glob", "Grep", "Bash", "TodoWrite", "Task",
    ]  # fmt: skip
    assert [tool.name for tool in build_tools(Workspace(tmp_path), Permissions())][-1] == "TodoWrite"


def test_every_tool_is_sorted_by_what_becomes_of_its_results(tmp_path):
    tools = build_tools(Workspace(tmp_path), Permissions(), search=lambda question: question)
    assert {tool.name: kind_of(tool.name, DEFAULT_TOOLS) for tool in tools} == {
        "Read": "reproducible",
        "Write": "write_like",
        "Edit": "write_like",
        "Glob": "reproducible",
        "Grep": "reproducible",
        "Bash": "reproducible",
        "TodoWrite": "keep",
        "Task": "keep",
    }


def test_every_definition_is_one_that_the_api_takes(tmp_path):
    for tool in build_tools(Workspace(tmp_path), Permissions(), search=lambda question: question):
        schema = tool.definition["input_schema"]
        assert set(tool.definition) == {"name", "description", "input_schema"}
        assert set(schema["required"]) <= set(schema["properties"])
        assert all("description" in field for field in schema["properties"].values())
        assert "  " not in tool.definition["description"]


def test_the_search_agent_gets_nothing_that_changes_anything(tmp_path):
    tools = build_read_only_tools(Workspace(tmp_path), Permissions())
    assert [tool.name for tool in tools] == ["Read", "Glob", "Grep"]


def test_a_task_is_the_answer_of_whoever_searches(hands, tmp_path):
    tools = build_tools(
        Workspace(tmp_path), Permissions(), search=lambda question: f"about {question}: nothing"
    )
    run = {tool.name: tool.run for tool in tools}["Task"]
    assert run({"description": "look", "prompt": "the parser"}) == "about the parser: nothing"
