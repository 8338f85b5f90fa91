"""An agent on the plain Anthropic SDK that outgrows its window; then the same agent with one line more.

python examples/middleware.py             300 calls against the twin: no key, no network, no money
ANTHROPIC_API_KEY=... python examples/middleware.py    a few calls of the real API
"""

import os
import sys
import time
from typing import Any

import anthropic
from anthropic import beta_tool

import everturn
from everturn.session.config.shape import Config, Switches
from everturn.twin.testing import TwinForTests

LINES = "\n".join(f"{n:04d} record {n * 7919 % 1000} of the feed was parsed, status ok" for n in range(120))
SYSTEM = "You maintain a feed parser. Look before you change anything. " * 60


@beta_tool
def read_file(path: str) -> str:
    """Reads a file.

    Args:
        path: Where it is.
    """
    return f"{path}\n{LINES}"


@beta_tool
def edit_file(path: str, old: str, new: str) -> str:
    """Changes a file.

    Args:
        path: Where it is.
        old: What stands there.
        new: What should stand there.
    """
    return f"{path}: changed {len(old)} characters to {len(new)}"


def run_agent(client: anthropic.Anthropic, model: str, calls: int, **more: Any) -> int:
    """Task after task in one conversation, streamed. It keeps its own list; that it ends is an error."""
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


def tried(name: str, calls: int, model: str, middleware: Any = None, **more: Any) -> float:
    """Run the agent against a twin of its own; print how far it came and what it cost."""
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


def against_the_twin(calls: int) -> None:
    print("No ANTHROPIC_API_KEY: this runs against everturn's twin of the API.\n")
    small, large = "claude-haiku-4-5", "claude-sonnet-4-6"
    print(f"{small}, a window of 200K tokens")
    tried("  plain", calls, small)
    tried("  with everturn.middleware()", calls, small, everturn.middleware(folder=None))
    print(f"\n{large}, a window of 1M tokens")
    uncached = tried("  plain", calls, large)
    naive = tried("  with the API's automatic caching", calls, large, cache_control={"type": "ephemeral"})
    held = Config(window=200_000, switches=Switches(oversize=False, declarative=False))
    ours = tried("  with everturn, held to 200K", calls, large, everturn.middleware(held, folder=None))
    print(f"\nThat is {ours / uncached:.0%} of the plain bill, and {ours / naive:.0%} of the cached one.")


def for_real(calls: int) -> None:
    middleware = everturn.middleware()
    made = run_agent(anthropic.Anthropic(middleware=[middleware]), "claude-haiku-4-5", calls)
    (held,) = middleware.conversations
    print(f"{made} calls, {held.tokens:,} of {held.window:,} tokens, ${middleware.bill.dollars:.4f}")
    print(f"The transcript: {held.path}")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if os.environ.get("ANTHROPIC_API_KEY"):
        for_real(wanted or 4)
    else:
        against_the_twin(wanted or 300)
