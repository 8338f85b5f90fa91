"""A LangChain agent in a conversation that exceeds its context window several times.

python examples/langchain_agent.py             40 tasks against the twin: no key, no network, no cost
ANTHROPIC_API_KEY=... python examples/langchain_agent.py    two tasks against the real API
"""

import os
import sys

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool

from everturn.adapters.langchain import EverturnMiddleware
from everturn.twin.testing import TwinForTests


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return "\n".join(f"{n:04d} {path}: record {n * 7919 % 1000} of the feed was parsed" for n in range(500))


model = ChatAnthropic(model_name="claude-haiku-4-5", max_tokens=2000)  # type: ignore[call-arg]
if "ANTHROPIC_API_KEY" not in os.environ:
    print("No ANTHROPIC_API_KEY: this runs against everturn's twin of the API, on this machine.")
    model.__dict__["_client"] = TwinForTests().client()  # where ChatAnthropic caches its client
tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 2 if "ANTHROPIC_API_KEY" in os.environ else 40

middleware = EverturnMiddleware(folder=None)
agent = create_agent(model, [read_file], system_prompt="You maintain a feed parser.", middleware=[middleware])

messages: list = []
for task in range(1, tasks + 1):
    prompt = {"role": "user", "content": f"Task {task}: look at feed/part_{task}.py and fix it."}
    messages = agent.invoke({"messages": [*messages, prompt]})["messages"]

(conversation,) = middleware.conversations
print(f"{len(messages)} messages in the agent's state, {conversation.compactions} compactions so far.")
print(f"{conversation.tokens:,} of {conversation.window:,} tokens, ${middleware.bill.dollars:.2f} so far.")
