"""Report file changes to nested memory. The watcher is an extra: pip install 'everturn[watch]'."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, cast

from everturn.errors import UsageError
from everturn.session.memory_files.nested import NestedMemory

# One batch of changes: the kind of change, which is not used, and the path.
Changes = Iterable[tuple[Any, str]]


class StopSignal(Protocol):
    """A threading.Event, for example."""

    def is_set(self) -> bool: ...


def notify_changes(nested: NestedMemory, batches: Iterable[Changes]) -> None:
    """Pass on all batches; returns when there are no more."""
    for changes in batches:
        nested.changed(path for _, path in changes)


def watch(folder: Path, stop: StopSignal) -> Iterable[Changes]:
    """Batches of changes below a folder, from watchfiles; ends when `stop` is set."""
    try:
        from watchfiles import watch as watch_files  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        raise UsageError(
            "Watching files needs the package 'watchfiles', which is not installed: "
            "pip install 'everturn[watch]' brings it."
        ) from None
    # A cast: watchfiles is an optional dependency, so a type checker may not find it.
    return cast("Iterable[Changes]", watch_files(folder, stop_event=stop, yield_on_timeout=False))
