"""A file is replaced whole or not at all, and what was begun beside it does not stay."""

import errno
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everturn.safe_files import AtomicFile, replace_file


@contextmanager
def full_after(size: int) -> Generator[None]:
    """No file of this process can become larger than this: the write itself fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def failing_sync() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
        yield


@pytest.mark.parametrize(
    ("size", "failing", "number"),
    [
        pytest.param(500_000, lambda: full_after(1_000), errno.EFBIG, id="the write"),
        pytest.param(5_000, lambda: full_after(1_000), errno.EFBIG, id="the flush"),
        pytest.param(5_000, failing_sync, errno.EIO, id="the sync"),
    ],
)
def test_a_file_that_cannot_be_replaced_is_named_and_leaves_nothing_beside_it(
    tmp_path: Path, size, failing, number
):
    path = tmp_path / "kept.json"
    path.write_bytes(b"as it was")
    with failing(), pytest.raises(OSError, match=os.strerror(number)) as raised:
        replace_file(path, b"x" * size, sync=True)
    assert str(raised.value) == f"[Errno {number}] {os.strerror(number)}: '{path}'"
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("kept.json", b"as it was")]


def test_an_error_of_the_program_stays_itself_on_a_full_disk(tmp_path: Path):
    def write_and_fail() -> None:
        with AtomicFile(tmp_path / "new.json") as file:
            file.write(b"x" * 5_000)
            raise KeyError("mine")

    with full_after(1_000), pytest.raises(KeyError, match="mine"):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
