"""LangChain: an agent with tools, and the cache control that its Anthropic package offers."""

from folder_tools import TOOLS
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from program import MAX_TOKENS, SYSTEM, run_program


def open_chat(model):
    agent = create_agent(
        ChatAnthropic(model=model, max_tokens=MAX_TOKENS),
        tools=[tool(name)(function) for name, function in TOOLS.items()],
        system_prompt=SYSTEM,
        middleware=[AnthropicPromptCachingMiddleware()],
    )
    messages = []

    def ask(prompt):
        nonlocal messages
        told = agent.invoke({"messages": [*messages, {"role": "user", "content": prompt}]})
        messages = told["messages"]
        return messages[-1].text

    return ask


run_program(open_chat)
