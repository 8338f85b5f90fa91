"""How long what Claude Code starts again and again takes, from the start of the process to its end.

Beside a Python that does nothing, which is the floor: medians of runs in turn, in milliseconds and as ratios.
The aim is under 60 ms for the status line and for a hook that has nothing to do. Nothing is asserted: a busy
machine makes every start slow. That nothing heavy is loaded is held by tests/adapters/claude_code.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from everturn.replay.synthetic import generate_session

RUNS = 20
AIM_MS = 60
EVERTURN = str(Path(sys.executable).with_name("everturn"))
TOKENS = 400_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        transcript = Path(folder) / "session.jsonl"
        transcript.write_bytes(b"\n".join(generate_session(seed=7, tokens=TOKENS)) + b"\n")
        given = json.dumps({"model": {"display_name": "Opus"}, "transcript_path": str(transcript)}).encode()
        commands = {
            "python -c pass": ([sys.executable, "-c", "pass"], b""),
            "python -c 'import json'": ([sys.executable, "-c", "import json"], b""),
            "python -c 'import typing'": ([sys.executable, "-c", "import typing"], b""),
            "everturn statusline": ([EVERTURN, "statusline"], given),
            "everturn hook Notification": ([EVERTURN, "hook", "Notification"], b"{}"),
            "everturn hook PostToolUse": ([EVERTURN, "hook", "PostToolUse", "--shrink", "30000"], given),
            "everturn --help": ([EVERTURN, "--help"], b""),
        }
        taken = in_turn(commands)
    floor = median(taken["python -c pass"])
    print(f"medians of {RUNS} runs; the aim is under {AIM_MS} ms for the status line and idle hooks")
    for name, seconds in taken.items():
        print(f"{name:28} {median(seconds) * 1_000:6.1f} ms  {median(seconds) / floor:5.2f} of doing nothing")


def in_turn(commands: dict[str, tuple[list[str], bytes]]) -> dict[str, list[float]]:
    """Each once, then each again: what disturbs the machine disturbs all."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, (command, given) in commands.items():
            start = time.perf_counter()
            subprocess.run(command, input=given, capture_output=True, check=True)
            taken[name].append(time.perf_counter() - start)
    return taken


if __name__ == "__main__":
    main()
