"""All peers, one process each, and the tables: `python -m peers [--part turn] [--into PAGE]`.

A process that fails, hangs or was never installed is a line in the tables. Turns are timed one peer after
the other; the rest runs on two cores.
"""

import argparse
import functools
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from peers import material, tables
from peers.who import EVERTURN, HOME, PEERS, Peer, environment
from peers.work import MAX_CPU_SECONDS, PARTS, Report

_AT_ONCE = {"turn": 1, "dollars": 2, "compaction": 2}
_DRAWN = {
    "turn": tables.turn_table,
    "dollars": tables.dollars_table,
    "compaction": tables.compaction_table,
}


def main(arguments: Sequence[str]) -> int:
    asked = _asked(arguments)
    parts = PARTS if asked.part == "all" else (asked.part,)
    chosen = [peer for peer in PEERS if not asked.peer or peer.name in (EVERTURN.name, *asked.peer)]
    if not asked.data.is_dir() and parts != ("turn",):
        print(f"No recorded sessions in {asked.data}: only made-up ones are played.", flush=True)
    started = time.monotonic()
    reports = {peer.name: Report(peer.name) for peer in chosen}
    for part in parts:
        with ThreadPoolExecutor(_AT_ONCE[part]) as pool:
            started_with = functools.partial(_run, part=part, asked=asked, started=started)
            for found in pool.map(started_with, chosen):
                reports[found.peer].add(found)
    _show(list(reports.values()), parts, asked.into)
    return 0


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers", description="everturn beside its peers.")
    parser.add_argument("--part", choices=("all", *PARTS), default="all")
    parser.add_argument("--peer", action="append", help="only this one beside everturn; can be repeated")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="recorded sessions")
    parser.add_argument("--count", type=int, default=material.DEFAULT_COUNT, help="how many; 0 for all")
    parser.add_argument("--first", type=int, default=0, help="only so many of these, shortest first")
    parser.add_argument("--stored", action="store_true", help="run nothing, draw what the last runs left")
    parser.add_argument("--into", type=Path, help="a page that has places for the tables")
    return parser.parse_args(arguments)


def _run(peer: Peer, part: str, asked: argparse.Namespace, started: float) -> Report:
    """One peer's process, its progress passed on, its end turned into a report whatever it was."""
    if not peer.interpreter.exists():
        why = peer.problem.read_text("utf-8").strip() if peer.problem.exists() else "is not installed"
        return Report(peer.name, problems={peer.name: why})
    out = HOME / f"{peer.name}-{part}.json"
    if asked.stored and out.exists():
        return msgspec.json.decode(out.read_bytes(), type=Report)
    if asked.stored:
        return Report(peer.name, problems={peer.name: f"there is no last run of {part!r}"})
    out.unlink(missing_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    told = [peer.name, str(out), part, str(asked.data), str(asked.count), str(asked.first)]
    command = [str(peer.interpreter), "-m", "peers.work", *told]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    )
    last = ""
    for line in process.stderr or ():
        last = line.strip() or last
        print(f"{time.monotonic() - started:5.0f} s  {peer.name:12} {line.rstrip()[:100]}", flush=True)
    failed = process.wait() != 0
    if process.returncode == -signal.SIGXCPU:
        last = f"needed more than {MAX_CPU_SECONDS} seconds of CPU"
    found = msgspec.json.decode(out.read_bytes(), type=Report) if out.exists() else Report(peer.name)
    if failed or not out.exists():
        found.problems[peer.name] = f"stopped: {last[:160]}"
    return found


def _show(reports: Sequence[Report], parts: Sequence[str], page: Path | None) -> None:
    drawn = dict(_lines(reports, parts))
    for lines in drawn.values():
        print("\n" + "\n".join(lines), flush=True)
    if page is not None:
        text = page.read_text("utf-8")
        for name, lines in drawn.items():
            text = tables.into(text, name, lines)
        page.write_text(text, "utf-8")


def _lines(reports: Sequence[Report], parts: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    machine = f"{implementation}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    for part in parts:
        yield part, [*tables.about(reports, machine), "", *_DRAWN[part](reports).lines()]
    if "dollars" in parts:
        yield "caching", tables.caching_table(reports).lines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
