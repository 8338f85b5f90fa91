"""Runs tests in forked processes: the fork of a mutant starts where all tests are collected already.

    HotTests     has imported everything and collected all tests. A fork replaces the code of one function and
                 runs the tests that it is told. Most mutants take a fraction of a second.
    run_cold     for what an import runs (constants, defaults, class bodies): a fork that has imported nothing
                 of the package yet imports the mutant instead of the module.

The mutant is in the memory of its own process only. The tree itself is a copy, so that whoever edits the
original during a long run changes nothing here.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, Literal, NamedTuple

import pytest
from mutation.hits import MappedTest, MarkingFinder, Marks, MutantFinder
from mutation.mutants import Owner

Outcome = Literal["killed", "survived", "hung", "crashed", "unusable"]
OPTIONS: Final = (
    "-q", "--no-header", "--tb=no", "--assert=plain",
    "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly",
)  # fmt: skip
# How much longer than without it the tests of a mutant may take, in processor time: the machine may be busy.
SECONDS_AT_LEAST: Final = 10.0
TIMES: Final = 3.0
# For those that wait instead of computing.
WALL_TIMES: Final = 20.0
# Slower tests are not asked: they are not the nearest ones.
MAX_TEST_SECONDS: Final = 3.0
MAX_MEMORY: Final = 6 * 2**30


class Tree(NamedTuple):
    """A copy of a repository: `src` and `tests` below one root."""

    root: Path
    tests: tuple[str, ...]
    # Where pytest puts temporary folders.
    scratch: Path


class Job(NamedTuple):
    """Tests to be run, in this order; with a changed module, or with none."""

    tests: list[str]
    seconds: float
    module: str = ""
    path: str = ""
    source: str = ""
    owner: Owner | None = None

    @property
    def cpu_limit(self) -> int:
        return int(SECONDS_AT_LEAST + TIMES * self.seconds) + 1


class Result(NamedTuple):
    outcome: Outcome
    # The test that failed, or what went wrong.
    by: str = ""


class Patching(Exception):
    """The code cannot be replaced in a running process."""


# ── in the fork ──


class _Reports:
    """Ends the process at the first failure, and says which test it was."""

    def __init__(self, answer: Callable[[Result], None]) -> None:
        self._answer = answer

    def pytest_collection(self) -> None:
        _use_plain_examples()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._answer(Result("killed", report.nodeid))
            os._exit(1)


class _Wanted(_Reports):
    """Of what was collected, only the wanted tests, in their order."""

    def __init__(self, answer: Callable[[Result], None], tests: Sequence[str]) -> None:
        super().__init__(answer)
        self._rank = {name: at for at, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._rank), key=lambda i: self._rank[i.nodeid])


def _use_plain_examples() -> None:
    """The same examples for every mutant: none remembered from another one, none made smaller."""
    from hypothesis import Phase, settings

    plain = settings(database=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
    settings.register_profile("mutants", plain)
    settings.load_profile("mutants")


def _enter(tree: Tree) -> None:
    os.chdir(tree.root)
    here = [str(tree.root / "src"), str(tree.root / "tests")]
    # `mutation` itself may stem from another tree; nothing else is taken from there.
    sys.path[:] = here + [each for each in sys.path if Path(each).name not in ("src", "tests", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(here)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    log = os.open(tree.scratch / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _limit(cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_fork(
    work: Callable[[Callable[[Any], None]], None], wall_seconds: float | None = None
) -> tuple[int, bytes]:
    """What a forked process answered, and its exit code; -9 if it had to be ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        code = 3
        try:
            os.setsid()
            work(lambda answer: _write_all(write, json.dumps(answer).encode()))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    os.close(write)
    return _wait(child, read, wall_seconds)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _wait(child: int, read: int, wall_seconds: float | None) -> tuple[int, bytes]:
    """Reads until the process and all that it started have closed the pipe, or the time is over."""
    ends = time.monotonic() + (wall_seconds or 10**9)
    said = b""
    try:
        while True:
            ready = select.select([read], [], [], min(1.0, max(0.0, ends - time.monotonic())))[0]
            part = os.read(read, 2**20) if ready else None
            said += part or b""
            done, status = os.waitpid(child, 0 if part == b"" else os.WNOHANG)
            if done:
                while select.select([read], [], [], 0)[0] and (part := os.read(read, 2**20)):
                    said += part
                return os.waitstatus_to_exitcode(status), said
            if time.monotonic() > ends:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return -signal.SIGKILL, said
    except BaseException:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    finally:
        os.close(read)


def result_of(code: int, said: bytes) -> Result:
    if said:
        return Result(*json.loads(said))
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return Result("hung", "time limit")
    return Result("survived") if code == 0 else Result("crashed", f"exit code {code}")


# ── cold ──


def run_cold(tree: Tree, job: Job) -> Result:
    def work(answer: Callable[[Any], None]) -> None:
        _enter(tree)
        _limit(job.cpu_limit + COLLECTING)
        sys.meta_path.insert(0, MutantFinder(job.module, job.path, job.source))
        files = list(dict.fromkeys(name.partition("::")[0] for name in job.tests))
        code = pytest.main(
            [*OPTIONS, f"--basetemp={tree.scratch / 'cold'}", *files], [_Wanted(answer, job.tests)]
        )
        if code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            answer(Result("killed", "the tests cannot be imported"))
        elif code == pytest.ExitCode.NO_TESTS_COLLECTED:
            answer(Result("survived", "the tests are not there any more"))

    return result_of(*in_fork(work, (job.cpu_limit + COLLECTING) * WALL_TIMES))


# Processor time for the imports of a cold start.
COLLECTING: Final = 30


# ── hot ──


class _Server(_Reports):
    """In the process that has collected all tests: forks for each job."""

    def __init__(self, jobs: int, answers: int, run: Callable[[Any, dict[str, Any], Any], None]) -> None:
        super().__init__(lambda result: self._answer_of_fork(result))
        self._jobs, self._answers, self._run = os.fdopen(jobs), answers, run
        self._answer_of_fork: Callable[[Any], None] = lambda _: None

    def pytest_runtestloop(self, session: Any) -> bool:
        self._import_what_tests_import(session)
        functions = live_functions(Path.cwd() / "src")
        gc.collect()
        gc.freeze()
        collected = list(dict.fromkeys(item.nodeid for item in session.items))
        _write_all(self._answers, json.dumps(collected).encode() + b"\n")
        for line in self._jobs:
            job = json.loads(line)

            def work(answer: Callable[[Any], None], job: dict[str, Any] = job) -> None:
                self._answer_of_fork = answer
                job["functions"] = functions
                self._run(session, job, answer)

            code, said = in_fork(work, job["wall"])
            _write_all(self._answers, json.dumps([code, said.decode()]).encode() + b"\n")
        return True

    def _import_what_tests_import(self, session: Any) -> None:
        """Fixtures of all tests import modules when the first test runs: once here, not in every fork."""

        def work(answer: Callable[[Any], None]) -> None:
            before = set(sys.modules)
            for _ in _run_items(session, [session.items[0].nodeid]):
                pass
            answer([name for name in sys.modules if name not in before])

        for name in json.loads(in_fork(work)[1] or b"[]"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _run_items(session: Any, names: Sequence[str]) -> Iterator[Any]:
    """Runs these tests, one for each step."""
    by_name = {item.nodeid: item for item in session.items}
    items = [by_name[name] for name in names]
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item


def _run_job(session: Any, job: dict[str, Any], answer: Callable[[Any], None]) -> None:
    _limit(job["cpu"])
    if job["source"]:
        try:
            replace_code(job["functions"], job["path"], job["source"], Owner(*job["owner"]))
        except Patching as error:
            answer(Result("unusable", str(error)))
            return
    for _ in _run_items(session, job["tests"]):
        pass


Functions = dict[tuple[str, str, int], list[FunctionType]]


def live_functions(below: Path) -> Functions:
    found: Functions = {}
    # What `tests/conftest.py` froze is not listed.
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(below)):
            code = each.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(each)
    return found


def replace_code(functions: Functions, path: str, source: str, owner: Owner) -> None:
    """From now on the function runs what this source says."""
    module = compile(source, path, "exec", dont_inherit=True)
    code = next((each for each in _codes(module) if (each.co_qualname, each.co_firstlineno) == owner), None)
    live = functions.get((path, owner.qualname, owner.line), [])
    if code is None or not live:
        raise Patching(f"{owner.qualname} is not there")
    for function in live:
        if function.__code__.co_freevars != code.co_freevars:
            raise Patching(f"{owner.qualname} closes over other names")
        function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


class _Warm:
    """A process that has collected the tests, and how to talk to it."""

    def __init__(
        self, tree: Tree, run: Callable[[Any, dict[str, Any], Any], None], finder: Any = None
    ) -> None:
        jobs, self._jobs = os.pipe()
        answers, out = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._jobs)
            os.close(answers)
            try:
                _enter(tree)
                if finder is not None:
                    sys.meta_path.insert(0, finder)
                arguments = [*OPTIONS, f"--basetemp={tree.scratch / 'warm'}", *tree.tests]
                pytest.main(arguments, [_Server(jobs, out, run)])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(jobs)
        os.close(out)
        self._answers = os.fdopen(answers)
        self.collected: list[str] = self._read(tree)

    def _read(self, tree: Tree) -> Any:
        line = self._answers.readline()
        if not line:
            said = (tree.scratch / "output.txt").read_text(errors="replace")[-3_000:]
            raise SystemExit(f"The tests cannot be collected:\n{said}")
        return json.loads(line)

    def ask(self, tree: Tree, job: dict[str, Any]) -> tuple[int, bytes]:
        _write_all(self._jobs, json.dumps(job).encode() + b"\n")
        code, said = self._read(tree)
        return code, said.encode()

    def close(self) -> None:
        os.close(self._jobs)
        self._answers.close()
        os.waitpid(self._pid, 0)


class HotTests:
    """Runs tests with the code of one function replaced."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._warm = _Warm(tree, _run_job)

    def run(self, job: Job) -> Result:
        limit = job.cpu_limit
        asked = {**job._asdict(), "cpu": limit, "wall": limit * WALL_TIMES}
        return result_of(*self._warm.ask(self._tree, asked))

    def close(self) -> None:
        self._warm.close()


class MappingTests:
    """Runs whole test files, and says which statements each test runs."""

    def __init__(self, tree: Tree, sources: dict[str, tuple[str, str]]) -> None:
        self._tree, self._marks = tree, Marks()
        self._warm = _Warm(tree, self._run_file, MarkingFinder(sources, self._marks))
        self.files: dict[str, list[str]] = {}
        for name in self._warm.collected:
            self.files.setdefault(name.partition("::")[0], []).append(name)

    def at_import(self) -> MappedTest:
        """What imports and the collection have run, as if it were a test."""
        _, said = self._warm.ask(self._tree, {"tests": [], "wall": None})
        return MappedTest(*json.loads(said)[0])

    def run(self, test_file: str) -> list[MappedTest]:
        code, said = self._warm.ask(self._tree, {"tests": self.files.get(test_file, []), "wall": None})
        if code != 0:
            raise SystemExit(f"{test_file} ended with exit code {code}")
        return [MappedTest(*row) for row in json.loads(said)[1:]]

    def close(self) -> None:
        self._warm.close()

    def _run_file(self, session: Any, job: dict[str, Any], answer: Callable[[Any], None]) -> None:
        marks = self._marks
        watch = _Watch(marks)
        session.config.pluginmanager.unregister(
            next(each for each in session.config.pluginmanager.get_plugins() if isinstance(each, _Server))
        )
        session.config.pluginmanager.register(watch)
        rows = [MappedTest("", True, 0.0, marks.lines(marks.take()))]
        began = time.process_time()
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, MAX_TEST_SECONDS)
        for item in _run_items(session, job["tests"]):
            signal.setitimer(signal.ITIMER_PROF, MAX_TEST_SECONDS)
            lines = marks.lines(marks.take() | watch.of_fixtures(item))
            rows.append(
                MappedTest(item.nodeid, item.nodeid not in watch.failed, time.process_time() - began, lines)
            )
            began = time.process_time()
        answer(rows)


class _TooSlow(BaseException):
    """Not an exception that a test would expect."""


def _stop(*_: object) -> None:
    raise _TooSlow


class _Watch:
    """What failed, and what fixtures ran: it counts for each test that uses them."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._by_fixture: dict[Any, set[int]] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self._marks.take()
        try:
            return (yield)
        finally:
            made = self._by_fixture[fixturedef] = self._marks.take()
            self._marks.put_back(before | made)

    def of_fixtures(self, item: Any) -> set[int]:
        used = getattr(item, "_request", None)
        found = used._fixture_defs.values() if used else ()
        return {mark for each in found for mark in self._by_fixture.get(each, ())}
