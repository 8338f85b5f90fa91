"""The file of a large result is whole when the model is pointed to it, whatever has happened to the file."""

import os
import shutil
from pathlib import Path

import pytest
from surfaces.desk import call, tool

LARGE = "a line of code, größer and \udc80\n" * 4_000


def large(desk, **options):
    return desk.open(tools=[tool("Bash", lambda given: LARGE, command={"type": "string"})], **options)


def run_large(desk, session):
    desk.twin.script({"content": [call("toolu_1", "Bash", command="make")]}, "It is long.")
    session.send("Run it.")


@pytest.mark.parametrize("gone", ["the file", "the folder"])
def test_a_deleted_file_of_a_large_result_is_written_again_when_the_session_is_opened(desk, gone):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
        was = path.read_bytes()
    assert str(path) in str(desk.bodies[-1])
    shutil.rmtree(path.parent) if gone == "the folder" else path.unlink()
    with large(desk):
        assert path.read_bytes() == was


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(lambda was: b"", id="empty"),
        pytest.param(lambda was: was[:100], id="cut"),
        pytest.param(lambda was: b"other text\n" * 400, id="changed"),
        pytest.param(lambda was: was[: len(was) // 2].ljust(len(was), b"\0"), id="zeros at its end"),
        pytest.param(lambda was: b"X" + was[1:], id="another first byte"),
        pytest.param(lambda was: was[:4096].ljust(8192, b"\0") + was[8192:], id="a page of zeros"),
        pytest.param(lambda was: was + b"X", id="longer"),
    ],
)
def test_a_file_that_is_empty_cut_or_changed_anywhere_is_written_again(desk, left):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
        was = path.read_bytes()
    path.write_bytes(left(was))
    with large(desk) as session:
        assert (path.read_bytes(), session.remarks) == (was, [])


@pytest.mark.parametrize("at", [0, 1 << 20, (2 << 20) - 1])
def test_one_changed_byte_of_a_file_of_two_megabytes_is_noticed(desk, at):
    with desk.open(
        tools=[tool("Bash", lambda given: "x" * (2 << 20), command={"type": "string"})]
    ) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
    os.utime(path, (1, 1))
    with large(desk):
        assert path.stat().st_mtime == 1
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"y")
    with large(desk):
        assert path.read_bytes() == b"x" * (2 << 20)


def test_a_whole_file_stays_as_it_is_and_reading_writes_none(desk):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
    os.utime(path, (1, 1))
    with large(desk):
        assert path.stat().st_mtime == 1
    path.unlink()
    with large(desk, access="read"):
        assert not path.exists()


def test_a_directory_in_place_of_the_file_is_a_remark(desk):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
    path.unlink()
    path.mkdir()
    with large(desk) as session:
        assert session.remarks == [f"{path} could not be written: Is a directory."]


def test_a_file_that_did_not_move_with_its_session_is_a_remark(desk):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
    desk.path = desk.path.rename(desk.path.with_name("moved.jsonl"))
    with large(desk) as session:
        assert session.remarks == []
    shutil.rmtree(path.parent)
    with large(desk) as session:
        assert session.remarks == [
            f"the file of a large result does not exist, and the model cannot read it: {path}; "
            "if the session was moved or copied, put the folder of this file there again"
        ]


def test_no_file_is_written_outside_the_folder_of_the_session(desk, tmp_path):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
    victim = tmp_path / "victim.txt"
    desk.path.write_text(desk.path.read_text().replace(str(path), str(victim)))
    with large(desk):
        assert not victim.exists()


def test_a_file_that_cannot_be_written_is_a_remark(desk):
    with large(desk) as session:
        run_large(desk, session)
        (path,) = Path(session._runtime.store.blob_folder).iterdir()
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    with large(desk) as session:
        assert any(f"{path} could not be written" in remark for remark in session.remarks)
