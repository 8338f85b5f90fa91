"""Draws refetches of recorded sessions for judging by hand, and prints them as Markdown (RP-14).

    python -m everturn.replay.refetches.sample FOLDER [--seed N] [--count N] [--policy NAME,...]
        [--verdicts FILE] ... [--without FILE] ...

The draw depends on the seed alone: the same number for each policy and tier, at most six of a session. A
file of verdicts has one line for each item, separated by tabs: its key, `real`, `false` or `unclear`, and the
reason. What the files of `--without` have judged is not drawn, so that a new sample is another one.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import cycle
from math import sqrt
from pathlib import Path
from typing import Final

import msgspec

from everturn.history.blocks import text_of
from everturn.history.records import Record
from everturn.replay.policies import parse_policy
from everturn.replay.refetches.outputs import block_text, thinking_text
from everturn.replay.refetches.visibility import Refetch
from everturn.replay.sessions import ReplaySession, read_sessions
from everturn.replay.simulate import index_uses, simulate
from everturn.safe_files import read_file

POLICIES: Final = ("claude-code", "sliding-window", "clear-keep-3", "frugal")
MAX_OF_SESSION: Final = 6
_AROUND: Final = 60
_HOME: Final = re.compile(r"/(?:Users|home)/[\w.-]+")


class DrawnRefetch(msgspec.Struct, frozen=True):
    """One refetch, with where the string was and where it was used."""

    key: str
    session: str
    policy: str
    thread: str
    call: int
    refetch: Refetch
    holder: str
    output: str


def collect(sessions: Iterable[ReplaySession], policies: Sequence[str] = POLICIES) -> list[DrawnRefetch]:
    found: list[DrawnRefetch] = []
    for session in sessions:
        uses = index_uses(session)
        records = {record.uuid: record for thread in session.threads for record in thread.records}
        replies = _replies(session)
        for policy in policies:
            for call in simulate(session, parse_policy(policy), uses).calls:
                said = replies.get((call.thread, call.number), "")
                found += [
                    DrawnRefetch(
                        _key(session.name, call.thread, call.number, refetch.block, refetch.what),
                        session.name,
                        policy,
                        call.thread,
                        call.number,
                        refetch,
                        _around(_text_of(records.get(refetch.block.rpartition(":")[0])), refetch.what),
                        _around(said, refetch.what),
                    )
                    for refetch in call.refetches
                ]
    return found


def draw(found: Sequence[DrawnRefetch], *, seed: int, count: int) -> list[DrawnRefetch]:
    """`count` of each tier: policies in turn, at most six of a session, each use once."""
    drawn: list[DrawnRefetch] = []
    for tier in (1, 2):
        by_policy: dict[str, list[DrawnRefetch]] = {}
        for each in found:
            if each.refetch.tier == tier:
                by_policy.setdefault(each.policy, []).append(each)
        for number, each in enumerate(sorted(by_policy)):
            random.Random(seed * 100 + tier * 10 + number).shuffle(by_policy[each])
        drawn += _take(by_policy, count)
    return drawn


def _take(by_policy: Mapping[str, list[DrawnRefetch]], count: int) -> list[DrawnRefetch]:
    taken: list[DrawnRefetch] = []
    of_session: Counter[str] = Counter()
    seen: set[tuple[str, str, int, str]] = set()
    waiting = {policy: iter(items) for policy, items in sorted(by_policy.items())}
    for policy in cycle(tuple(waiting)):
        if len(taken) == count or not waiting:
            return taken
        if policy not in waiting:
            continue
        for each in waiting[policy]:
            use = each.session, each.thread, each.call, each.refetch.what
            if of_session[each.session] < MAX_OF_SESSION and use not in seen:
                seen.add(use)
                of_session[each.session] += 1
                taken.append(each)
                break
        else:
            del waiting[policy]
    return taken


def read_verdicts(text: str) -> dict[str, tuple[str, str]]:
    """Verdict and reason by key."""
    rows = (line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {key: (verdict, reason) for key, verdict, reason in rows}


def report(drawn: Sequence[DrawnRefetch], verdicts: Mapping[str, tuple[str, str]]) -> str:
    lines: list[str] = []
    for tier in (1, 2):
        items = [each for each in drawn if each.refetch.tier == tier]
        lines += [f"### Tier {tier}: {_summary(items, verdicts)}", ""]
        lines += ["| key | policy | call | kind | string | holder | output | verdict | reason |"]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        for each in items:
            verdict, reason = verdicts.get(each.key, ("", ""))
            cells = (
                each.key, each.policy, f"{each.session[:12]} {each.call}", each.refetch.kind,
                each.refetch.what, each.holder, each.output, verdict, reason,
            )  # fmt: skip
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _summary(items: Sequence[DrawnRefetch], verdicts: Mapping[str, tuple[str, str]]) -> str:
    """Lenient counts what is unclear as real, harsh does not; with 95 % intervals (Wilson)."""
    known = [verdicts[each.key][0] for each in items if each.key in verdicts]
    if not known:
        return f"{len(items)} drawn, not judged"
    real, unclear = known.count("real"), known.count("unclear")
    said = [
        f"{name} {good} of {len(known)} ({low:.0%} to {high:.0%})"
        for name, good in (("lenient", real + unclear), ("harsh", real))
        for low, high in (wilson(good, len(known)),)
    ]
    return f"{len(items)} drawn, {len(known)} judged; {', '.join(said)}"


def wilson(good: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    z, share = 1.96, good / count
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    spread = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - spread) / scale, (middle + spread) / scale


def _key(*parts: object) -> str:
    """The same use has the same key under every policy, so that a verdict stays valid."""
    return blake2b(repr(parts).encode(), digest_size=4).hexdigest()


def _replies(session: ReplaySession) -> dict[tuple[str, int], str]:
    from everturn.replay.playing.steps import build_replay_thread

    threads = (build_replay_thread(thread, "left out") for thread in session.threads)
    return {
        (thread.name, step.number): "\n".join(_said(record) for record in step.reply)
        for thread in threads
        for step in thread.calls
    }


def _said(record: Record) -> str:
    return "\n".join(
        thinking_text(block)
        if block.is_thinking
        else f"[{block.tool}] {block_text(block)}"
        if block.is_call
        else text_of(block)
        for block in record.blocks
    )


def _text_of(record: Record | None) -> str:
    return "\n".join(map(block_text, record.blocks)) if record is not None else ""


def _around(text: str, what: str) -> str:
    """The string with a few words around it, on one line."""
    at = max(0, text.casefold().find(what.casefold()))
    return " ".join(text[max(0, at - _AROUND) : at + len(what) + _AROUND].split())


def _cell(text: object) -> str:
    return _HOME.sub("~", str(text)).replace("|", "\\|").replace("`", "'")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m everturn.replay.refetches.sample")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--policy", default=",".join(POLICIES))
    for name in ("--verdicts", "--without"):
        parser.add_argument(name, type=Path, action="append", default=[])
    given = parser.parse_args(arguments)
    verdicts = _read_verdict_files(given.verdicts)
    known = _read_verdict_files(given.without)
    sessions = (each for each in read_sessions(given.folders) if isinstance(each, ReplaySession))
    found = [each for each in collect(sessions, given.policy.split(",")) if each.key not in known]
    print(report(draw(found, seed=given.seed, count=given.count), verdicts))
    return 0


def _read_verdict_files(files: Iterable[Path]) -> dict[str, tuple[str, str]]:
    return read_verdicts("\n".join(read_file(file).decode("utf-8") for file in files))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
