import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from everturn.decide.effects import FileRead, ReadFiles
from everturn.safe_files import open_file
from everturn.session.files import MAX_FILE_BYTES, read_files, resolve_roots

BEYOND = "it {} outside the allowed directories"
LINK, PLAIN = BEYOND.format("is a symbolic link to a path"), BEYOND.format("is")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An allowed folder `in`, and beside it a secret that must never be read."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.txt").write_text("secret")
    (tmp_path / "in" / "a.py").write_text("print('hello')\n")
    return tmp_path / "in"


def read(home: Path, *paths: object, most: int = 1_000) -> tuple[FileRead, ...]:
    return read_files(ReadFiles(tuple(map(str, paths)), most), resolve_roots([home]))


def problem(home: Path, path: object) -> str:
    (found,) = read(home, path)
    assert found.text == ""
    return found.problem


def test_files_come_back_in_the_order_asked_for_with_their_problems(home):
    (home / "deep" / "b.txt").write_text("b")
    assert read(home, home / "deep" / "b.txt", "gone.py", "a.py") == (
        FileRead(str(home / "deep" / "b.txt"), "b"),
        FileRead("gone.py", problem="it does not exist"),
        FileRead("a.py", "print('hello')\n"),
    )


def test_a_link_inside_the_folder_is_followed_and_one_that_leads_out_is_not(home):
    (home / "inner").symlink_to(home / "a.py")
    (home / "outer").symlink_to(home.parent / "out" / "secret.txt")
    (home / "folder").symlink_to(home.parent / "out")
    assert read(home, "inner") == (FileRead("inner", "print('hello')\n"),)
    assert problem(home, "outer") == LINK
    assert problem(home, "folder/secret.txt") == LINK


@pytest.mark.parametrize("path", ["../out/secret.txt", "deep/../../out/secret.txt", "/etc/hostname", "/"])
def test_no_spelling_of_a_path_leads_out(home, path):
    assert problem(home, path) == PLAIN


def test_a_folder_that_only_begins_like_an_allowed_one_is_not_allowed(home):
    (home.parent / "inside").mkdir()
    (home.parent / "inside" / "x").write_text("x")
    assert problem(home, "../inside/x") == PLAIN


def test_what_is_no_plain_file_is_named(home):
    os.mkfifo(home / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / "socket"))
    (home / "data").write_bytes(b"\x7fELF\0\0")
    (home / "circle").symlink_to(home / "circle")
    assert {
        name: problem(home, name) for name in ("deep", ".", "pipe", "socket", "data", "a\0b", "x" * 300)
    } == {
        "deep": "it is a directory",
        ".": "it is a directory",
        "pipe": "it is a pipe, not a file",
        "socket": "it is a socket or a pipe, not a file",
        "data": "it is binary, not text",
        "a\0b": "its name holds a character that is not allowed in file names",
        "x" * 300: "its name is too long",
    }
    assert problem(home, "circle") != ""


def test_a_device_is_not_read():
    (found,) = read_files(ReadFiles(("zero",), 10), resolve_roots(["/dev"]))
    assert found == FileRead("zero", problem="it is a device, not a file")


@pytest.mark.parametrize("name", [".env", ".env.local", "server.pem", "id_rsa"])
def test_files_that_hold_secrets_by_custom_are_not_read_again(home, name):
    (home / name).write_text("KEY=1")
    (home / "plain.txt").symlink_to(home / name)
    assert problem(home, name) == "its name suggests that it holds secrets"
    assert problem(home, "plain.txt") == "its name suggests that it holds secrets"


def test_a_file_that_may_not_be_read_is_said_to_be_so(home):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (home / "a.py").chmod(0)
    assert problem(home, "a.py") == "permission denied"


def test_text_is_cut_at_characters_and_a_huge_file_is_refused(home):
    (home / "a.txt").write_text("äöü🚀" * 100)
    assert read(home, "a.txt", most=4) == (FileRead("a.txt", "äöü🚀", is_cut=True),)
    assert read(home, "a.txt", most=3) == (FileRead("a.txt", "äöü", is_cut=True),)
    assert read(home, "a.txt", most=400) == (FileRead("a.txt", "äöü🚀" * 100),)
    with (home / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert problem(home, "huge") == "it is too large (33,554,433 bytes, the limit is 33,554,432 bytes)"


def test_foreign_bytes_are_replaced_and_a_byte_order_mark_is_dropped(home):
    (home / "latin.txt").write_bytes(b"caf\xe9 au lait, fin\xe9")
    (home / "marked.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert [found.text for found in read(home, "latin.txt", "marked.txt")] == ["caf� au lait, fin�", "hello"]


@pytest.mark.parametrize("swapped", ["deep", "deep/secret.txt"])
def test_a_link_put_in_the_path_after_it_was_resolved_is_not_followed(home, swapped):
    (home / "deep" / "secret.txt").write_text("harmless")
    folder, way = resolve_roots([home]).place("deep/secret.txt")
    target = {"deep": home.parent / "out", "deep/secret.txt": home.parent / "out" / "secret.txt"}[swapped]
    (home / swapped).rename(home / "kept")
    (home / swapped).symlink_to(target)
    with pytest.raises(OSError) as refused:  # noqa: PT011 - which of the two the system says, is its choice
        open_file(way, below=folder)
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_a_folder_swapped_for_a_link_meanwhile_never_leads_out(home):
    """Another thread turns `deep` into a link to the secret and back while it is being read."""
    (home / "deep" / "secret.txt").write_text("harmless")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(home / "deep", home / "kept")
            os.symlink(home.parent / "out", home / "deep")
            os.unlink(home / "deep")
            os.rename(home / "kept", home / "deep")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = {read(home, "deep/secret.txt")[0].text for _ in range(3_000)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {"harmless", ""}


def test_at_least_one_folder_must_be_allowed():
    with pytest.raises(ValueError, match="at least one"):
        resolve_roots([])
