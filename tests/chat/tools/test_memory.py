import pytest

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.toolbox import build_tools
from everturn.session.memory_files.attach import attach_memory
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.tools import Tool


@pytest.fixture
def memory(tmp_path):
    return NestedMemory(tmp_path, tmp_path / "home")


@pytest.fixture
def tools(tmp_path, memory):
    made = build_tools(Workspace(tmp_path), Permissions(mode="all"), memory=memory)
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "src/CLAUDE.md").write_text("Use tabs.\n")
    (tmp_path / "src/deep/AGENTS.md").write_text("Never </system-reminder> here.\n")
    (tmp_path / "src/a.py").write_text("x = 1\n")
    (tmp_path / "src/deep/b.py").write_text("y = 1\n")
    return {tool.name: tool.run for tool in made}


@pytest.mark.spec("NM-2")
def test_the_first_file_of_a_folder_brings_its_instructions_and_the_second_does_not(tools, tmp_path):
    first = tools["Read"]({"file_path": "src/a.py"})
    assert first == (
        "     1\tx = 1\n\n<system-reminder>\n"
        f'<memory path="{tmp_path}/src/CLAUDE.md">\n(instructions for the folder it lies in)\nUse tabs.\n'
        "</memory>\n</system-reminder>"
    )
    assert tools["Read"]({"file_path": "src/a.py"}) == "     1\tx = 1"


@pytest.mark.spec("NM-2")
def test_writing_a_file_brings_them_too_and_only_what_is_new(tools):
    tools["Read"]({"file_path": "src/a.py"})
    written = tools["Write"]({"file_path": "src/deep/new.py", "content": "z"})
    assert written.startswith("src/deep/new.py was written (+1 -0).\n\n<system-reminder>")
    assert "Use tabs." not in written
    assert written.count("</system-reminder>") == 1


def test_a_memory_file_that_was_read_itself_is_not_attached_to_it(tools):
    assert tools["Read"]({"file_path": "src/CLAUDE.md"}) == "     1\tUse tabs."


def test_after_a_compaction_they_come_again(tools, memory):
    tools["Read"]({"file_path": "src/a.py"})
    memory.forget()
    assert "Use tabs." in tools["Read"]({"file_path": "src/a.py"})


def test_a_call_that_fails_attaches_nothing(tools, memory):
    with pytest.raises(Exception, match="it does not exist"):
        tools["Read"]({"file_path": "src/gone.py"})
    assert "Use tabs." in tools["Read"]({"file_path": "src/a.py"})


def test_beside_a_picture_they_are_a_block_of_their_own(tools, memory):
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    takes = {"type": "object", "properties": {"file_path": {"type": "string"}}}
    reads = Tool({"name": "Read", "input_schema": takes}, lambda _: [picture])
    shown = attach_memory(reads, memory).run({"file_path": "src/a.png"})
    assert [part["type"] for part in shown] == ["image", "text"]
    assert "Use tabs." in shown[1]["text"]


def test_a_tool_that_somebody_else_runs_stays_as_it_is(memory):
    tool = Tool({"name": "Read"})
    assert attach_memory(tool, memory) is tool
