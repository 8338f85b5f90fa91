"""An agent on the Anthropic SDK that exceeds its context window; then the same agent with one more line.

python examples/middleware.py             300 calls against the twin: no key, no network, no cost
ANTHROPIC_API_KEY=... python examples/middleware.py    a few calls to the real API
"""

import os
import sys
import time
from typing import Any

import anthropic
from anthropic import beta_tool

import everturn
from everturn.twin.testing import TwinForTests

LINES = "\n".join(f"{n:04d} record {n * 7919 % 1000} of the feed was parsed, status ok" for n in range(120))
SYSTEM = "You maintain a feed parser. Look before you change anything. " * 60


@beta_tool
def read_file(path: str) -> str:
    """Reads a file.

    Args:
        path: The path of the file.
    """
    return f"{path}\n{LINES}"


@beta_tool
def edit_file(path: str, old: str, new: str) -> str:
    """Changes a file.

    Args:
        path: The path of the file.
        old: The text to replace.
        new: The new text.
    """
    return f"{path}: changed {len(old)} characters to {len(new)}"


def run_agent(client: anthropic.Anthropic, model: str, calls: int, **more: Any) -> int:
    """Run task after task in one conversation, streamed. The agent keeps its own list of messages."""
    messages: list[Any] = []
    made = task = 0
    while made < calls:
        task += 1
        messages.append({"role": "user", "content": f"Task {task}: look at feed/part_{task}.py and fix it."})
        runner = client.beta.messages.tool_runner(
            model=model, max_tokens=2000, system=SYSTEM, tools=[read_file, edit_file], messages=messages,
            stream=True, **more,
        )  # fmt: skip
        for stream in runner:
            made += 1
            messages.append({"role": "assistant", "content": stream.get_final_message().content})
            if results := runner.generate_tool_call_response():
                messages.append(results)
    return made


def run_and_print(name: str, calls: int, model: str, middleware: Any = None, **more: Any) -> float:
    """Run the agent against its own twin; print how far it got and what it cost."""
    twin = TwinForTests()
    client = twin.client(middleware=[middleware] if middleware else [], max_retries=0)
    began = time.monotonic()
    try:
        made = run_agent(client, model, calls, **more)
        outcome = f"finished after {made} calls"
    except anthropic.BadRequestError as problem:
        outcome = f"failed: {problem.body['error']['message']}"  # type: ignore[index, call-overload]
    dollars = sum(entry["dollars"] for entry in twin.ledger)
    print(f"{name:34} {outcome:58} ${dollars:8.2f}   ({time.monotonic() - began:.0f} s)")
    return dollars


def run_against_twin(calls: int) -> None:
    print("No ANTHROPIC_API_KEY: this runs against everturn's twin of the API, on this machine.\n")
    small, large = "claude-haiku-4-5", "claude-sonnet-4-6"
    print(f"{small}, 200K token window")
    run_and_print("  plain", calls, small)
    run_and_print("  with everturn.middleware()", calls, small, everturn.middleware(folder=None))
    print(f"\n{large}, 1M token window")
    uncached = run_and_print("  plain", calls, large)
    naive = run_and_print(
        "  with the API's automatic caching", calls, large, cache_control={"type": "ephemeral"}
    )
    small_window = everturn.middleware(folder=None, window=200_000)
    ours = run_and_print("  with everturn, window set to 200K", calls, large, small_window)
    print(
        f"\neverturn costs {ours / uncached:.0%} of the plain run, and {ours / naive:.0%} of the cached one."
    )


def run_against_api(calls: int) -> None:
    middleware = everturn.middleware()
    made = run_agent(anthropic.Anthropic(middleware=[middleware]), "claude-haiku-4-5", calls)
    (conversation,) = middleware.conversations
    print(f"{made} calls, {conversation.tokens:,} of {conversation.window:,} tokens")
    print(f"Cost: ${middleware.bill.dollars:.4f}")
    print(f"Transcript: {conversation.path}")


if __name__ == "__main__":
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if os.environ.get("ANTHROPIC_API_KEY"):
        run_against_api(given or 4)
    else:
        run_against_twin(given or 300)
