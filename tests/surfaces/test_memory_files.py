"""Instructions that people keep in their projects, as `everturn chat` sends them (NM)."""

import json
import queue
import sys
from types import SimpleNamespace

import pytest
from surfaces.desk import call, tool


@pytest.mark.spec("NM-1")
def test_memory_files_are_found_upwards_and_in_the_home_with_their_imports(chat, twin):
    (chat.home / ".claude").mkdir()
    (chat.home / ".claude" / "CLAUDE.md").write_text("Say please.\n")
    (chat.project / "CLAUDE.md").write_text("Use tabs.\nSee @docs/style.md for more.\n")
    (chat.project / "docs").mkdir()
    (chat.project / "docs" / "style.md").write_text("Never shout. @style.md\n")
    twin.script("Hello.")
    [body] = chat("Hi.").bodies
    system = [block["text"] for block in body["system"]]
    wanted = ["Say please.", "Use tabs.", "Never shout."]
    assert [words for words in wanted if words not in system[-1]] == []
    assert not any(words in block for words in wanted for block in system[:-1])
    assert system[-1].count("Never shout.") == 1


@pytest.mark.spec("NM-2")
def test_a_file_in_a_folder_with_instructions_brings_them_once(chat, twin):
    inner = chat.project / "src"
    inner.mkdir()
    (inner / "CLAUDE.md").write_text("Only ASCII here.\n")
    (inner / "a.py").write_text("x = 1\n")
    reads = [{"content": [call(f"toolu_{n}", "Read", file_path="src/a.py")]} for n in range(2)]
    twin.script(*reads, "Done.")
    bodies = chat("Read it twice.").bodies
    assert "Only ASCII here." not in json.dumps(bodies[0])
    assert json.dumps(bodies[-1]["messages"]).count("Only ASCII here.") == 1


# ── in a session ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def project(desk, monkeypatch):
    """A project with instructions at three levels, and a neighbour who has a secret."""
    home = desk.folder / "home"
    monkeypatch.setenv("HOME", str(home))
    root = home / "work" / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "CLAUDE.md").write_text("Top rules.\n")
    (root / "src" / "CLAUDE.md").write_text("Rules of src.\n")
    (root / "src" / "deep" / "AGENTS.md").write_text("Rules of deep.\n")
    (root / "src" / "deep" / "a.py").write_text("x = 1\n")
    neighbour = home / "work" / "neighbour"
    neighbour.mkdir()
    (neighbour / "secret.md").write_text("SECRET\n")
    (neighbour / "CLAUDE.md").write_text("SECRET\n")
    return root


def opened(desk, project, *, memory=None, **options):
    read = tool("Read", lambda given: (project / given["file_path"]).read_text())
    write = tool("Write", lambda given: "written")
    memory = {"enabled": True, **(memory or {})}
    return desk.open(tools=[read, write], cwd=project, system="Be kind.", memory=memory, **options)


def use(desk, session, name, tool_name, path):
    """One turn with one call; gives the result that the model is shown."""
    desk.twin.script({"content": [call(name, tool_name, file_path=path)]}, "Done.")
    session.send(f"Use {path}.")
    blocks = [block for message in desk.bodies[-1]["messages"] for block in message["content"]]
    return next(block["content"] for block in blocks if block.get("tool_use_id") == name)


RULES_OF_BOTH = ["Rules of src.", "Rules of deep."]


def rules_in(words):
    return [rule for rule in ("Top rules.", *RULES_OF_BOTH) if rule in words]


@pytest.mark.spec("NM-2")
@pytest.mark.parametrize(("tool_name", "path"), [("Read", "src/deep/a.py"), ("Write", "src/deep/new.py")])
def test_reading_or_writing_a_file_attaches_the_instructions_on_the_way_to_it_once(
    desk, project, tool_name, path
):
    with opened(desk, project) as session:
        first = use(desk, session, "toolu_1", tool_name, path)
        second = use(desk, session, "toolu_2", tool_name, path)
    assert rules_in(json.dumps(desk.bodies[0]["system"])) == ["Top rules."]
    assert (rules_in(first), rules_in(second)) == (RULES_OF_BOTH, [])
    assert first.count("<system-reminder>") == 1


@pytest.mark.spec("NM-2")
def test_instructions_that_the_model_read_itself_are_not_attached(desk, project):
    with opened(desk, project) as session:
        assert rules_in(use(desk, session, "toolu_1", "Read", "src/CLAUDE.md")) == ["Rules of src."]
        assert rules_in(use(desk, session, "toolu_2", "Read", "src/deep/a.py")) == ["Rules of deep."]


@pytest.mark.spec("NM-2")
def test_after_a_compaction_instructions_are_attached_again_when_their_folder_is_used(desk, project):
    with opened(desk, project, ways=("extract",)) as session:
        desk.talk(session, 4, size=600)
        use(desk, session, "toolu_1", "Read", "src/deep/a.py")
        session.compact()
        assert rules_in(use(desk, session, "toolu_2", "Read", "src/deep/a.py")) == RULES_OF_BOTH


@pytest.fixture
def changes(monkeypatch):
    """What the package `watchfiles` would report; its watcher is a thread of the session."""
    batches, watched = queue.Queue(), []

    def watch(folder, *, stop_event, yield_on_timeout):
        watched.append(str(folder))
        while not stop_event.is_set():
            try:
                batch = batches.get(timeout=0.01)
            except queue.Empty:
                continue
            yield batch
            # Asked for the next one: this one was passed on.
            batches.task_done()

    monkeypatch.setitem(sys.modules, "watchfiles", SimpleNamespace(watch=watch))

    def report(*paths):
        batches.put({(2, str(path)) for path in paths})
        batches.join()

    report.watched = watched
    return report


@pytest.mark.spec("NM-2")
def test_a_change_that_the_watcher_sees_attaches_instructions_and_changed_ones_come_again(
    desk, project, changes
):
    other = project / "other"
    other.mkdir()
    (other / "CLAUDE.md").write_text("Rules of other.\n")
    with opened(desk, project, memory={"watch": True}) as session:
        changes(other / "made_by_an_editor.py")
        first = use(desk, session, "toolu_1", "Read", "src/deep/a.py")
        assert [rule for rule in ("Rules of other.", *RULES_OF_BOTH) if rule not in first] == []
        (project / "src" / "CLAUDE.md").write_text("New rules of src.\n")
        changes(project / "src" / "CLAUDE.md")
        second = use(desk, session, "toolu_2", "Read", "src/deep/a.py")
    assert "New rules of src." in second
    assert "Rules of deep." not in second
    assert changes.watched == [str(project)]


@pytest.mark.spec("NM-3")
def test_permission_is_asked_for_every_memory_file_and_a_refused_one_is_not_sent(desk, project):
    asked = []

    def may_read(path):
        asked.append(str(path.relative_to(project)))
        return path.name != "AGENTS.md"

    (project / "CLAUDE.md").write_text("Top rules. @docs/more.md\n")
    (project / "docs").mkdir()
    (project / "docs" / "more.md").write_text("Never shout.\n")
    with opened(desk, project, may_read=may_read) as session:
        first = use(desk, session, "toolu_1", "Read", "src/deep/a.py")
    assert rules_in(first) == ["Rules of src."]
    assert "Never shout." in json.dumps(desk.bodies[0]["system"])
    names = ["CLAUDE.md", "docs/more.md", "src/CLAUDE.md", "src/deep/AGENTS.md"]
    assert sorted(set(asked)) == names


@pytest.mark.spec("NM-3")
def test_without_permission_nothing_is_sent_and_a_question_that_fails_is_a_no(desk, project):
    for may_read in (lambda path: False, lambda path: 1 / 0):
        with opened(desk, project, may_read=may_read) as session:
            use(desk, session, "toolu_1", "Read", "src/deep/a.py")
        desk.path.unlink()
    assert not any(
        rule in json.dumps(body) for body in desk.bodies for rule in ("Top rules.", *RULES_OF_BOTH)
    )


@pytest.mark.spec("NM-3")
def test_links_are_resolved_before_the_question_and_nothing_outside_the_project_is_opened(desk, project):
    asked = []
    secret = project.parent / "neighbour"
    (project / "link.md").symlink_to(secret / "secret.md")
    (project / "folder").symlink_to(secret)
    inside = project / "inside.md"
    inside.symlink_to(project / "src" / "CLAUDE.md")
    ways = ["link.md", "folder/secret.md", "../neighbour/secret.md", str(secret / "secret.md"), "inside.md"]
    (project / "CLAUDE.md").write_text("Top rules.\n" + "\n".join(f"@{way}" for way in ways))
    (project / "src" / "deep" / "AGENTS.md").unlink()
    (project / "src" / "deep" / "AGENTS.md").symlink_to(secret / "CLAUDE.md")
    with opened(desk, project, may_read=lambda path: not asked.append(path)) as session:
        use(desk, session, "toolu_1", "Read", "src/deep/a.py")
    assert "SECRET" not in json.dumps(desk.bodies)
    assert set(asked) == {project / "CLAUDE.md", project / "src" / "CLAUDE.md"}


@pytest.mark.spec("NM-3")
def test_the_chat_reads_no_memory_file_that_is_a_link_to_elsewhere(chat, twin):
    secret = chat.home / "secret.md"
    secret.write_text("SECRET\n")
    (chat.project / "CLAUDE.md").symlink_to(secret)
    twin.script("Hello.")
    [body] = chat("Hi.").bodies
    assert "SECRET" not in json.dumps(body)
