"""pydantic-ai: an agent with tools, and the cache settings that its Anthropic model offers."""

from folder_tools import TOOLS
from program import MAX_TOKENS, SYSTEM, run_program
from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModelSettings


def open_chat(model):
    agent = Agent(
        f"anthropic:{model}",
        instructions=SYSTEM,
        tools=[Tool(function, name=name) for name, function in TOOLS.items()],
        model_settings=AnthropicModelSettings(
            max_tokens=MAX_TOKENS,
            anthropic_cache_messages=True,
            anthropic_cache_instructions=True,
            anthropic_cache_tool_definitions=True,
        ),
    )
    messages = []

    def ask(prompt):
        nonlocal messages
        result = agent.run_sync(prompt, message_history=messages)
        messages = result.all_messages()
        return result.output

    return ask


run_program(open_chat)
