"""What the fork that takes notes may do: edit this one text, and nothing else (SM-3).

Its edits are applied to the text here, not to the disk: whoever runs the fork writes the result once, after
it was checked, together with the record that it covers. A fork that is given up has changed nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from everturn.decide.notes.document import Notes, to_condense, update_problems
from everturn.decide.notes.settings import NotesSettings
from everturn.history.blocks import Block, fields_of, result_block, text_block
from everturn.history.messages import Message
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE
from everturn.view.fragments.notes import extraction_prompt

# The command of the editors with several commands that replaces a text.
EDIT_COMMAND: Final = "str_replace"


class Replacement(msgspec.Struct, frozen=True):
    old: str
    new: str
    every: bool = False


class EditRefused(msgspec.Struct, frozen=True):
    why: str


class Updated(msgspec.Struct, frozen=True):
    """Notes that may be written, and the answers to the calls that made them."""

    body: str
    answers: tuple[Block, ...]


class NotUpdated(msgspec.Struct, frozen=True):
    why: str
    answers: tuple[Block, ...] = ()


def edit_tool_among(tools: Sequence[str]) -> str:
    """The tool that the fork can edit with; empty where it has none, and then no notes are taken."""
    return next((tool for tool in tools if DEFAULT_TOOL_TABLE.find(tool).replaces), "")


def extraction_message(notes: Notes, path: str, settings: NotesSettings) -> Message:
    """What is added to the parent's messages to make the fork take notes."""
    asked = extraction_prompt(path, notes.body, to_condense(notes.body, settings))
    return Message("user", (text_block(asked),))


def check_edit_call(call: Block, path: str) -> Replacement | EditRefused:
    """What a call wants to replace in the notes; or why it may not be made.

    The path is compared as it is spelled: another spelling of the same file is refused, which costs a call,
    and no spelling of another file can pass.
    """
    row = DEFAULT_TOOL_TABLE.find(call.tool)
    fields = row.replaces
    if fields is None:
        return EditRefused(f"{call.tool or 'a tool'} may not be used here; only an edit of {path} may")
    given = _input(call)
    if row.by_command and given.get("command") != EDIT_COMMAND:
        return EditRefused(f"only the command {EDIT_COMMAND!r} may be used here")
    if given.get(row.path[0]) != path:
        return EditRefused(f"only {path} may be edited here")
    old, new, every = given.get(fields.old), given.get(fields.new), given.get(fields.all, False)
    if not (isinstance(old, str) and isinstance(new, str) and old and isinstance(every, bool)):
        return EditRefused(f"{fields.old} and {fields.new} must be texts, and {fields.old} not an empty one")
    return Replacement(old, new, every)


def _input(call: Block) -> Mapping[str, Any]:
    try:
        given = fields_of(call).get("input")
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast(Mapping[str, Any], given) if isinstance(given, dict) else {}


def apply_replacement(body: str, wanted: Replacement) -> str | EditRefused:
    found = body.count(wanted.old)
    if not found:
        return EditRefused("the text to replace is not in the notes")
    if found > 1 and not wanted.every:
        return EditRefused(f"the text to replace is there {found} times; name more of what is around it")
    return body.replace(wanted.old, wanted.new)


def apply_fork_edits(body: str, said: Sequence[Block], path: str) -> Updated | NotUpdated:
    """The notes after everything that the fork did in one answer. Each edit that would break a heading is
    refused by itself, so that one bad edit does not lose the good ones."""
    before, answers, refusals = body, list[Block](), list[str]()
    for call in (block for block in said if block.is_call):
        result = _after(body, call, path)
        if isinstance(result, EditRefused):
            refusals.append(result.why)
            answers.append(result_block(call.call, f"Refused: {result.why}.", is_error=True))
        else:
            body = result
            answers.append(result_block(call.call, "Done."))
    if not answers:
        return NotUpdated("the fork made no edit")
    if body == before:
        return NotUpdated(refusals[0] if refusals else "the edits changed nothing", tuple(answers))
    return Updated(body, tuple(answers))


def _after(body: str, call: Block, path: str) -> str | EditRefused:
    wanted = check_edit_call(call, path)
    if isinstance(wanted, EditRefused):
        return wanted
    result = apply_replacement(body, wanted)
    if isinstance(result, EditRefused):
        return result
    problems = update_problems(body, result)
    return EditRefused("; ".join(problems)) if problems else result
