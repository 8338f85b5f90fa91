"""A pydantic-ai agent in a conversation that exceeds its context window several times.

python examples/pydantic_ai_agent.py           40 tasks against the twin: no key, no network, no cost
ANTHROPIC_API_KEY=... python examples/pydantic_ai_agent.py  two tasks against the real API
"""

import os
import sys

import anthropic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from everturn.adapters.pydantic_ai import Everturn
from everturn.twin.testing import TwinForTests


def read_file(path: str) -> str:
    """Reads a file."""
    return "\n".join(f"{n:04d} {path}: record {n * 7919 % 1000} of the feed was parsed" for n in range(500))


if "ANTHROPIC_API_KEY" in os.environ:
    client = anthropic.AsyncAnthropic()
else:
    print("No ANTHROPIC_API_KEY: this runs against everturn's twin of the API, on this machine.")
    client = TwinForTests().async_client()
tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 2 if "ANTHROPIC_API_KEY" in os.environ else 40

model = AnthropicModel("claude-haiku-4-5", provider=AnthropicProvider(anthropic_client=client))
everturn = Everturn(folder=None)
agent = Agent(model, instructions="You maintain a feed parser.", tools=[read_file], capabilities=[everturn])

messages: list = []
for task in range(1, tasks + 1):
    prompt = f"Task {task}: look at feed/part_{task}.py and fix it."
    messages = agent.run_sync(prompt, message_history=messages).all_messages()

(conversation,) = everturn.conversations
print(f"{len(messages)} messages in the agent's history, {conversation.compactions} compactions so far.")
print(f"{conversation.tokens:,} of {conversation.window:,} tokens, ${everturn.bill.dollars:.2f} so far.")
