"""The parts of a running dashboard, put together: index, indexer, watcher, comparisons, actions."""

import os
import secrets
import time
from collections.abc import Callable
from datetime import tzinfo

from everturn.catalog.places import Places
from everturn.decide.options import Options
from everturn.replay.parallel import ResultCache
from everturn.replay.requests_seen import TranscriptReader
from everturn.web_dashboard.actions import Actions
from everturn.web_dashboard.comparisons import Comparisons, Replay
from everturn.web_dashboard.events import EventHub
from everturn.web_dashboard.index import SessionIndex
from everturn.web_dashboard.indexer import Indexer, Summarize
from everturn.web_dashboard.pages.layout import Shell
from everturn.web_dashboard.queries import Scope, count_sessions
from everturn.web_dashboard.security import load_key

INDEX = "index.sqlite"


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
        replay: Replay | None = None,
    ) -> None:
        self.places, self.options, self.zone, self.clock = places, options, zone, clock
        self.key = load_key(places.cache)
        self.token = secrets.token_urlsafe(24)
        self.hub = EventHub()
        self.index = SessionIndex(str(places.cache / INDEX))
        self.indexer = Indexer(self.index, places, self.hub.publish, summarize=summarize)
        cache = ResultCache(results or str(places.cache.parent / "replay"))
        self.comparisons = Comparisons(
            self.index, cache, options, self.hub.publish, clock=clock, replay=replay
        )
        self.reader = TranscriptReader()
        self.actions = Actions(options, clock=clock)

    def start(self) -> None:
        self.indexer.start()

    def stop(self) -> None:
        self.indexer.stop()
        self.comparisons.stop()
        self.index.close()

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
