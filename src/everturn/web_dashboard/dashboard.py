"""The parts of a running dashboard, put together: index, indexer, and the tools of single sessions."""

import os
import secrets
import threading
import time
from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Final

from everturn.catalog.places import Places
from everturn.decide.options import Options
from everturn.web_dashboard.events import EventHub
from everturn.web_dashboard.index import SessionIndex
from everturn.web_dashboard.indexer import Indexer, Summarize
from everturn.web_dashboard.pages.layout import Shell
from everturn.web_dashboard.queries import Scope, count_sessions
from everturn.web_dashboard.security import load_key

if TYPE_CHECKING:
    from everturn.web_dashboard.comparisons import Replay
    from everturn.web_dashboard.session_tools import SessionTools

INDEX: Final = "index.sqlite"
# By then the first page is drawn. The tools are loaded before somebody opens a session.
_TOOLS_AFTER_SECONDS: Final = 2


class Dashboard:
    """`start` begins to read sessions in the background; `stop` ends that. `zone` None is the system's."""

    def __init__(
        self,
        places: Places,
        options: Options,
        *,
        zone: tzinfo | None = None,
        clock: Callable[[], float] = time.time,
        results: str = "",
        summarize: Summarize | None = None,
        replay: "Replay | None" = None,
    ) -> None:
        self.places, self.options, self.zone, self.clock = places, options, zone, clock
        self.key = load_key(places.cache)
        self.token = secrets.token_urlsafe(24)
        self.hub = EventHub()
        self.index = SessionIndex(str(places.cache / INDEX))
        self.indexer = Indexer(self.index, places, self.hub.publish, summarize=summarize)
        self._results, self._replay = results or str(places.cache.parent / "replay"), replay
        self._tools: SessionTools | None = None
        self._making = threading.Lock()
        self._loading = threading.Timer(_TOOLS_AFTER_SECONDS, lambda: self.tools)
        self._loading.daemon = True

    def start(self, *, index_after: float = 0.0) -> None:
        self.indexer.start(after=index_after)
        self._loading.start()

    def stop(self) -> None:
        self._loading.cancel()
        self.indexer.stop()
        if self._tools is not None:
            self._tools.comparisons.stop()
        self.index.close()

    @property
    def tools(self) -> "SessionTools":
        """Made at the first use, by whichever thread comes first."""
        with self._making:
            if self._tools is None:
                from everturn.web_dashboard.session_tools import SessionTools

                self._tools = SessionTools(
                    self.index, self.options, self.hub.publish,
                    results=self._results, clock=self.clock, replay=self._replay,
                )  # fmt: skip
            return self._tools

    def shell(self, active: str) -> Shell:
        return Shell(
            active,
            self.token,
            self.indexer.progress,
            count_sessions(self.index, Scope()),
            self.zone,
            int(self.clock()),
            tuple(f"{note[:1].upper()}{note[1:]}." for note in self.index.notes),
            os.path.expanduser("~"),
        )
