"""How likely a conversation goes on after a silence, counted in recorded sessions (EC-2).

    python -m everturn.replay.pause_table [FOLDER]

Prints the rows of `decide/economy/pauses.py`: DEFAULT_PAUSES. The end of a recording counts as a silence
without end; threads of sub-agents are left out, because a sub-agent that has finished does not come back.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Final

from everturn.decide.economy.pauses import fit_pauses
from everturn.replay.playing.prepared import prepare
from everturn.replay.sessions import ReplaySession, read_sessions

FOLDER: Final = Path("../shared/data/claude-code")


def iter_silences(paths: Iterable[Path]) -> Iterator[float]:
    for session in read_sessions(paths):
        if isinstance(session, ReplaySession):
            yield from silences_of(session)


def silences_of(session: ReplaySession) -> Iterator[float]:
    """Seconds between the calls of the main conversation, and after the last one."""
    calls = next(iter(prepare(session).whole), None)
    times = [call.at for call in calls.calls] if calls else []
    yield from ((later - sooner).total_seconds() for sooner, later in pairwise(times))
    if times:
        yield inf


def main(arguments: list[str]) -> int:
    for row in fit_pauses(iter_silences([Path(arguments[0]) if arguments else FOLDER])).rows:
        print(f"PauseRow({row.seconds:_}, {row.silences}, {row.returns}),")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
