import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from everturn.cli import COMMANDS, main, missing_package


def test_help_lists_every_command_and_imports_none_of_them():
    code = (
        "import sys, everturn.cli\n"
        "everturn.cli.main(['-h'], standalone_mode=False)\n"
        "print('MODULES', *sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    listed, _, modules = shown.partition("MODULES")
    for name, (_, about) in COMMANDS.items():
        assert name in listed
        assert about.split()[0] in listed
    for heavy in ("msgspec", "uvicorn", "httpx2", "rich", "asyncio", "everturn.twin"):
        assert heavy not in modules.split()


def test_an_unknown_command_is_told_so():
    result = CliRunner().invoke(main, ["twinn"])
    assert result.exit_code == 2
    assert "No such command 'twinn'" in result.output


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "everturn", "config"], stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    said = "Error: Cannot write the output: No space left on device. Free some space, or write elsewhere.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_missing_extra_is_one_kind_sentence():
    problem = missing_package("twin", ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn"))
    assert isinstance(problem, click.ClickException)
    assert problem.message == (
        "`everturn twin` needs the package 'uvicorn', which is not installed. Run: "
        "pip install 'everturn[twin]'"
    )


def test_a_package_that_is_missed_while_a_command_runs_is_the_same_sentence(monkeypatch):
    for loaded in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delitem(sys.modules, "everturn.mcp.server", raising=False)
    # What python does for a package that is not there.
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: `everturn mcp` needs the package 'mcp")


def test_a_missing_module_of_our_own_is_not_excused():
    missing = ModuleNotFoundError("No module named 'everturn.nope'", name="everturn.nope")
    assert missing_package("twin", missing) is missing


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_both_ways_to_ask_for_help(flag):
    assert CliRunner().invoke(main, [flag]).exit_code == 0
