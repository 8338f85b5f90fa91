"""One pass over the records: collects every fact that a section or the retention score needs.

Tool results are not read unless they failed: most of a conversation is results, and their content is in the
files and in what the model concluded. Thinking is not read at all: it is not a statement.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from everturn.decide.extractive.reading import failures
from everturn.decide.extractive.reading.calls import read_tool_actions, read_tool_input
from everturn.decide.extractive.reading.earlier import merged, parse_summary
from everturn.decide.extractive.reading.facts import (
    EarlierSummary,
    Facts,
    FileWork,
    QuotedText,
    ToolAction,
    ToolFailure,
)
from everturn.decide.extractive.reading.sentences import long_words
from everturn.decide.extractive.reading.tasks import TASK_PURPOSES, TaskList
from everturn.history.blocks import Block, text_of
from everturn.history.edits import Pinned
from everturn.history.records import Record, is_sent
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable
from everturn.view.flatten import is_shown_to_user

# What the harness adds before a person's words, or instead of them; a person who types the same tags at the
# very beginning cannot be told apart. A notification has its own footer.
_INJECTED: Final = re.compile(
    r"\A\s*(?:<task-notification>[\s\S]*\Z|\[Request interrupted by user[^\]]*\]\s*\Z"
    r"|<(local-command-(?:stdout|stderr|caveat)|bash-std(?:out|err)|system-reminder|ide_\w+)>[\s\S]*?</\1>\s*)"
)
# A slash command or a shell line that a person typed, as Claude Code wraps it.
_COMMAND: Final = re.compile(
    r"<command-name>(?P<name>[^<]*)</command-name>(?:\s*<command-message>[^<]*</command-message>)?"
    r"\s*(?:<command-args>(?P<args>[\s\S]*?)</command-args>)?"
)
_SHELL: Final = re.compile(r"^<bash-input>([\s\S]*)</bash-input>$")
_PICTURES: Final = {"image": "[image]", "document": "[document]"}


def extract_facts(records: Iterable[Record], tools: ToolTable = DEFAULT_TOOL_TABLE) -> Facts:
    walk = _Walk(tools)
    for record in records:
        walk.add(record)
    return walk.facts()


def human_words(record: Record) -> str:
    """What a person said in a record: not results, not injected content, not a summary (FLAT-7)."""
    if record.kind != "user" or record.compact_summary or not is_shown_to_user(record):
        return ""
    said = (_human(block) for block in record.blocks)
    return "\n".join(text for text in said if text)


def _human(block: Block) -> str:
    if block.kind != "text":
        return _PICTURES.get(block.kind, "")
    text = text_of(block).strip()
    # All wrappers begin like this; almost no text of a person does.
    if not text.startswith(("<", "[")):
        return text
    while injected := _INJECTED.match(text):
        text = text[injected.end() :]
    if command := _COMMAND.search(text):
        return f"{command['name']} {command['args'] or ''}".strip()
    shell = _SHELL.match(text)
    return f"! {shell[1]}" if shell else text


class _Walk:
    def __init__(self, tools: ToolTable) -> None:
        self._tools = tools
        self._messages: list[QuotedText] = []
        self._statements: list[QuotedText] = []
        self._deeds: dict[str, ToolAction] = {}
        self._open: dict[str, ToolAction] = {}
        self._failed: set[str] = set()
        self._files: dict[str, FileWork] = {}
        # Paths of earlier summaries that may be the end of a longer one.
        self._loose: dict[str, None] = {}
        self._failures: list[ToolFailure] = []
        self._answers: list[QuotedText] = []
        self._tasks = TaskList()
        self._pins: list[str] = []
        self._words: Counter[str] = Counter()
        self._earlier = EarlierSummary()
        # Failures that were not followed by another action yet.
        self._unmet: list[int] = []
        self._is_answered = False

    def add(self, record: Record) -> None:
        if isinstance(record.edit, Pinned):
            self._pins.append(record.edit.text)
        if not is_sent(record):
            return
        if record.kind == "assistant":
            self._hear_model(record)
        elif record.compact_summary:
            self._take_over("\n".join(text_of(block) for block in record.blocks))
        elif record.kind == "user":
            self._hear_person(record)

    def facts(self) -> Facts:
        return Facts(
            messages=tuple(self._messages),
            statements=tuple(self._statements),
            deeds=tuple(self._deeds.values()),
            unanswered=tuple(self._open.values()),
            failed=frozenset(self._failed),
            files=self._files,
            failures=tuple(self._failures),
            answers=tuple(self._answers),
            tasks=self._tasks.all(),
            tasks_known=self._tasks.is_known,
            pins=tuple(dict.fromkeys(self._pins)),
            words=self._words,
            earlier=self._earlier,
            is_answered=self._is_answered,
        )

    def _take_over(self, text: str) -> None:
        found = parse_summary(text)
        self._earlier = merged(self._earlier, found)
        self._loose |= {file.path: None for file in found.files if not file.path.startswith(("/", "~"))}
        for file in found.files:
            before = self._files.pop(file.path, FileWork(file.path))
            self._files[file.path] = FileWork(
                file.path,
                before.read + file.read,
                before.edited + file.edited,
                before.wrote + file.wrote,
                before.new_text,
                file.notes or before.notes,
            )

    def _hear_person(self, record: Record) -> None:
        for block in record.blocks:
            if block.is_result:
                self._end(block, record.uuid)
        if text := human_words(record):
            self._messages.append(QuotedText(text, record.uuid))
            self._words.update(long_words(text))
            self._is_answered = False
            if self._unmet:
                self._judge(self._unmet[-1], text)

    def _judge(self, at: int, words: str) -> None:
        """What a person says directly after a failure is about it."""
        if not self._failures[at].feedback:
            self._failures[at] = msgspec.structs.replace(self._failures[at], feedback=words)

    def _hear_model(self, record: Record) -> None:
        for block in record.blocks:
            if block.is_call:
                self._is_answered = True
                self._begin(block)
            elif block.kind == "text" and (text := text_of(block).strip()):
                self._is_answered = True
                self._statements.append(QuotedText(text, record.uuid))
                self._words.update(long_words(text))

    def _begin(self, block: Block) -> None:
        given, row = read_tool_input(block), self._tools.find(block.tool)
        if row.does in TASK_PURPOSES:
            self._tasks.note(row.does, block.call, given)
        for deed in read_tool_actions(block, given, row):
            if deed.verb in ("read", "edited", "wrote") and deed.target:
                self._touch(deed)
            self._deeds[block.call] = self._open[block.call] = deed
        if (deed := self._deeds[block.call]).verb in ("edited", "wrote", "ran"):
            self._meet(deed)

    def _touch(self, deed: ToolAction) -> None:
        """Move the file to the end: files are in the order of their last use."""
        before = self._files.pop(self._known_as(deed.target), FileWork(""))
        self._files[deed.target] = FileWork(
            deed.target,
            before.read + (deed.verb == "read"),
            before.edited + (deed.verb == "edited"),
            before.wrote + (deed.verb == "wrote"),
            deed.new_text or before.new_text,
            before.notes,
        )

    def _known_as(self, path: str) -> str:
        """A model's summary names files relative to the project's root; calls use absolute paths."""
        if path in self._files:
            return path
        loose = next((name for name in self._loose if path.endswith(f"/{name}")), path)
        self._loose.pop(loose, None)
        return loose

    def _meet(self, deed: ToolAction) -> None:
        for at in self._unmet:
            self._failures[at] = msgspec.structs.replace(self._failures[at], then=deed)
        self._unmet.clear()

    def _end(self, block: Block, record: str) -> None:
        deed = (
            self._open.pop(block.call, None)
            or self._deeds.get(block.call)
            or ToolAction(block.call, "", "other")
        )
        if failures.is_error(block) or (deed.verb == "ran" and failures.prints_failure(block)):
            self._fail(block, deed, record)
        elif (does := self._tools.find(deed.tool).does) == "adds_task":
            self._tasks.number(block.call, text_of(block))
        elif does == "asks":
            self._answers.append(QuotedText(text_of(block), record))

    def _fail(self, block: Block, deed: ToolAction, record: str) -> None:
        self._failed.add(block.call)
        lines = failures.telling_lines(block)
        if lines and failures.was_refused(lines[0]):
            if words := failures.words_of_refusal(text_of(block)):
                self._answers.append(QuotedText(words, record))
            return
        if lines:
            self._unmet.append(len(self._failures))
            self._failures.append(ToolFailure(deed, lines))
