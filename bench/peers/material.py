"""The sessions that everyone is played on: recorded ones of different length, and made-up ones.

Recorded sessions are taken by a rule, not by name: those with enough calls, ordered by their number, evenly
spread. Without the folder there are only made-up ones, and the tables say so.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from everturn.history.records import Record
from everturn.replay.playing.prepared import prepare
from everturn.replay.playing.steps import ReplayThread, build_replay_thread
from everturn.replay.policies import REPLAY_POLICIES
from everturn.replay.sessions import ReplaySession, read_session, read_sessions
from everturn.replay.synthetic import SessionShape, generate_session

FEWEST_CALLS = 40
DEFAULT_COUNT = 14
# Tokens and seeds of the made-up ones. Their model has a window of a million: only marks that are no share of
# the window are reached in them.
_MADE_UP = ((100_000, 11), (250_000, 12))
_FOLDERS = ("claude-code", "pi")
# Where a history ends that is compacted: below the usual window of 200,000, as agents do.
_HISTORY_TOKENS = 160_000
_SHORTEST_HISTORY = 50_000


def recorded(data: Path, count: int) -> list[ReplaySession]:
    """So many of the recorded sessions, 0 for all of them; shortest first."""
    folders = [data / name for name in _FOLDERS if (data / name).is_dir()]
    found = [
        each
        for each in read_sessions(folders)
        if isinstance(each, ReplaySession) and _calls(each) >= FEWEST_CALLS
    ]
    found.sort(key=lambda each: (_calls(each), each.path))
    if not count or len(found) <= count:
        return found
    return [found[round(at * (len(found) - 1) / max(1, count - 1))] for at in range(count)]


def _calls(session: ReplaySession) -> int:
    return len(build_replay_thread(session.threads[0], "left out").calls) if session.threads else 0


def made_up() -> Iterator[ReplaySession]:
    shape = SessionShape(boundaries=0, sidechains=0, images=0)
    with TemporaryDirectory() as folder:
        for tokens, seed in _MADE_UP:
            path = Path(folder, f"made-up-{tokens // 1000}K.jsonl")
            path.write_bytes(b"\n".join(generate_session(seed=seed, tokens=tokens, shape=shape)))
            session = read_session(path)
            if not isinstance(session, ReplaySession):
                raise SystemExit(f"a made-up session cannot be read: {session.why}")
            yield session


def histories(chosen: Sequence[ReplaySession]) -> Iterator[tuple[str, Sequence[Record]]]:
    """The main conversation of each session up to where it would be compacted; none that is too short."""
    for session in chosen:
        records, tokens = _up_to(session, prepare(session).whole[0])
        if tokens >= _SHORTEST_HISTORY:
            yield session.name, records


def _up_to(session: ReplaySession, acts: ReplayThread) -> tuple[list[Record], int]:
    """The records before such a call, and their tokens without the head."""
    cast = prepare(session).thread_models(0, REPLAY_POLICIES["none"])
    records: list[Record] = []
    tokens = 0
    for act in acts.calls:
        costs = cast.costs[act.model]
        more = [*act.before, *act.reply]
        grown = sum(costs.block(block) for record in more for block in record.blocks)
        if cast.preamble.tokens + tokens + grown > _HISTORY_TOKENS:
            # It ends with what answers the last reply, as it does before a call.
            return [*records, *act.before], tokens
        records, tokens = records + more, tokens + grown
    # The last reply is answered by nobody: a compaction comes before a call.
    return records[: len(records) - len(acts.calls[-1].reply)], tokens
