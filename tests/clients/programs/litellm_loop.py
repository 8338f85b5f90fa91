"""litellm: a tool loop in the format of OpenAI, which litellm translates to Messages."""

import inspect
import json

import litellm
from folder_tools import TOOLS
from program import MAX_TOKENS, SYSTEM, run_program

litellm.suppress_debug_info = True
KINDS = {str: "string", bool: "boolean"}
# litellm puts a breakpoint on the system prompt and on the newest message.
CACHED = [{"location": "message", "role": "system"}, {"location": "message", "index": -1}]


def describe(name, function):
    parameters = inspect.signature(function).parameters.values()
    schema = {
        "type": "object",
        "properties": {each.name: {"type": KINDS[each.annotation]} for each in parameters},
        "required": [each.name for each in parameters if each.default is each.empty],
    }
    about = inspect.getdoc(function).partition("\n")[0]
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def open_chat(model):
    tools = [describe(name, function) for name, function in TOOLS.items()]
    messages = [{"role": "system", "content": SYSTEM}]

    def ask(prompt):
        messages.append({"role": "user", "content": prompt})
        while True:
            reply = litellm.completion(
                model=f"anthropic/{model}",
                max_tokens=MAX_TOKENS,
                messages=messages,
                tools=tools,
                cache_control_injection_points=CACHED,
            )
            said = reply.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls or ():
                result = TOOLS[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if not said.tool_calls:
                return said.content

    return ask


run_program(open_chat)
