"""Checks every request of recorded sessions under several policies from outside (`request_checker.py`).

    PYTHONPATH=tests python -m replay.check_recorded FOLDER [--policy NAME,...] [--seconds N] [--state FILE]
        [--every N]

Checking all sessions takes long. A run stops after `--seconds` and the next one continues: what is done is in
the state file, one line of JSON for each session and policy. The end of a run sums up all of them.
`--every 5` checks a fifth of the pairs, spread evenly over sessions and policies.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from replay.request_checker import Checked, Checker

from everturn.replay.policies import REPLAY_POLICIES, parse_policy
from everturn.replay.refetches import SessionUses
from everturn.replay.requests_file import line_of
from everturn.replay.sessions import ReplaySession, read_sessions
from everturn.replay.simulate import index_uses, simulate

POLICIES = (
    *REPLAY_POLICIES,
    "claude-code+1h",
    "none+refresh",
    "recorded+refresh",
    "claude-code+refresh-blind",
)
PROBLEMS = ("invalid", "wrong_sums", "wrong_usage", "wrong_dollars")


def check_session(session: ReplaySession, policy: str, uses: SessionUses) -> Checked:
    """Every request is written as JSON, checked and forgotten, so that long sessions fit into memory."""
    checker = Checker()
    simulate(
        session,
        parse_policy(policy),
        uses,
        observer=lambda call, request, tokens: checker.add(
            line_of(session.path, policy, call, request, tokens)
        ),
    )
    return checker.found


def summarize(checked: Checked) -> dict[str, Any]:
    bills = checked.bills.values()
    return {
        "requests": sum(bill.requests for bill in bills),
        "dollars": sum(bill.dollars for bill in bills),
        "worst": checked.worst,
        **{name: len(getattr(checked, name)) for name in PROBLEMS},
        "first": [problem for name in PROBLEMS for problem in getattr(checked, name)[:3]],
    }


def run(folders: Sequence[Path], policies: Sequence[str], state: Path, seconds: float, every: int) -> bool:
    """Continues where the state ends. False if there was not enough time for all."""
    done = {(row["session"], row["policy"]) for row in read_state(state)}
    until = time.monotonic() + seconds
    for number, session in enumerate(_sessions(folders)):
        chosen = [policy for at, policy in enumerate(policies) if (number + at) % every == 0]
        todo = [policy for policy in chosen if (session.path, policy) not in done]
        if time.monotonic() > until and todo:
            return False
        uses = index_uses(session) if todo else None
        for policy in todo:
            if time.monotonic() > until or uses is None:
                return False
            row = {
                "session": session.path,
                "policy": policy,
                **summarize(check_session(session, policy, uses)),
            }
            with state.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return True


def _sessions(folders: Sequence[Path]) -> Iterator[ReplaySession]:
    return (each for each in read_sessions(folders) if isinstance(each, ReplaySession))


def read_state(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in state.read_text().splitlines()] if state.exists() else []


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m replay.check_recorded")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--policy", default=",".join(POLICIES))
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--every", type=int, default=1, help="of the pairs of a session and a policy")
    parser.add_argument("--state", type=Path, default=Path("build/check_recorded.jsonl"))
    given = parser.parse_args(arguments)
    is_complete = run(given.folders, given.policy.split(","), given.state, given.seconds, given.every)
    rows = read_state(given.state)
    for row in rows:
        for problem in row["first"]:
            print(f"  {row['policy']}: {problem}")
    counts = ", ".join(f"{name} {sum(row[name] for row in rows)}" for name in PROBLEMS)
    worst = max((row["worst"] for row in rows), default=0.0)
    sent = sum(row["requests"] for row in rows)
    print(f"{sent:,} requests, {len(rows)} bills: {counts}; the largest error of a bill is {worst:.3%}")
    print("complete" if is_complete else "not complete: run it again")
    return int(not is_complete or worst > 0.005 or any(row["invalid"] or row["wrong_sums"] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
