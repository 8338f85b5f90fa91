"""The Anthropic SDK for Python: its tool runner, with tools made from functions."""

from anthropic import Anthropic, beta_tool
from folder_tools import TOOLS
from program import MAX_TOKENS, SYSTEM, run_program


def open_chat(model):
    client = Anthropic()
    tools = [beta_tool(function, name=name) for name, function in TOOLS.items()]
    messages = []

    def ask(prompt):
        messages.append({"role": "user", "content": prompt})
        runner = client.beta.messages.tool_runner(
            model=model,
            max_tokens=MAX_TOKENS,
            system=SYSTEM,
            tools=tools,
            messages=list(messages),
            cache_control={"type": "ephemeral"},
        )
        for reply in runner:
            messages.append({"role": "assistant", "content": reply.content})
            if (results := runner.generate_tool_call_response()) is not None:
                messages.append(results)
        return "".join(block.text for block in reply.content if block.type == "text")

    return ask


run_program(open_chat)
