"""The same jobs with real clients, directly, observed and managed, against the twin.

    PYTHONPATH=tests python -m clients.compare                       (or `make clients`)
    PYTHONPATH=tests python -m clients.compare --only aider --model claude-opus-5-5

A run is judged by what is left in the folder and by what was answered, and its dollars are the twin's. Exits
with 1 if results differ, if a request was passed through, or if a managed long conversation cost more. A
table is written between the marks of its model, which are <!-- clients MODEL --> and <!-- /clients -->.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.request import Request, urlopen

import msgspec
from clients.real_clients import (
    CLIENTS,
    Client,
    CouldNotRun,
    converse,
    find_version,
    install,
    make_environment,
)

from everturn.adapters.tracking import make_parts
from everturn.gateway.app import Gateway, make_gateway
from everturn.gateway.server import serve_gateway
from everturn.gateway.values import GatewaySettings, Mode
from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.service import Twin

DEFAULT_MODEL: Final = "claude-sonnet-4-6"
# Claude Code takes the window of a model for smaller than it is unless it is told, and compacts earlier.
LARGE_WINDOW: Final = "[1m]"
LONG_FILES: Final = 30
SHORT_FILES: Final = 2
FUNCTIONS_PER_FILE: Final = 250
# The record of a request came later than its response, which says so: the machine was busy.
LATE: Final = "a record is late"


class Way(NamedTuple):
    """How a client reaches the API."""

    name: str
    mode: Mode | None = None
    settings: tuple[tuple[str, str], ...] = ()


DIRECT: Final = Way("directly")
OBSERVED: Final = Way("observed", "observe")
MANAGED: Final = Way("managed", "manage")
# Nobody pauses in these jobs, so the cache is never cold. The default limit, 3% or 5 cents above what doing
# nothing costs, then forbids even the first reset, which at worst costs 30 to 40 cents.
ECONOMIC: Final = Way(
    "managed, economic", "manage", (("policy", "economic"), ("economy.above_dollars", "0.50"))
)


class Job(NamedTuple):
    name: str
    files: int
    ways: tuple[Way, ...]

    def sessions(self) -> list[list[str]]:
        """The prompts. Clients that are no programs of their own have one session for all of them."""
        reads = [f"What does src/part_{at:02}.py do?" for at in range(self.files)]
        return [[*reads, *CHANGES]]


CHANGES: Final = (
    "Rename add_totals to sum_all in src/orders.py.",
    "Add the line '- two' to notes.md.",
)


class ClaudeCodeJob(Job):
    """With a sub-agent, with the client's own compaction, and continued by other processes."""

    def sessions(self) -> list[list[str]]:
        (prompts,) = super().sessions()
        reads = prompts[: self.files]
        half = self.files // 2
        agent = "Use a subagent to investigate where add_totals is used."
        return [
            [*reads[:half], agent, *reads[half:]],
            ["/compact"],
            ["What did I ask you earlier?", *reads[: half // 2], CHANGES[0]],
            [CHANGES[1]],
        ]


def make_jobs(client: Client) -> tuple[Job, Job]:
    kind = Job if client.program else ClaudeCodeJob
    short = kind("short", SHORT_FILES, (DIRECT, OBSERVED, MANAGED))
    return short, kind("long", LONG_FILES, (DIRECT, OBSERVED, MANAGED, ECONOMIC))


class Result(NamedTuple):
    """What one run did. `files` and `answers` are compared."""

    answers: list[str]
    files: dict[str, bytes]
    dollars: float
    calls: int
    # The largest context of a call, in tokens.
    largest: int
    compactions: int = 0
    # Requests that the gateway did not understand, and what went wrong there, by reason.
    passed_through: Mapping[str, int] = MappingProxyType({})
    degradations: Mapping[str, int] = MappingProxyType({})
    saved: float = 0.0
    refused: int = 0


class Row(NamedTuple):
    """One job of one client in all ways."""

    client: Client
    version: str
    job: str
    results: dict[str, Result]
    problem: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="the name of one client")
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"default: {DEFAULT_MODEL}")
    parser.add_argument("--into", type=Path, help="write the table into this page")
    given = parser.parse_args()
    rows: list[Row] = []
    for client in CLIENTS:
        if given.only and client.name.lower() != given.only.lower():
            continue
        install(client)
        for row in run_client(client, given.model):
            rows.append(row)
            print("\n".join(describe(row)), flush=True)
    table = "\n".join(make_table(rows, given.model))
    print(f"\n{table}")
    if given.into is not None:
        write_into(given.into, given.model, table)
    problems = [each for row in rows for each in find_problems(row)]
    print("\n".join(problems))
    return 1 if problems else 0


# ── running ──────────────────────────────────────────────────────────────────────────────────────


def run_client(client: Client, model: str) -> Iterator[Row]:
    if client.problem:
        yield Row(client, "", "", {}, client.problem)
        return
    version = find_version(client)
    for job in make_jobs(client):
        results: dict[str, Result] = {}
        try:
            for way in job.ways:
                results[way.name] = run_job(client, job, way, model)
            yield Row(client, version, job.name, results)
        except (CouldNotRun, OSError, ValueError) as problem:
            yield Row(client, version, job.name, results, f"failed {way.name}: {problem}")


def run_job(client: Client, job: Job, way: Way, model: str) -> Result:
    """One run, with a twin and a folder of its own."""
    twin = build_twin(clock="real")
    with tempfile.TemporaryDirectory(prefix="everturn-clients-") as name, serve_twin(twin) as url:
        root = Path(name)
        work = root / "work"
        write_project(work, job.files)
        script_answers(client, job, url)
        gateway = None if way.mode is None else open_gateway(root / "transcripts", url, way)
        if gateway is None:
            answers = talk(client, job, root, url, model)
        else:
            with serve_gateway(gateway) as (address, _):
                answers = talk(client, job, root, address, model)
        return judge(twin, gateway, [answer.replace(name, "") for answer in answers], work)


KEY: Final = "invented"


def talk(client: Client, job: Job, root: Path, url: str, model: str) -> list[str]:
    name = model if client.program else f"{model}{LARGE_WINDOW}"
    return converse(client, root / "work", make_environment(root, url, KEY), name, job.sessions())


def open_gateway(folder: Path, upstream: str, way: Way) -> Gateway:
    assert way.mode is not None
    parts = make_parts(None, config=None, folder=folder, **dict(way.settings))
    return make_gateway(GatewaySettings(parts=parts, upstream=upstream, mode=way.mode))


def write_project(work: Path, files: int) -> None:
    (work / "src").mkdir(parents=True)
    for at in range(files):
        functions = (
            f'def helper_{at}_{n}(value):\n    """Adds {n} to what part {at} was given."""\n'
            f"    return value + {n}\n\n\n"
            for n in range(FUNCTIONS_PER_FILE)
        )
        (work / f"src/part_{at:02}.py").write_text("".join(functions), "utf-8")
    (work / "src/orders.py").write_text("def add_totals(values):\n    return sum(values)\n", "utf-8")
    (work / "notes.md").write_text("# Notes\n\n- one\n", "utf-8")


def script_answers(client: Client, job: Job, url: str) -> None:
    """aider's model has no tools: it answers from what it is shown, and with edits. The twin does not."""
    if client.name != "aider":
        return
    edit = "{}\n```\n<<<<<<< SEARCH\n{}\n=======\n{}\n>>>>>>> REPLACE\n```\n"
    replies = [
        *(
            {
                "content": f"src/part_{at:02}.py defines {FUNCTIONS_PER_FILE} functions. Each of them adds a "
                f"number to what it was given: helper_{at}_0 adds 0, helper_{at}_1 adds 1, and so on.",
                "when": f"What does src/part_{at:02}.py do?",
            }
            for at in range(job.files)
        ),
        {
            "content": edit.format("src/orders.py", "def add_totals(values):", "def sum_all(values):"),
            "when": CHANGES[0],
        },
        {"content": edit.format("notes.md", "- one", "- one\n- two"), "when": CHANGES[1]},
    ]
    body = msgspec.json.encode({"replies": replies})
    with urlopen(Request(f"{url}/twin/script", body, {"content-type": "application/json"})):
        pass


def judge(twin: Twin, gateway: Gateway | None, answers: list[str], work: Path) -> Result:
    rows = [row for row in twin.ledger() if row["endpoint"] == "messages"]
    found = {
        path.relative_to(work).as_posix(): path.read_bytes()
        for path in sorted(work.rglob("*"))
        if path.is_file() and not path.relative_to(work).as_posix().startswith(".")
    }
    result = Result(
        answers=answers,
        files=found,
        dollars=sum(float(row["dollars"] or 0) for row in rows),
        calls=len(rows),
        largest=max((count_context(row["usage"]) for row in rows if row["usage"]), default=0),
        refused=sum(row["status"] != 200 for row in rows),
    )
    if gateway is None:
        return result
    metrics = gateway.metrics
    return result._replace(
        compactions=gateway.tenants.bill.parts["compact"].calls,
        passed_through=metrics.passed_through,
        degradations=metrics.degradations,
        saved=float(metrics.saved),
    )


def count_context(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


# ── judging ──────────────────────────────────────────────────────────────────────────────────────


def find_differences(row: Row) -> Iterator[str]:
    direct = row.results.get(DIRECT.name)
    for name, result in row.results.items():
        if direct is not None and result.files != direct.files:
            yield f"{name}: other files"
        for before, after in zip(direct.answers if direct else (), result.answers, strict=False):
            if before != after:
                yield f"{name}: {before[:200]!r} became {after[:200]!r}"


def find_problems(row: Row) -> Iterator[str]:
    about = f"{row.client.name}, {row.job}"
    if row.problem:
        yield f"{about}: {row.problem}"
    yield from (f"{about}, {each}" for each in find_differences(row))
    for name, result in row.results.items():
        degradations = ((reason, count) for reason, count in result.degradations.items() if reason != LATE)
        for reason, count in (*result.passed_through.items(), *degradations):
            yield f"{about}, {name}: {count} times: {reason}"
        if result.refused:
            yield f"{about}, {name}: {result.refused} requests were refused"
    costs = {name: result.dollars for name, result in row.results.items()}
    if ECONOMIC.name in costs and costs[ECONOMIC.name] >= costs[DIRECT.name]:
        yield f"{about}: ${costs[ECONOMIC.name]:.4f} managed, ${costs[DIRECT.name]:.4f} directly"


def describe(row: Row) -> Iterator[str]:
    yield f"== {row.client.name} {row.version}, {row.job}: {row.problem or 'done'}"
    for name, result in row.results.items():
        yield (
            f"   {name:<18} ${result.dollars:.4f}, {result.calls} calls, largest context {result.largest:,}, "
            f"{result.compactions} summaries, passed through {sum(result.passed_through.values())}, "
            f"estimated saving ${result.saved:.4f}"
        )
    yield from (f"   DIFFERS {each}" for each in find_differences(row))


HEADER: Final = (
    "| client | job | calls | largest context | directly | observed | managed | managed, economic | results "
    "| not understood |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def make_table(rows: Sequence[Row], model: str) -> Iterator[str]:
    yield f"*Run on {datetime.now(UTC).date()} with the model {model}.*"
    yield ""
    yield from HEADER
    for row in rows:
        name = f"{row.client.name} {row.version}".strip()
        if row.problem:
            yield f"| {name} | {row.job} | {row.problem} |" + " |" * 7
            continue
        direct = row.results[DIRECT.name]
        costs = [row.results.get(way.name) for way in (DIRECT, OBSERVED, MANAGED, ECONOMIC)]
        money = " | ".join(f"${each.dollars:.3f}" if each else "" for each in costs)
        verdict = "differ" if any(find_differences(row)) else "equal"
        passed = sum(sum(each.passed_through.values()) for each in row.results.values())
        yield (
            f"| {name} | {row.job} | {direct.calls} | {direct.largest:,} | {money} | {verdict} | {passed} |"
        )


def write_into(page: Path, model: str, table: str) -> None:
    text, mark = page.read_text("utf-8"), f"<!-- clients {model} -->\n"
    between = re.compile(f"({re.escape(mark)}).*?(<!-- /clients -->)", re.DOTALL)
    if not between.search(text):
        raise SystemExit(f"{page} has no {mark.strip()} and <!-- /clients --> to write between.")
    page.write_text(between.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
