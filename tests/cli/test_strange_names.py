"""A session file, or its folder, whose name is not UTF-8: every command takes it."""

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_session import reading

from everturn.cli import main


@pytest.fixture(params=["strange folder", "strange file"])
def strange(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if sys.platform == "darwin":
        pytest.skip("this system has only names that are UTF-8")
    name = b"fo\xffld/plain.jsonl" if request.param == "strange folder" else b"se\xffss.jsonl"
    file = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(reading().to_bytes())
    return file


def run(*arguments: object) -> bytes:
    done = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout_bytes


def test_json_has_a_replacement_in_its_place(strange: Path):
    shown = os.fsencode(strange).decode(errors="replace")
    assert json.loads(run("context", strange, "--json"))["source"] == shown
    assert [row["path"] for row in json.loads(run("audit", strange, "--json"))["sessions"]] == [shown]


def test_replay_reads_it_and_writes_all_its_outputs(strange: Path, tmp_path: Path):
    page, requests = tmp_path / "page.html", tmp_path / "requests.jsonl"
    given = ("--policy", "none", "--engine", "here", "--cache", tmp_path / "kept")
    out = run("replay", strange, *given, "--json", "--html", page, "--requests", requests)
    assert json.loads(out)["sessions"] == 1
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    name = os.fsencode(strange.name).decode(errors="replace").partition(".")[0]
    assert {json.loads(line)["session"] for line in requests.read_bytes().splitlines()} == {name}


def test_an_image_is_drawn_of_it(strange: Path, tmp_path: Path):
    picture = tmp_path / "context.svg"
    run("context", strange, "--svg", picture)
    assert os.fsencode(strange.name).decode(errors="replace").replace("\ufffd", "?") in picture.read_text(
        encoding="utf-8"
    )
