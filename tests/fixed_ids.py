"""Ids that nobody chooses are the same in every run of a test.

An id is part of a request, so its tokens are counted, and the twin's replies depend on the text that they
answer. A test that names no ids would pass or fail by chance: one in thirty runs has been seen. Each test
begins with ids of its own, and so does each process that it forks. `make soak-tests` has random ids as usual.
"""

import os
import random
import uuid
from types import SimpleNamespace

import pytest


class FixedIds:
    """Random bytes that depend on the name of a test, and on the number of a process that it forks."""

    def __init__(self) -> None:
        self._name = ""
        self._forks = 0
        self._source = random.Random()
        os.register_at_fork(
            before=self._count, after_in_child=lambda: self.begin(f"{self._name} {self._forks}")
        )

    def begin(self, name: str) -> None:
        self._name, self._forks = name, 0
        self._source.seed(name)

    def _count(self) -> None:
        self._forks += 1

    def random_bytes(self, count: int) -> bytes:
        return self._source.randbytes(count)

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.random_bytes(16), version=4)


class FixedIdsPlugin:
    def __init__(self) -> None:
        self._ids = FixedIds()
        self._patch = pytest.MonkeyPatch()

    def pytest_collection_finish(self) -> None:
        # Not before: `surface_watch` must be there before the first of our modules is imported.
        from everturn.session import new_ids

        self._patch.setattr(new_ids, "os", SimpleNamespace(urandom=self._ids.random_bytes))
        self._patch.setattr(uuid, "uuid4", self._ids.uuid4)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._ids.begin(item.nodeid)

    def pytest_unconfigure(self) -> None:
        self._patch.undo()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("EVERTURN_PROFILE", "default") == "default":
        config.pluginmanager.register(FixedIdsPlugin(), "fixed-ids")
