"""Checks the installation: what was checked, what is wrong, how to fix it.

Changes nothing. Runs the status line once, as Claude Code does.
"""

import json
import os
import shlex
import sqlite3
import stat
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.adapters.claude_code.compaction_marker import state_folder
from everturn.adapters.claude_code.settings import files
from everturn.adapters.claude_code.settings.entries import (
    NAME,
    STATUS_LINE,
    calls_us,
    check_settings,
    handlers_of,
    is_our_handler,
    is_our_status_line,
)
from everturn.errors import EverturnError
from everturn.processes import find_program, minimal_environment, run_process
from everturn.session.transcripts import SUFFIX

MIN_PYTHON: Final = (3, 11)
# The package that shows whether an extra is installed.
EXTRAS: Final[Mapping[str, str]] = {
    "twin": "uvicorn", "anthropic": "anthropic", "langchain": "langchain", "pydantic-ai": "pydantic_ai",
    "mcp": "mcp", "watch": "watchfiles", "otel": "opentelemetry", "metrics": "prometheus_client",
    "gateway": "aiohttp", "dashboard": "watchfiles", "postgres": "asyncpg",
}  # fmt: skip
SAMPLE: Final = {
    "model": {"id": "claude-sonnet-5-5", "display_name": "Sonnet 5.5"},
    "context_window": {"context_window_size": 200_000, "used_percentage": 42},
    "cost": {"total_cost_usd": 1.25},
}
# Checks of installed entries; if none of them ran, everturn is not installed in Claude Code.
INSTALLED_CHECKS: Final = ("status line", "hooks", "MCP server")
SAMPLE_TIMEOUT_SECONDS: Final = 10
# Claude Code drops a status line that takes longer (ecosystem 0.7).
MAX_STATUS_LINE_SECONDS: Final = 0.3
GROUP_AND_OTHERS_MODE: Final = stat.S_IRWXG | stat.S_IRWXO


class DoctorCheck(msgspec.Struct, frozen=True):
    """The result of one check. Only the state "wrong" is an error; a "note" is information."""

    name: str
    state: Literal["ok", "note", "wrong"]
    what: str
    to_do: str = ""


def run_checks(environment: Mapping[str, str], project: str, version: str) -> tuple[DoctorCheck, ...]:
    """Run all checks."""
    found = [_python(), DoctorCheck("everturn", "ok", version), _sqlite(), _extras()]
    for name, path in _places(environment, project).items():
        found.extend(_settings(name, path, _Callers(environment, project, is_own=name.startswith("user"))))
    if not any(each.name in INSTALLED_CHECKS for each in found):
        to_do = "`everturn install claude-code` sets it up"
        found.append(DoctorCheck("Claude Code", "note", "everturn is not in its settings", to_do))
    found.append(_transcripts(files.transcripts_folder(environment)))
    data = environment.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    found.append(_private("hook files", state_folder(environment)))
    found.append(_private("sessions", os.path.join(data, "everturn")))
    return tuple(found)


def _places(environment: Mapping[str, str], project: str) -> dict[str, str]:
    """The settings files of Claude Code. In the home directory, project and user files are the same."""
    places = {
        "user settings": files.user_settings(environment),
        "user servers": files.user_servers(environment),
        "project settings": files.project_settings(project),
        "project servers": files.project_servers(project),
    }
    return {name: path for path, name in {path: name for name, path in reversed(places.items())}.items()}


def _python() -> DoctorCheck:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info >= MIN_PYTHON:
        return DoctorCheck("python", "ok", f"{version} at {sys.executable}")
    needed = ".".join(str(part) for part in MIN_PYTHON)
    return DoctorCheck(
        "python", "wrong", f"{version} is too old", f"install everturn with python {needed} or newer"
    )


def _sqlite() -> DoctorCheck:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("create virtual table words using fts5(word)")
    except sqlite3.OperationalError as problem:
        to_do = "`everturn recall` needs a Python whose SQLite has FTS5, such as the one from python.org"
        return DoctorCheck(
            "sqlite", "wrong", f"{sqlite3.sqlite_version} without full-text search ({problem})", to_do
        )
    finally:
        connection.close()
    return DoctorCheck("sqlite", "ok", f"{sqlite3.sqlite_version} with full-text search")


def _extras() -> DoctorCheck:
    there = [extra for extra, package in EXTRAS.items() if find_spec(package)]
    missing = [extra for extra in EXTRAS if extra not in there]
    what = f"installed: {', '.join(there) or 'none'}"
    if not missing:
        return DoctorCheck("extras", "ok", what)
    to_do = f"install with `pip install 'everturn[NAME]'`: {', '.join(missing)}"
    return DoctorCheck("extras", "note", what, to_do)


class _Callers(NamedTuple):
    """Whose settings call the programs. A project's may have been written by a stranger."""

    environment: Mapping[str, str]
    project: str
    is_own: bool

    def find(self, program: str) -> str:
        """The program; "" if there is none. A name is not looked for in the current folder."""
        outside = "" if os.path.dirname(program) else self.project
        return find_program(program, self.environment.get("PATH", ""), outside=outside)

    def may_run(self, command: list[str]) -> bool:
        """Whatever the user's own settings call runs anyway; of a project's only this everturn itself."""
        if self.is_own:
            return True
        found = os.path.realpath(self.find(command[0]))
        return found in (os.path.realpath(each) for each in _own_programs())


def _own_programs() -> tuple[str, ...]:
    """Where the scripts of this installation are."""
    return os.path.abspath(sys.argv[0]), os.path.join(sysconfig.get_path("scripts"), NAME)


def _settings(name: str, path: str, callers: _Callers) -> Iterator[DoctorCheck]:
    try:
        file = files.read_settings_file(path)
        if file.data is None:
            return
        check_settings(file.text, file.display_path)
    except EverturnError as problem:
        yield DoctorCheck(name, "wrong", str(problem), "Claude Code cannot read this file either: correct it")
        return
    yield DoctorCheck(name, "ok", file.display_path)
    settings = json.loads(file.text)
    line = settings.get(STATUS_LINE)
    if is_our_status_line(line):
        yield _status_line(shlex.split(line["command"]), callers)
    if called := _called_by_hooks(settings):
        yield _programs("hooks", called, callers)
    server = settings.get("mcpServers", {}).get(NAME)
    if calls_us(server, "mcp"):
        yield _programs("MCP server", {NAME: server["command"]}, callers)


def _called_by_hooks(settings: dict[str, Any]) -> dict[str, str]:
    """The program that each of our hooks calls, by event."""
    groups = settings.get("hooks", {})
    return {
        event: handler["command"]
        for event, entries in groups.items()
        for group in entries
        for handler in handlers_of(group)
        if is_our_handler(handler)
    }


def _programs(name: str, called: Mapping[str, str], callers: _Callers) -> DoctorCheck:
    for program in called.values():
        if not callers.find(program):
            return _not_found(name, program)
    return DoctorCheck(name, "ok", ", ".join(called))


def _not_found(name: str, program: str) -> DoctorCheck:
    where = "that file does not exist" if os.path.dirname(program) else "it is not on the PATH"
    to_do = "run `everturn install claude-code` again with the same options to update the path"
    return DoctorCheck(name, "wrong", f"the settings call {program}, but {where}", to_do)


def _status_line(command: list[str], callers: _Callers) -> DoctorCheck:
    program = callers.find(command[0])
    if not program:
        return _not_found("status line", command[0])
    if not callers.may_run(command):
        what = f"the project's settings call {program}, which was not run: it is not this everturn"
        return DoctorCheck("status line", "note", what, "look at it before you let Claude Code run it")
    start = time.perf_counter()
    try:
        done = run_process(
            [program, *command[1:]],
            environment=minimal_environment(callers.environment) | {"NO_COLOR": "1"},
            seconds=SAMPLE_TIMEOUT_SECONDS,
            given=json.dumps(SAMPLE).encode(),
        )
    except OSError as problem:
        return DoctorCheck(
            "status line", "wrong", f"{shlex.join(command)} does not run: {problem}", "reinstall everturn"
        )
    took = time.perf_counter() - start
    line = done.output.decode(errors="replace").strip()
    if done.is_late:
        what = f"{shlex.join(command)} takes longer than {SAMPLE_TIMEOUT_SECONDS} s"
        return DoctorCheck("status line", "wrong", what, "reinstall everturn")
    if done.code or not line:
        said = done.errors.decode(errors="replace").strip()[-300:] or "no output"
        return DoctorCheck(
            "status line", "wrong", f"{shlex.join(command)} fails: {said}", "reinstall everturn"
        )
    if took > MAX_STATUS_LINE_SECONDS:
        to_do = "Claude Code may drop it; the disk may be slow or the machine busy: run doctor again"
        return DoctorCheck("status line", "note", f"prints {line!r}, but took {took * 1_000:.0f} ms", to_do)
    return DoctorCheck("status line", "ok", f"prints {line!r} in {took * 1_000:.0f} ms")


def _transcripts(folder: str) -> DoctorCheck:
    if not os.path.isdir(folder):
        return DoctorCheck(
            "transcripts",
            "note",
            f"folder not found: {folder}",
            "Claude Code creates it with the first session",
        )
    paths = [
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(SUFFIX)
    ]
    closed = [path for path in paths if not os.access(path, os.R_OK)]
    if closed:
        to_do = "check their owner (ls -l); `everturn audit` and the status line cannot read them"
        return DoctorCheck(
            "transcripts",
            "wrong",
            f"{len(closed)} of {len(paths)} are not readable, for example {closed[0]}",
            to_do,
        )
    return DoctorCheck("transcripts", "ok", f"{len(paths)} in {folder}")


def _private(name: str, path: str) -> DoctorCheck:
    """Session data must be readable by its owner only."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return DoctorCheck(name, "ok", f"none yet ({path})")
    if mode & GROUP_AND_OTHERS_MODE:
        what = f"other users can read {path} (mode {mode:o})"
        return DoctorCheck(name, "wrong", what, f"chmod 700 {shlex.quote(path)}")
    if not os.access(path, os.W_OK | os.X_OK):
        return DoctorCheck(
            name, "wrong", f"{path} is not writable (mode {mode:o})", "check its owner (ls -ld)"
        )
    return DoctorCheck(name, "ok", f"{path}, private")
