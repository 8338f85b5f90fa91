"""What every program here does: take a job, have a conversation about it, and print what was answered.

    program.py MODEL PROMPTS

PROMPTS is a list in JSON. The address and the key come from the environment, as the libraries read them.
"""

import json
import sys
from collections.abc import Callable

SYSTEM = "You are a coding agent. Work on the current folder with the tools."
MAX_TOKENS = 2_000


def run_program(open_chat: Callable[[str], Callable[[str], str]]) -> None:
    """`open_chat` starts a conversation with a model; what it returns takes a prompt and gives the answer."""
    model, prompts, out = sys.argv[1], json.loads(sys.argv[2]), sys.stdout
    ask = open_chat(model)
    for prompt in prompts:
        print(json.dumps({"answer": ask(prompt)}), file=out, flush=True)
