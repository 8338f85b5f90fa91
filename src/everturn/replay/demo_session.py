"""The input of `everturn demo`: a synthetic session, and a preamble of the size that coding agents have."""

from collections.abc import Sequence
from typing import Final

from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.outline import Preamble
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.view.system_prompt import SystemPromptSections, make_preamble, system_blocks
from everturn.wire.anthropic import tool_block
from everturn.wire.claude_code_reader import parse_session_file

# About what one call of a synthetic session adds, so that the session is long enough for the requested turns.
_TOKENS_A_TURN: Final = 2_500

_TOOLS: Final = {
    "Bash": ("command", "Run a command in the project's shell and return what it prints."),
    "Edit": ("file_path", "Replace one exact piece of text in a file by another."),
    "Glob": ("pattern", "List the files whose paths match a pattern, newest first."),
    "Grep": ("pattern", "Search the contents of files for a regular expression."),
    "Read": ("file_path", "Return the lines of a file with their numbers."),
    "Task": ("prompt", "Give a piece of work to another agent and return its report."),
    "TodoWrite": ("todos", "Keep the list of what is to be done."),
    "WebFetch": ("url", "Fetch a page and answer a question about it."),
    "Write": ("file_path", "Write a whole file."),
}
_RULES: Final = (
    "Read a file before changing it, and change no more than the task asks for.",
    "Run the tests that cover what was changed, and say honestly what they showed.",
    "Never push, never rewrite history, never touch what the user said to leave alone.",
    "When two ways are equally good, take the one that the code around it has taken.",
    "Say what was done in a few plain sentences, with paths and line numbers.",
)


def make_demo_session(*, seed: int, turns: int) -> tuple[Sequence[Record], Preamble]:
    """The main thread of a session with at least this many calls, and the preamble to send with it."""
    shape = SessionShape(boundaries=0, sidechains=0, images=0, idle_gaps=0, display_copies="short")
    lines = generate_session(seed=seed, tokens=max(20_000, turns * _TOKENS_A_TURN), shape=shape)
    return split_threads(parse_session_file(b"\n".join(lines)).records).main.records, coding_preamble()


def coding_preamble() -> Preamble:
    sections = SystemPromptSections(identity="You are a careful software engineer.")
    handbook = (f"{number}. {_RULES[number % len(_RULES)]}" for number in range(1, 201))
    sections.static("handbook", lambda: "\n".join(handbook))
    sections.dynamic("environment", lambda: "Working directory: project. Platform: linux. Branch: main.")
    tools = tuple(tool_block(_definition(name, *about)) for name, about in _TOOLS.items())
    return make_preamble(tools, system_blocks(sections, capabilities=ANTHROPIC))


def _definition(name: str, field: str, about: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return {"name": name, "description": about, "input_schema": schema}
