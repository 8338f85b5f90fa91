"""The table of requirements counts only what was really held, with and without xdist."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spec_table import Row, chapters, counts_for, draw, state_of, summary
from surface_watch import SURFACES, is_command

SUITE = """
import subprocess
import sys
import pytest

@pytest.mark.spec("AA-1", "AA-2")
def test_passes(tmp_path):
    from everturn import Session
    Session.open(tmp_path / "a.jsonl", client=object()).close()

@pytest.mark.spec("AA-2")
def test_fails(): assert False

@pytest.mark.spec("AA-3")
def test_skips(): pytest.skip("not today")

@pytest.mark.spec("AA-4", "AA-1")
def test_passes_inside(): assert True

@pytest.mark.spec("AA-5", "TW-1")
def test_asks_the_twin(twin):
    assert twin.client().models.list().data

@pytest.mark.spec("BB-1")
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False

@pytest.fixture(scope="module")
def version():
    return subprocess.run([sys.executable, "-m", "everturn", "--version"], check=True)

@pytest.mark.spec("BB-2")
@pytest.mark.parametrize("n", [1, 2])
def test_passes_twice(n, version): assert n

@pytest.mark.spec("BB-4")
def test_finds_its_fixture_made(version): assert version
"""
# Quick to run: enters no surface.
LIGHT_SUITE = """
import pytest

@pytest.mark.spec("AA-1")
def test_passes(): assert True

@pytest.mark.spec("AA-2")
def test_fails(): assert False
"""
IDS = ("AA-1", "AA-2", "AA-3", "AA-4", "AA-5", "BB-1", "BB-2", "BB-3", "BB-4", "TW-1")
PAGE = "# Requirements\n" + "".join(f"- **{name}** words\n" for name in IDS)
INI = "[pytest]\ntestpaths = tests\nmarkers = spec(*ids): ids\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"docs/requirements.md": PAGE, "tests/test_it.py": SUITE, "pytest.ini": INI}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def light_project(project: Path) -> Path:
    (project / "tests" / "test_it.py").write_text(LIGHT_SUITE)
    return project


def run(project: Path, root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    names = ["xdist.plugin", "everturn.twin.testing", "surface_watch", "spec_table", "no:cacheprovider"]
    plugins = [word for name in names for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *args]
    # Without our settings: a run inside a worker must not take itself for one.
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others are slow to import
    env["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root / "tests")])
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_id_is_held_when_a_test_through_a_surface_passed_and_none_failed(project, root, workers):
    done = run(project, root, "-n", workers)
    assert json.loads((project / "build" / "spec.json").read_text()) == {
        "held": ["AA-1", "BB-2", "BB-4", "TW-1"],
        "only_inside": ["AA-4", "AA-5"],
        "not_held": ["AA-2", "AA-3", "BB-1", "BB-3"],
    }
    lines = done.stdout.splitlines()
    table = lines.index("      held  only inside  not held")
    assert lines[table + 1 : table + 6] == [
        "AA       1            2         2  only inside: AA-4 AA-5 not held:",
        "                                   AA-2(failing) AA-3(skipped)",
        "BB       2            0         2  not held: BB-1(failing) BB-3",
        "TW       1            0         0",
        "all      4            2         4",
    ]
    assert lines[-1].startswith("1 failed, 6 passed, 1 skipped, 1 xfailed")


def test_a_run_of_one_file_says_what_it_held_and_writes_nothing(project, root):
    done = run(project, root, "tests/test_it.py")
    said = "partial run, build/spec.json not written; "
    lists = "held: AA-1 BB-2 BB-4 TW-1; only inside: AA-4 AA-5"
    assert said + lists in done.stdout.splitlines()
    assert not (project / "build").exists()


@pytest.mark.parametrize("args", [["-k", "passes"], ["-x", "--deselect", "nothing"], ["--maxfail=1"]])
def test_a_partial_run_says_so_and_writes_nothing(light_project, root, args):
    done = run(light_project, root, *args)
    said = "partial run, build/spec.json not written; only inside: AA-1"
    assert said in done.stdout.splitlines()
    assert not (light_project / "build").exists()


def test_an_unknown_id_fails_the_run_and_is_named(light_project, root):
    (light_project / "tests" / "test_it.py").write_text(LIGHT_SUITE.replace('"AA-2"', '"BB-9"'))
    done = run(light_project, root)
    assert done.returncode == 1
    assert "spec mark with unknown id BB-9: not in docs/requirements.md" in done.stdout


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([], "untested"),
        (["passed"], "held"),
        (["passed", "skipped"], "held"),
        (["passed", "inside"], "held"),
        (["inside"], "only_inside"),
        (["inside", "skipped"], "only_inside"),
        (["skipped"], "skipped"),
        (["passed", "failed"], "failing"),
        (["inside", "failed"], "failing"),
    ],
)
def test_the_state_of_an_id_follows_from_its_outcomes(outcomes, state):
    assert state_of(outcomes) == state


@pytest.mark.parametrize(
    ("name", "surfaces", "counts"),
    [
        ("TOK-5", [], False),
        ("TOK-5", ["session"], True),
        ("TOK-5", ["twin"], False),
        ("TOK-5", ["command", "twin"], True),
        ("TW-5", ["twin"], True),
        ("BY-1", ["twin"], True),
        ("BY-10", ["twin"], False),
    ],
)
def test_the_twin_is_a_surface_of_its_own_requirements_only(name, surfaces, counts):
    assert counts_for(name, surfaces) is counts


def test_rows_follow_the_document_and_wrap_inside_the_width():
    rows = chapters(
        [f"LONG-{n}" for n in range(1, 31)] + ["B-1", "B-2"], {"B-1": {"passed"}, "B-2": {"inside"}}
    )
    assert rows[1] == Row("B", (("B-1", "held"), ("B-2", "only_inside")))
    assert summary(rows)["held"] == ["B-1"]
    drawn = draw(rows, width=60).splitlines()
    assert max(map(len, drawn)) <= 60
    assert drawn[1].startswith("LONG     0            0        30  not held: LONG-1 ")
    assert drawn[-2:] == [
        "B        1            1         0  only inside: B-2",
        "all      1            1        30",
    ]


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["everturn", "context"], True),
        (["/usr/bin/everturn"], True),
        (["python3", "-P", "-m", "everturn", "hook"], True),
        (["tmux", "new-session", "env HOME=/tmp python3 -m everturn chat"], True),
        (["sh", "-c", "cd /tmp && everturn audit x.jsonl"], True),
        ("bin/everturn audit x.jsonl", True),
        ([b"/usr/bin/everturn", b"twin"], True),
        (["git", "clone", "everturn"], False),
        (["python3", "-m", "everturned"], False),
        (["python3", "-c", "import everturn"], False),
        (["ls", "/src/everturn"], False),
    ],
)
def test_a_process_counts_as_a_command_when_it_runs_everturn(arguments, runs):
    assert is_command(arguments) is runs


@pytest.mark.parametrize("module", SURFACES)
def test_every_surface_that_is_watched_exists_and_is_watched(module):
    found = importlib.import_module(module)
    for qualified in SURFACES[module]:
        target = found
        for name in qualified.split("."):
            target = getattr(target, name)
        assert getattr(target, "__wrapped__", None), qualified
