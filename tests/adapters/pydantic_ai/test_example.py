"""The example runs without a key, and says what it talks to."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "pydantic_ai_agent.py"


def test_the_example_runs_against_the_twin_and_says_so():
    environment = {name: value for name, value in os.environ.items() if name != "ANTHROPIC_API_KEY"}
    command = [sys.executable, "-W", "error", str(EXAMPLE), "10"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, second, _ = done.stdout.splitlines()
    assert (first, done.stderr) == (
        "No ANTHROPIC_API_KEY: this runs against everturn's twin of the API, on this machine.",
        "",
    )
    assert re.fullmatch(r"\d+ messages in the agent's history, [1-9] compactions so far.", second)
