"""The net itself: what it catches, what it lets pass, and what a marker must say."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cache_net import divergence, pieces, reason_problem

ROOT = Path(__file__).parents[2]

TOOL = {"name": "Read", "input_schema": {"type": "object"}}
MARKED = {"cache_control": {"type": "ephemeral"}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def prompt(*said: Any, tools: Any = (TOOL,), system: str = "Be brief.") -> Any:
    """Messages of one block each, a user's and the model's in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": [block]} for at, block in enumerate(said)]
    return pieces(msgspec.json.encode({"tools": list(tools), "system": [text(system)], "messages": messages}))


A, B, C = text("a"), text("b"), text("c")


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (prompt(A), prompt(A), None),
        (prompt(A), prompt(A, B, C), None),
        (prompt({**A, **MARKED}), prompt(A, B, {**C, **MARKED}), None),
        ([], prompt(A), None),
        (prompt(A, B, C), prompt(A), ("messages", 3)),
        (prompt(A, B), prompt(A, C), ("messages", 3)),
        (prompt(A, B), prompt(A, text("b", citations=[])), ("messages", 3)),
        (prompt(A), prompt(A, system="Be long."), ("system", 1)),
        (prompt(A), prompt(A, tools=(TOOL, TOOL)), ("system", 1)),
        (prompt(A), prompt(A, tools=({**TOOL, "description": "x"},)), ("tools", 0)),
    ],
)
def test_a_prompt_extends_another_or_leaves_it_at_a_block(before, now, found):
    assert divergence(before, now) == found


@pytest.mark.parametrize(
    ("mark", "is_good"),
    [
        (pytest.mark.moves_cache_prefix(reason="the tools are changed on purpose"), True),
        (pytest.mark.moves_cache_prefix(reason="on purpose"), False),
        (pytest.mark.moves_cache_prefix(reason=True), False),
        (pytest.mark.moves_cache_prefix("the tools are changed on purpose"), False),
        (pytest.mark.moves_cache_prefix, False),
    ],
)
def test_a_marker_says_why_in_a_sentence(mark, is_good):
    assert (reason_problem(mark.mark) == "") == is_good


SUITE = """
import msgspec, pytest
from engine.held import Held, head, talk
from everturn.history.blocks import text_block
from everturn.history.records import Record
from everturn.view import flatten
from everturn.view.fragments import cleared

GOOD = pytest.mark.moves_cache_prefix(reason="the system prompt changes on purpose")

def new_head(tmp_path):
    held = Held(tmp_path)
    held.ask("One.")
    held.change(preamble=head(system="Another one. " * 900))
    held.ask("Two.")

def test_moves_silently(tmp_path): new_head(tmp_path)

@GOOD
def test_moves_and_says_why(tmp_path): new_head(tmp_path)

@pytest.mark.moves_cache_prefix
def test_moves_with_a_bare_marker(tmp_path): new_head(tmp_path)

@pytest.mark.moves_cache_prefix(reason="because")
def test_says_too_little_and_moves_nothing(tmp_path): Held(tmp_path).ask("One.")

def test_extends(tmp_path): list(talk(Held(tmp_path), 4))

def test_an_edit_says_why(tmp_path):
    held = Held(tmp_path, under="masking")
    for _ in range(5):
        held.burst(3)
    assert "Cleared" in held.edits

def test_a_placeholder_that_changes(tmp_path, monkeypatch):
    held = Held(tmp_path, under="masking")
    for at in range(5):
        monkeypatch.setattr(flatten, "cleared", lambda block, at=at: msgspec.structs.replace(
            cleared.cleared(block), raw=cleared.cleared(block).raw.replace(b"Old", b"Old %d" % at)))
        held.burst(5)
        held.runner.conversation._tracker.flattener._remake_results(held.runner.conversation._tracker.flattener._hidden)

@GOOD
def test_another_text_than_was_recorded(tmp_path, monkeypatch):
    held = Held(tmp_path)
    held.ask("One.")
    shown = flatten.Flattener._answer
    def other(self, record):
        shown(self, msgspec.structs.replace(record, blocks=(text_block("Never said."),)))
    monkeypatch.setattr(flatten.Flattener, "_answer", other)
    held.ask("Two.")

@GOOD
def test_refused(tmp_path):
    held = Held(tmp_path)
    held.ask("One.")
    with pytest.raises(Exception, match="prefill"):
        held.runner.call()
"""
INI = "[pytest]\nmarkers = moves_cache_prefix: m\n    spec: s\naddopts = --import-mode=importlib\n"


def test_the_net_fails_the_tests_that_break_a_law_and_no_others(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text(INI)
    # Wide enough that no line of the report is cut.
    own = {"PYTHONPATH": str(ROOT / "tests"), "COLUMNS": "400"}
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | own
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "cache_net", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    lines = [
        line.split("::")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "PASSED"))
    ]
    found = dict((line + " - ").split(" - ")[:2] for line in lines)
    assert {name: next((each for each in SAYS if each in why), why) for name, why in found.items()} == {
        "test_moves_silently": "leaves the one before it at block 5 (system)",
        "test_moves_and_says_why": "",
        "test_moves_with_a_bare_marker": "in at least 4 words, not None",
        "test_says_too_little_and_moves_nothing": "in at least 4 words, not 'because'",
        "test_extends": "",
        "test_an_edit_says_why": "",
        "test_a_placeholder_that_changes": "has changed",
        "test_another_text_than_was_recorded": "is none that was recorded",
        "test_refused": "was refused: 400",
    }


SAYS = (
    "leaves the one before it at block 5 (system)",
    "in at least 4 words, not None",
    "in at least 4 words, not 'because'",
    "has changed",
    "is none that was recorded",
    "was refused: 400",
)
