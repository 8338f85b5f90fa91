"""The work of one peer, in a process of its own: `python -m peers.work PEER OUT PARTS DATA COUNT FIRST`.

Whatever a peer prints, logs or breaks stays in this process; what was measured is written to OUT as JSON.
"""

import importlib
import logging
import resource
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

import everturn
from everturn.replay.policies import parse_policy
from everturn.replay.sessions import ReplaySession
from everturn.replay.simulate import index_uses, simulate
from peers import material
from peers.compacting import Survived, survived
from peers.keeping import Kind
from peers.ours import POLICIES
from peers.playing import Played, play
from peers.turn import Speed, speeds
from peers.who import BY_NAME, Peer

PARTS = ("turn", "dollars", "compaction")
# For one peer and one part. CPU time, so that a busy machine does not cut off a peer; all but litellm need
# less than a quarter of it.
MAX_CPU_SECONDS = 900


class Report(msgspec.Struct):
    """What one peer's process found. `problems` are by the name of the way of keeping, or of the peer."""

    peer: str
    versions: dict[str, str] = {}
    caches: dict[str, str] = {}
    speeds: list[Speed] = []
    played: list[Played] = []
    survived: list[Survived] = []
    problems: dict[str, str] = {}

    def add(self, other: "Report") -> None:
        self.versions |= other.versions
        self.caches |= other.caches
        self.problems |= other.problems
        self.speeds += other.speeds
        self.played += other.played
        self.survived += other.survived


def work(
    peer: Peer, parts: Sequence[str], data: Path, count: int, first: int, save: Callable[[Report], None]
) -> Report:
    """`first` are the sessions to play of those that are chosen, 0 for all of them. `save` is called after
    each, so that a peer that is too slow for all of them has some.
    """
    driver: Any = importlib.import_module(f"peers.{peer.module}") if peer.module else None
    kinds: tuple[Kind, ...] = driver.KINDS if driver else ()
    versions = dict(_versions(driver.PACKAGES)) if driver else {"everturn": everturn.__version__}
    report = Report(peer.name, versions=versions)
    report.caches = {kind.name: kind.caches for kind in kinds}
    if "turn" in parts:
        timed = tuple(kind for kind in kinds if kind.is_timed)
        report.speeds += speeds(timed, _tell) if timed or not driver else ()
    elif hasattr(driver, "hasten"):
        driver.hasten()
    chosen = [*material.recorded(data, count), *material.made_up()] if set(parts) - {"turn"} else []
    chosen = chosen[: first or None]
    if "dollars" in parts:
        for number, session in enumerate(chosen, start=1):
            _tell(f"session {number} of {len(chosen)}: {session.name}")
            playing = [kind for kind in kinds if number <= (kind.most_sessions or number)]
            report.played += _theirs(playing, session, report) if driver else _ours(session)
            save(report)
    if "compaction" in parts:
        report.survived += survived(kinds, list(material.histories(chosen)), _tell, is_ours=not driver)
    return report


def _ours(session: ReplaySession) -> Iterator[Played]:
    uses = index_uses(session)
    for name in POLICIES:
        run = simulate(session, parse_policy(name), uses)
        yield Played(msgspec.structs.replace(run, policy=f"everturn {name}"))


def _theirs(kinds: Sequence[Kind], session: ReplaySession, report: Report) -> Iterator[Played]:
    uses = index_uses(session)
    for kind in kinds:
        if kind.name in report.problems:
            continue
        try:
            yield play(session, kind, uses)
        # Whatever stops a peer is its result, and is shown; its other ways of keeping go on.
        except Exception as reason:
            what = f"{type(reason).__name__}: {reason}".splitlines()[0]
            report.problems[kind.name] = f"stopped at {session.name}: {what[:160]}"
            report.played = [each for each in report.played if each.run.policy != kind.name]


def _versions(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    name, out, parts, data, count, first = arguments
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 10))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)

    def save(report: Report) -> None:
        Path(out).write_bytes(msgspec.json.encode(report))

    save(work(BY_NAME[name], parts.split(","), Path(data), int(count), int(first), save))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
