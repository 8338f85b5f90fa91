"""Instructions that people keep in their projects, as `everturn chat` sends them (NM)."""

import json
import os
import subprocess
import sys

import pytest
from surfaces.desk import HAIKU, call

from everturn.twin.app import serve_twin


@pytest.fixture
def chat(tmp_path, twin, monkeypatch):
    """`everturn chat -p` in a project; gives the requests that arrived at the provider."""
    home, project = tmp_path / "home", tmp_path / "home" / "work" / "project"
    project.mkdir(parents=True)
    (project / ".git").mkdir()
    bodies = []
    answer = twin.twin.messages

    def messages(headers, body):
        bodies.append(json.loads(body))
        return answer(headers, body)

    monkeypatch.setattr(twin.twin, "messages", messages)

    def run(words):
        with serve_twin(twin.twin) as url:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "XDG_DATA_HOME": str(tmp_path / "data"),
                "ANTHROPIC_API_KEY": "test-key",
                "ANTHROPIC_BASE_URL": url,
            }
            command = [sys.executable, "-m", "everturn", "chat", "--model", HAIKU, "-p", words]
            done = subprocess.run(command, cwd=project, env=environment, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return bodies

    run.project, run.home = project, home
    return run


@pytest.mark.spec("NM-1")
def test_memory_files_are_found_upwards_and_in_the_home_with_their_imports(chat, twin):
    (chat.home / ".claude").mkdir()
    (chat.home / ".claude" / "CLAUDE.md").write_text("Say please.\n")
    (chat.project / "CLAUDE.md").write_text("Use tabs.\nSee @docs/style.md for more.\n")
    (chat.project / "docs").mkdir()
    (chat.project / "docs" / "style.md").write_text("Never shout. @style.md\n")
    twin.script("Hello.")
    [body] = chat("Hi.")
    system = [block["text"] for block in body["system"]]
    wanted = ["Say please.", "Use tabs.", "Never shout."]
    assert [words for words in wanted if words not in system[-1]] == []
    assert not any(words in block for words in wanted for block in system[:-1])
    assert system[-1].count("Never shout.") == 1


def test_a_file_in_a_folder_with_instructions_brings_them_once(chat, twin):
    inner = chat.project / "src"
    inner.mkdir()
    (inner / "CLAUDE.md").write_text("Only ASCII here.\n")
    (inner / "a.py").write_text("x = 1\n")
    reads = [{"content": [call(f"toolu_{n}", "Read", file_path="src/a.py")]} for n in range(2)]
    twin.script(*reads, "Done.")
    bodies = chat("Read it twice.")
    assert "Only ASCII here." not in json.dumps(bodies[0])
    assert json.dumps(bodies[-1]["messages"]).count("Only ASCII here.") == 1
