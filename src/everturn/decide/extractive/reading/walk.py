"""One pass over the records: collects every fact that a section or the retention score needs.

Most of a conversation is tool results. Their text is read only where it reports something that nothing else
does: failures, what git did, what agents found, answers of the user. Otherwise their content is in the files
and in what the model concluded. Thinking is not read at all: it is not a statement.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from everturn.decide.authorship import typed_words
from everturn.decide.extractive.reading import commands, failures, user_edits
from everturn.decide.extractive.reading.agents import AgentReports
from everturn.decide.extractive.reading.background import BackgroundCommands, BackgroundEnd
from everturn.decide.extractive.reading.calls import read_tool_actions, read_tool_input
from everturn.decide.extractive.reading.earlier import merged, parse_summary
from everturn.decide.extractive.reading.facts import (
    EarlierSummary,
    Facts,
    FileWork,
    QuotedText,
    ToolAction,
    ToolFailure,
    WorkState,
    is_local,
)
from everturn.decide.extractive.reading.modes import MODE_PURPOSES, ModeState
from everturn.decide.extractive.reading.runs import CommandRuns
from everturn.decide.extractive.reading.tasks import TASK_PURPOSES, TaskList
from everturn.decide.extractive.reading.turns import Turns
from everturn.history.blocks import Block, text_of
from everturn.history.edits import Pinned
from everturn.history.records import Record, is_sent
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable
from everturn.view.flatten import is_shown_to_user
from everturn.wire.queued_messages import QueuedMessage

_INTERRUPTED: Final = "[Request interrupted by user"
_QUEUED: Final = "queued_command"
_REMINDER: Final = "<system-reminder>"
# Wrappers that never hold a task.
_NO_TASK: Final = ("<local-command-", "<bash-", "<task-notification", "<ide_", _REMINDER)
# Results whose end may be shown, and how many lines of a search.
_LAST_RESULTS: Final = 24
_MATCHES: Final = 4
_PICTURES: Final = {"image": "[image]", "document": "[document]"}


def extract_facts(
    records: Iterable[Record],
    tools: ToolTable = DEFAULT_TOOL_TABLE,
    queued: Iterable[QueuedMessage] = (),
) -> Facts:
    """`queued` is what the user typed while the model worked, if no record has it. By its time it stands
    between two records; what is older than all of them belongs to an earlier view.
    """
    walk = _Walk(tools)
    waiting, started = deque(sorted(queued, key=lambda each: each.timestamp)), ""
    for record in records:
        started = started or record.timestamp
        while started and waiting and waiting[0].timestamp < record.timestamp:
            walk.hear_queued(waiting.popleft(), started)
        walk.add(record)
    for message in waiting:
        walk.hear_queued(message, started)
    return walk.facts()


def human_words(record: Record) -> str:
    """What a person said in a record: not results, not injected content, not a summary (FLAT-7)."""
    if record.kind == "attachment" and record.subtype == _QUEUED and record.blocks:
        return _queued(record.blocks[0])
    if record.kind != "user" or record.compact_summary or not is_shown_to_user(record):
        return ""
    said = (_human(block) for block in record.blocks)
    return "\n".join(text for text in said if text)


class _Queued(msgspec.Struct):
    prompt: str = ""


_read_queued = msgspec.json.Decoder(_Queued).decode


def _queued(block: Block) -> str:
    """A message that was typed while the model worked, as Claude Code attaches it."""
    try:
        return _read_queued(block.raw).prompt.strip()
    except msgspec.DecodeError:
        return ""


def _human(block: Block) -> str:
    if block.kind != "text":
        return _PICTURES.get(block.kind, "")
    return typed_words(text_of(block))


class _Walk:
    def __init__(self, tools: ToolTable) -> None:
        self._tools = tools
        self._turns = Turns()
        self._modes = ModeState()
        self._runs = CommandRuns()
        self._agents = AgentReports()
        self._background = BackgroundCommands()
        self._tasks = TaskList()
        # Wrapped texts before the first reply; the task, if no person said anything there.
        self._opening: list[QuotedText] = []
        self._has_begun = False
        self._expansion: QuotedText | None = None
        self._deeds: dict[str, ToolAction] = {}
        self._open: dict[str, ToolAction] = {}
        # Calls whose turn ended before their result; one that comes later still counts.
        self._abandoned: set[str] = set()
        # What open calls will have done to files if they succeed; a patch may touch several.
        self._begun: dict[str, tuple[ToolAction, ...]] = {}
        # Changes since the user's last message.
        self._changes: list[ToolAction] = []
        # Changes since then that failed, by file, until one of that file succeeds.
        self._unmade: dict[str, ToolAction] = {}
        self._failed: set[str] = set()
        self._refused: dict[str, str] = {}
        self._results: deque[Block] = deque(maxlen=_LAST_RESULTS)
        self._files: dict[str, FileWork] = {}
        # Paths of earlier summaries that may be the end of a longer one.
        self._loose: dict[str, None] = {}
        self._failures: list[ToolFailure] = []
        self._answers: list[QuotedText] = []
        self._pins: list[str] = []
        self._earlier = EarlierSummary()
        # Failures that were not followed by another action yet.
        self._unmet: list[int] = []

    def add(self, record: Record) -> None:
        if isinstance(record.edit, Pinned):
            self._pins.append(record.edit.text)
        if not is_sent(record):
            return
        self._modes.see(record)
        if record.kind == "assistant":
            self._hear_model(record)
        elif record.compact_summary:
            self._take_over("\n".join(text_of(block) for block in record.blocks))
        elif record.kind == "user":
            self._hear_person(record)
        elif text := human_words(record):
            self._hear_words(text, record.uuid)
        elif path := user_edits.file_attached(record):
            self._changed_by_user(path)

    def hear_queued(self, message: QueuedMessage, started: str) -> None:
        if message.timestamp >= started and (text := typed_words(message.text)):
            self._hear_words(text, "")

    def facts(self) -> Facts:
        turns = self._turns
        return Facts(
            messages=tuple(turns.messages),
            statements=tuple(turns.statements),
            task=self._task(),
            expansion=self._expansion,
            deeds=tuple(self._deeds.values()),
            changes=tuple(self._changes),
            unmade=tuple(self._unmade.values()),
            unanswered=tuple(self._open.values()),
            abandoned=frozenset(self._abandoned),
            background=self._background.running,
            failed=frozenset(self._failed),
            files=self._files,
            failures=tuple(self._failures),
            refused=self._refused,
            is_stopped=turns.is_stopped,
            refusal=turns.refusal,
            last_lines={block.call: lines for block in self._results if (lines := self._lines(block))},
            answers=tuple(self._answers),
            corrections=tuple(turns.corrections),
            reports=tuple(turns.reports),
            current=turns.current,
            agent_reports=self._agents.all(),
            own_work=tuple(turns.own_work),
            offer=turns.offer,
            tasks=self._tasks.all(),
            tasks_known=self._tasks.is_known,
            pins=tuple(dict.fromkeys(self._pins)),
            words=turns.words,
            earlier=self._earlier,
            is_answered=turns.is_answered,
            ends_with_words=turns.ends_with_words,
            state=self._state(),
        )

    def _task(self) -> QuotedText | None:
        heard = not self._has_begun and self._turns.messages
        return self._opening[-1] if self._opening and not heard else None

    def _begin_work(self) -> None:
        """What comes after the first reply is not the task. Before it a person's words are."""
        if not self._has_begun and self._turns.messages:
            self._opening.clear()
        self._has_begun = True

    def _state(self) -> WorkState:
        modes, runs = self._modes, self._runs
        return WorkState(
            permission=modes.permission,
            is_planning=modes.is_planning,
            plan=modes.plan,
            plan_approved=modes.is_approved,
            plan_refused=modes.is_refused,
            plan_refusal=modes.refusal,
            plan_age=modes.plan_age,
            conflicts=tuple(runs.merges.open),
            under_way=runs.merges.under_way,
            git_known=runs.merges.is_known,
            failing=tuple(
                msgspec.structs.replace(self._failures[at], passed_since=passed, hidden_since=hidden)
                for at, (passed, hidden) in runs.still_failing().items()
            ),
            programs=frozenset(runs.programs),
            commits=tuple(runs.commits),
            pushes=tuple(runs.pushes),
            requests=tuple(dict.fromkeys(runs.requests)),
            last_check=runs.last_check,
            unchecked=runs.unchecked(),
            uncommitted=runs.uncommitted(),
            running_agents=self._agents.running(),
        )

    def _lines(self, block: Block) -> tuple[str, ...]:
        """What a result shows of how its call ended: a failure, the end of an output, the first matches."""
        if block.call in self._failed:
            return () if block.call in self._refused else failures.telling_lines(block)[-1:]
        verb = self._deeds[block.call].verb if block.call in self._deeds else "other"
        if verb == "ran":
            return failures.last_lines(block, 1)
        return failures.first_lines(block, _MATCHES) if verb == "other" else ()

    def _take_over(self, text: str) -> None:
        self._begin_work()
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
                self._end(block, record)
            elif block.kind == "text":
                self._hear_harness(block, record.uuid)
                if not self._has_begun and is_shown_to_user(record):
                    self._hear_opening(block, record.uuid)
        if record.meta and not self._turns.is_answered:
            self._hear_expansion(record)
        if text := human_words(record):
            # A new turn: what has no result by now was interrupted.
            self._abandoned |= self._open.keys()
            self._open.clear()
            self._hear_words(text, record.uuid)

    def _hear_opening(self, block: Block, record: str) -> None:
        """Many programs hand the task over in a tag of their own, `<pr_description>...`."""
        text = text_of(block).strip()
        if text.startswith("<") and not text.startswith(_NO_TASK) and not typed_words(text):
            self._opening.append(QuotedText(text, record))

    def _hear_expansion(self, record: Record) -> None:
        """What the program puts behind a command that the user typed: the prompt that it stands for."""
        typed = self._turns.messages[-1].text if self._turns.messages else ""
        text = "\n".join(text_of(block) for block in record.blocks if block.kind == "text").strip()
        if typed.startswith("/") and not is_local(typed) and text and not text.startswith("<"):
            self._expansion = QuotedText(text, record.uuid, typed)

    def _hear_words(self, text: str, record: str) -> None:
        self._turns.heard(text, record)
        self._runs.merges.heard(text)
        if is_local(text):
            return
        self._modes.plan_age += 1
        if self._unmet:
            self._judge(self._unmet[-1], text)
        self._changes.clear()
        self._unmade.clear()

    def _hear_harness(self, block: Block, record: str) -> None:
        """What the harness says in the place of a person: an interruption, a notice, a reminder."""
        text = text_of(block).lstrip()
        if not text.startswith(("<", "[")):
            return
        if text.startswith(_INTERRUPTED):
            self._turns.interrupted()
        elif text.startswith(_REMINDER):
            self._modes.see_reminder(text)
            for path in user_edits.files_changed_by_user(block, ""):
                self._changed_by_user(path)
        else:
            if ended := self._background.notified(block):
                self._end_background(*ended, block, record)
            self._agents.notified(text, record)

    def _judge(self, at: int, words: str) -> None:
        """What a person says directly after a failure is about it."""
        failure = self._failures[at]
        if not failure.feedback and failure.deed.call == next(reversed(self._deeds), failure.deed.call):
            self._failures[at] = msgspec.structs.replace(failure, feedback=words)

    def _hear_model(self, record: Record) -> None:
        self._begin_work()
        is_synthetic = record.reply is not None and record.reply.is_synthetic
        for block in record.blocks:
            if block.is_call:
                self._turns.acted()
                self._begin(block)
            elif block.kind == "text" and not is_synthetic and (text := text_of(block).strip()):
                self._turns.said(text, record.uuid)

    def _begin(self, block: Block) -> None:
        given, row = read_tool_input(block), self._tools.find(block.tool)
        if row.does in TASK_PURPOSES:
            self._tasks.note(row.does, block.call, given)
        elif row.does in MODE_PURPOSES:
            self._modes.begin(row.does, block.call, given)
        done = read_tool_actions(block, given, row)
        deed = self._deeds[block.call] = self._open[block.call] = done[-1]
        if deed.verb in ("read", "edited", "wrote"):
            self._begun[block.call] = done
        if deed.verb in ("edited", "wrote", "ran"):
            self._meet(deed, self._unmet)
        elif row.does == "other":
            # After a failed test only a change or a run says what was done about it.
            self._meet(deed, filter(self._is_of_unknown_tool, self._unmet))

    def _succeed(self, call: str) -> None:
        """Only a result says that a file was read or changed: a call may fail or be refused."""
        for deed in self._begun.pop(call, ()):
            if not deed.target:
                continue
            self._touch(deed)
            if deed.verb != "read":
                self._changes.append(deed)
                self._unmade.pop(deed.target, None)
                self._runs.edited(deed.target)

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

    def _changed_by_user(self, path: str) -> None:
        known = self._known_as(path)
        before = self._files.get(known, FileWork(path))
        self._files[known] = msgspec.structs.replace(before, by_user=True)

    def _known_as(self, path: str) -> str:
        """A model's summary names files relative to the project's root; calls use absolute paths."""
        if path in self._files:
            return path
        loose = next((name for name in self._loose if path.endswith(f"/{name}")), path)
        self._loose.pop(loose, None)
        return loose

    def _is_of_unknown_tool(self, at: int) -> bool:
        return self._tools.find(self._failures[at].deed.tool).does == "other"

    def _meet(self, deed: ToolAction, failed: Iterable[int]) -> None:
        met = frozenset(failed)
        for at in met:
            self._failures[at] = msgspec.structs.replace(self._failures[at], then=deed)
        self._unmet = [at for at in self._unmet if at not in met]

    def _end(self, block: Block, record: Record) -> None:
        deed = (
            self._open.pop(block.call, None)
            or self._deeds.get(block.call)
            or ToolAction(block.call, "", "other")
        )
        self._abandoned.discard(block.call)
        self._results.append(block)
        if over := self._background.polled(deed.target, block):
            self._end_background(*over, block, record.uuid)
            return
        ran = deed.verb == "ran"
        failed = failures.is_error(block) or _reports_failure(deed, block)
        if failed:
            self._fail(block, deed, record.uuid)
        if ran and not failed:
            self._background.started(deed, block)
        if ran:
            refused = block.call in self._refused
            for at in self._runs.ended(deed.target, block, failed=failed, was_refused=refused):
                self._failures[at] = msgspec.structs.replace(self._failures[at], passed=True)
        elif not failed:
            self._succeed(block.call)
        self._end_special(block, deed, record.uuid, failed=failed)
        for path in user_edits.files_changed_by_user(block, deed.target):
            self._changed_by_user(path)
        if deed.verb in ("edited", "wrote") and user_edits.was_modified_by_user(record):
            self._changed_by_user(deed.target)

    def _end_background(self, deed: ToolAction, how: BackgroundEnd, block: Block, record: str) -> None:
        """The result or notice that says how a command in the background ended."""
        if how == "killed":
            return
        if failed := how == "failed" or commands.has_failed(deed.target, block):
            self._fail(block, deed, record)
        for at in self._runs.ended(deed.target, block, failed=failed):
            self._failures[at] = msgspec.structs.replace(self._failures[at], passed=True)

    def _end_special(self, block: Block, deed: ToolAction, record: str, *, failed: bool) -> None:
        """Results that are read for what they say: of tasks, questions, plans and agents."""
        does = self._tools.find(deed.tool).does
        if does in MODE_PURPOSES:
            self._modes.end(does, block.call, text_of(block), failed=failed)
        elif does == "stops_agent":
            self._background.stopped(deed.target)
            self._agents.stopped(deed.target)
        elif does in ("runs_agent", "collects_agent"):
            self._agents.returned(deed.target, text_of(block), record, failed=failed)
        elif failed:
            return
        elif does == "adds_task":
            self._tasks.number(block.call, text_of(block))
        elif does == "tracks_tasks":
            self._tasks.read_list(text_of(block))
        elif does == "asks":
            self._answers.append(QuotedText(text_of(block), record))

    def _fail(self, block: Block, deed: ToolAction, record: str) -> None:
        self._failed.add(deed.call)
        lines = failures.telling_lines(block)
        if lines and failures.was_refused(lines[0]):
            words = failures.words_of_refusal(text_of(block))
            self._turns.refused(words, record, f"{deed.tool} {deed.target}".strip())
            self._runs.merges.heard(words)
            self._refused[block.call] = words
            return
        if lines:
            at = len(self._failures)
            self._unmet.append(at)
            self._failures.append(ToolFailure(deed, lines))
            if deed.verb in ("edited", "wrote") and deed.target:
                self._unmade[deed.target] = deed
            if deed.verb == "ran":
                self._runs.failed(at, deed.target)


def _reports_failure(deed: ToolAction, block: Block) -> bool:
    """By its text. What was read may begin with the word "error" without being one."""
    if deed.verb == "ran":
        return commands.has_failed(deed.target, block)
    return deed.verb != "read" and failures.begins_with_error(block)
