"""Watches the folders of sessions and asks the indexer to look when something changes (DB-5).

A folder may not exist yet, or disappear: the set of folders is checked every few seconds. Where the system
cannot watch them (too many folders, a network file system), they are polled.
"""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import watchfiles

from everturn.catalog.places import Places, is_candidate
from everturn.web_dashboard.indexer import Indexer

# How long changes are collected before they are reported, in milliseconds.
_DEBOUNCE: Final = 200
_STEP: Final = 50
# How often the folders themselves are checked.
_CHECK: Final = 3_000
# How many seconds pass before a watch that failed is tried again.
_RETRY: Final = 1.0


class Watcher:
    def __init__(self, places: Places, indexer: Indexer) -> None:
        self._places, self._indexer = places, indexer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="everturn-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        polls = False
        while not self._stopping.is_set():
            roots = self._existing()
            if not roots:
                self._stopping.wait(_CHECK / 1000)
                continue
            # What a folder held when it appeared changes no more.
            self._indexer.look()
            try:
                self._watch(roots, polls=polls)
            except (OSError, RuntimeError):
                # The limit of watches, or a folder that vanished in this moment. RuntimeError: a change of a
                # file whose name is not UTF-8, which the library cannot tell.
                polls = self._existing() == roots
                self._stopping.wait(_RETRY)
            self._indexer.look()

    def _watch(self, roots: Mapping[Path, int], *, polls: bool) -> None:
        """Until the set of folders changes."""
        # Also once after the watch began, and once after the last change: something may have changed just
        # before, or in a new folder that was not watched yet.
        is_due = True
        for changes in watchfiles.watch(
            *roots,
            watch_filter=lambda _, path: is_candidate(Path(path), self._places) or os.path.isdir(path),
            debounce=_DEBOUNCE,
            step=_STEP,
            stop_event=self._stopping,
            rust_timeout=_CHECK,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=polls or None,
            ignore_permission_denied=True,
        ):
            if changes or is_due:
                self._indexer.look()
            is_due = bool(changes)
            if self._existing() != roots:
                return

    def _existing(self) -> dict[Path, int]:
        """The folders that exist, with the numbers of their inodes: one that was removed and made again
        needs a new watch."""
        found: dict[Path, int] = {}
        for root in self._places.roots:
            with suppress(OSError):
                found[root] = root.stat().st_ino
        return found
