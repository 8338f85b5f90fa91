"""What pages of one session and comparisons work with: transcripts, actions, replays.

Its imports take as long as all others of the dashboard together. `Dashboard.tools` makes it when it is
needed, so the first page does not wait for it.
"""

from collections.abc import Callable

from everturn.decide.options import Options
from everturn.replay.parallel import ResultCache
from everturn.replay.requests_seen import TranscriptReader
from everturn.web_dashboard.actions import Actions
from everturn.web_dashboard.comparisons import Comparisons, Replay
from everturn.web_dashboard.index import SessionIndex
from everturn.web_dashboard.indexer import Publish


class SessionTools:
    def __init__(
        self,
        index: SessionIndex,
        options: Options,
        publish: Publish,
        *,
        results: str,
        clock: Callable[[], float],
        replay: Replay | None,
    ) -> None:
        self.comparisons = Comparisons(
            index, ResultCache(results), options, publish, clock=clock, replay=replay
        )
        self.reader = TranscriptReader()
        self.actions = Actions(options, clock=clock)
