"""Runs tests with one guard broken: a process that has imported what is slow, and forks for each guard.

    one line in    {"module": ..., "source": ..., "becomes": ..., "tests": [...]}
    one line out   {"code": pytest's exit code, "said": the end of its output}

Nothing of everturn is imported before the fork, so the child imports all of it anew, the broken module from
its changed source. No file is written, and the tree that others work in is never changed.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 90
# Imported before the first fork: what nearly every test needs and everturn does not change.
SLOW = (
    "pytest",
    "hypothesis",
    "pytest_asyncio",
    "msgspec",
    "anthropic",
    "httpx2",
    "click",
    "rich.console",
    "sqlite3",
    "anyio.pytest_plugin",
    "hypothesis.stateful",
    "pdb",
    "xml.etree.ElementTree",
)
OPTIONS = (
    "-q",
    "-x",
    "--no-header",
    "--tb=line",
    "--assert=plain",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:randomly",
)
MOVED = 100


class Broken(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds and loads one module, with other source than its file has."""

    def __init__(self, module: str, path: str, source: str) -> None:
        super().__init__(module, path)
        self._source = source

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self)
            if fullname == self.name
            else None
        )

    def get_code(self, fullname: str) -> Any:
        # Past every cache: neither is one used, nor is one written.
        return compile(self._source, self.path, "exec", dont_inherit=True)


def broken(module: str, source: str, becomes: str) -> Broken | str:
    """The module without its guard; or in words why there is none."""
    path = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    if text.count(source) != 1:
        return f"guard moved: {source!r} stands {text.count(source)} times in {module}, and not once"
    return Broken(module, str(path), text.replace(source, becomes))


def run(job: dict[str, Any]) -> dict[str, Any]:
    finder = broken(job["module"], job["source"], job["becomes"])
    if isinstance(finder, str):
        return {"code": MOVED, "said": finder}
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _test(finder, job["tests"], output.fileno())
        code = _waited(child)
        output.seek(0)
        return {"code": code, "said": output.read().decode(errors="replace")[-1_500:]}


def _test(finder: Broken, tests: list[str], output: int) -> None:
    import pytest

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    sys.meta_path.insert(0, finder)
    code = 3
    try:
        code = int(pytest.main([*OPTIONS, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _waited(child: int) -> int:
    """The exit code; -1 where the tests did not come to an end, which notices a guard too."""
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


def main() -> None:
    for name in SLOW:
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "everturn" for name in sys.modules)
    # A child that looks for garbage leaves all this alone; otherwise it takes a third of the child's time.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
