"""Telling nested memory what changed on disk. The watcher is an extra: pip install 'everturn[watch]'."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from everturn.errors import UsageError
from everturn.session.memory_files.nested import NestedMemory

# One batch: what happened (we do not care) and the path it happened to.
Changes = Iterable[tuple[Any, str]]


class StopSignal(Protocol):
    """A threading.Event, for example."""

    def is_set(self) -> bool: ...


def notify_changes(nested: NestedMemory, batches: Iterable[Changes]) -> None:
    """Pass batches on until there are none."""
    for changes in batches:
        nested.changed(path for _, path in changes)


def watch(folder: Path, stop: StopSignal) -> Iterable[Changes]:
    """Batches of changes below a folder, from watchfiles; ends when `stop` is set."""
    try:
        from watchfiles import watch as watched  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        raise UsageError(
            "Watching files needs the package 'watchfiles', which is not installed: "
            "pip install 'everturn[watch]' brings it."
        ) from None
    return watched(folder, stop_event=stop, yield_on_timeout=False)
