"""Where trials have their files."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def in_memory() -> str | None:
    """A disk in memory, where there is one: nothing here is about the disk's speed."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def scratch() -> Iterator[None]:
    """One folder for all processes: they end without tidying up after themselves. What a killed process
    leaves is what the system has, so it may be in memory, where a sync costs nothing."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="everturn-soak-", dir=in_memory()) as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before
