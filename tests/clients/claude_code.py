"""Claude Code's CLI against the unscripted twin: small jobs in a scratch folder, and what happened there.

    PYTHONPATH=tests python -m clients.claude_code --minutes 10        (or `make clients-twin MINUTES=10`)

The CLI is installed from npm into `build/claude-code`. It gets a HOME of its own, an invented key and the
address of the twin. After each job the folder and HOME are compared with what they were before: nothing may
have happened that the user did not ask for. One line for each job: verdict, mode, what was asked, tools,
changed files. It exits with 1 if there was a surprise.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clients.claude_code_jobs import Job, Project, make_jobs, make_project

from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.routes import reset
from everturn.twin.service import Twin

PACKAGE: Final = "@anthropic-ai/claude-code"
HOME: Final = Path("build/claude-code")
JOB_SECONDS: Final = 120
READING_TOOLS: Final = frozenset(("Read", "Glob", "Grep", "LS", "TaskList", "TaskGet", "TaskOutput"))
# Commands of the agent that only read: each part of a pipe begins with one of these.
READING_COMMANDS: Final = (
    "find ",
    "grep ",
    "ls",
    "cat ",
    "head ",
    "tail ",
    "wc ",
    "rg ",
    "sed -n ",
    "sort",
    "true",
)
# What the client keeps for itself in HOME.
CLIENTS_OWN: Final = (
    ".claude",
    ".claude.json",
    ".cache/claude",
    ".local/state/claude",
    ".local/share/claude",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one job did."""

    tools: tuple[str, ...]
    commands: tuple[str, ...]
    changed: frozenset[str]
    problem: str = ""
    said: str = ""


@dataclass(slots=True)
class Tally:
    jobs: int = 0
    surprises: list[str] = field(default_factory=list[str])
    not_done: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="repeat rounds for so long (default: one round)"
    )
    parser.add_argument("--seed", type=int, default=1, help="the first round")
    given = parser.parse_args()
    client = install()
    tally, started = Tally(), time.monotonic()
    twin = build_twin(clock="real")
    with tempfile.TemporaryDirectory(prefix="everturn-clients-") as root, serve_twin(twin) as url:
        seed = given.seed
        while True:
            play_round(client, Path(root), twin, url, seed, tally)
            seed += 1
            if (time.monotonic() - started) / 60 >= given.minutes:
                break
    minutes = (time.monotonic() - started) / 60
    print(
        f"\n{tally.jobs} jobs in {minutes:.0f} minutes: {len(tally.surprises)} surprises, "
        f"{tally.not_done} asked for and not done"
    )
    print("\n".join(tally.surprises))
    return 1 if tally.surprises else 0


def install() -> Path:
    """The CLI, installed from npm if it is not there yet."""
    program = HOME / "node_modules" / ".bin" / "claude"
    if not program.exists():
        if shutil.which("npm") is None:
            raise SystemExit("npm is not installed; Claude Code's CLI is installed with it.")
        HOME.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(HOME), PACKAGE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return program.resolve()


def play_round(client: Path, root: Path, twin: Twin, url: str, seed: int, tally: Tally) -> None:
    reset(twin)
    project = make_project(seed)
    (root / "home").mkdir(exist_ok=True)
    work = root / f"round-{seed}"
    print(f"== round {seed}: {project.file}, {project.function}", flush=True)
    for job in make_jobs(project, seed):
        write_project(work, project)
        before = take_snapshot(root)
        outcome = play_job(client, root, work, twin, url, job, before)
        surprises = list(find_surprises(job, outcome))
        missing = set(job.changes) - outcome.changed
        verdict = "SURPRISE" if surprises else "not done" if missing else "as asked"
        tally.jobs += 1
        tally.not_done += bool(missing)
        options = "".join(f" {each}" for each in job.options)
        print(f"{verdict:<9}{job.mode:<18}{job.asked}{options}")
        changed = ", ".join(sorted(outcome.changed)) or "nothing"
        print(f"{'':9}tools: {', '.join(outcome.tools) or 'none'}; changed: {changed}")
        if surprises or missing:
            print(f"{'':9}commands: {outcome.commands}; it said: {outcome.said[:300]}")
        for each in surprises:
            tally.surprises.append(f"round {seed}, {job.mode}, {job.asked!r}: {each}")
            print(f"{'':9}{each}")
        sys.stdout.flush()
    shutil.rmtree(work)


def write_project(work: Path, project: Project) -> None:
    """The project as it is at the start of every job, in the same folder."""
    shutil.rmtree(work, ignore_errors=True)
    for name, text in project.files.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def take_snapshot(root: Path) -> dict[str, str]:
    """Every file of the scratch folder and of HOME, with a digest of its content."""
    found: dict[str, str] = {}
    for folder, names, files in os.walk(root):
        here = Path(folder).relative_to(root)
        names[:] = [name for name in names if not is_clients_own((here / name).as_posix())]
        for name in files:
            path = (here / name).as_posix()
            if not is_clients_own(path):
                found[path] = hashlib.sha256((root / path).read_bytes()).hexdigest()
    return found


def is_clients_own(path: str) -> bool:
    if path == "tmp":
        return True
    return path.startswith(tuple(f"home/{name}" for name in CLIENTS_OWN))


def play_job(
    client: Path, root: Path, work: Path, twin: Twin, url: str, job: Job, before: Mapping[str, str]
) -> Outcome:
    (root / "tmp").mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "invented",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Some modes are refused to root unless this says that the machine is a sandbox.
        "IS_SANDBOX": "1",
    }
    command = [str(client), "-p", job.asked, "--output-format", "stream-json", "--verbose"]
    command += ["--permission-mode", job.mode, *job.options]
    answered = len(twin.ledger())
    try:
        ended = subprocess.run(
            command,
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=JOB_SECONDS,
        )
        problem = (
            "" if ended.returncode == 0 else f"exit code {ended.returncode}: {ended.stderr[-300:].decode()}"
        )
        events = list(read_events(ended.stdout))
    except subprocess.TimeoutExpired:
        problem, events = f"no end after {JOB_SECONDS} s", []
    refused = [row["error"]["message"] for row in twin.ledger()[answered:] if row["status"] != 200]
    after = take_snapshot(root)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    calls = [call for event in events for call in find_calls(event)]
    return Outcome(
        tools=tuple(call["name"] for call in calls),
        commands=tuple(call["input"].get("command", "") for call in calls if call["name"] == "Bash"),
        changed=frozenset(path.removeprefix(f"{work.name}/") for path in changed),
        problem=problem or (f"refused by the twin: {refused}" if refused else ""),
        said=next((str(event.get("result")) for event in events if event.get("type") == "result"), ""),
    )


def read_events(output: bytes) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def find_calls(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tool calls of an assistant message, those of sub-agents included."""
    if event.get("type") != "assistant":
        return
    yield from (block for block in event["message"]["content"] if block.get("type") == "tool_use")


def find_surprises(job: Job, outcome: Outcome) -> Iterator[str]:
    """What happened that the user did not ask for."""
    if outcome.problem:
        yield outcome.problem
    for path in sorted(outcome.changed):
        if path not in job.changes and not any(part in path for part in job.may_change):
            yield f"{path} changed unasked"
    for name in sorted(set(outcome.tools) - READING_TOOLS - set(job.tools) - {"Bash"}):
        yield f"the tool {name} was called unasked"
    for command in outcome.commands:
        if command not in job.commands and not only_reads(command):
            yield f"the command {command!r} was run unasked"


def only_reads(command: str) -> bool:
    parts = [part.strip() for part in command.replace("&&", "|").replace(";", "|").split("|")]
    return all(part.startswith(READING_COMMANDS) for part in parts if part) and ">" not in command.replace(
        "2>/dev/null", ""
    )


if __name__ == "__main__":
    sys.exit(main())
