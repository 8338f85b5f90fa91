"""aider, as a program uses it: the answers are edits in its format, which it applies to the files.

aider's model has no tools, so what the other agents read is pasted into the question.
"""

import re
import sys
from pathlib import Path

from aider.coders import Coder
from aider.history import ChatSummary
from aider.io import InputOutput
from aider.models import Model
from program import run_program

# aider would replace a longer history by a summary of its own.
HISTORY_TOKENS = 400_000
_READS = re.compile(r"What does (\S+) do\?")


def open_chat(name):
    # What aider prints is not what this program prints.
    sys.stdout = sys.stderr
    model = Model(f"anthropic/{name}", weak_model=False, editor_model=False)
    # As in a file of model settings: aider does not know that this model has a cache.
    model.cache_control = True
    coder = Coder.create(
        main_model=model,
        edit_format="diff",
        io=InputOutput(yes=True, pretty=False, fancy_input=False),
        fnames=["src/orders.py", "notes.md"],
        use_git=False,
        auto_lint=False,
        cache_prompts=True,
        stream=False,
        detect_urls=False,
        suggest_shell_commands=False,
        summarizer=ChatSummary([model], HISTORY_TOKENS),
    )

    def ask(prompt):
        if named := _READS.match(prompt):
            prompt = f"{prompt}\n\n{Path(named[1]).read_text('utf-8')}"
        return coder.run(prompt)

    return ask


run_program(open_chat)
