"""One warm process for all guards of a test process."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sabotage.guards import Guard

Try = Callable[[Guard], dict[str, Any]]


@pytest.fixture(scope="session")
def without() -> Iterator[Try]:
    """What its tests say when a guard is gone."""
    command = [sys.executable, str(Path(__file__).with_name("warm.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as warm:
        assert warm.stdin is not None
        assert warm.stdout is not None

        def asked(guard: Guard) -> dict[str, Any]:
            print(json.dumps({**guard._asdict(), "tests": list(guard.tests)}), file=warm.stdin, flush=True)
            return json.loads(warm.stdout.readline())

        yield asked
        warm.stdin.close()
