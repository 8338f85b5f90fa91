"""What a summary must not lose of a conversation, as plain values in order of occurrence."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

# Commands of Claude Code that no model sees.
_LOCAL: Final = frozenset(
    {
        "/exit", "/quit", "/clear", "/compact", "/model", "/cost", "/context", "/config", "/login", "/logout",
        "/help", "/status", "/resume", "/mcp", "/permissions", "/memory", "/doctor", "/usage", "/rewind",
        "/plugin", "/agents", "/hooks", "/ide", "/theme", "/vim", "/add-dir", "/bashes", "/output-style",
        "/release-notes",
    }
)  # fmt: skip
Verb = Literal["read", "edited", "wrote", "ran", "tracked", "other"]
Status = Literal["pending", "in_progress", "completed"]


def is_local(words: str) -> bool:
    """Whether a message is a command for the program, such as `/exit`."""
    return words.startswith("/") and words.split(maxsplit=1)[0] in _LOCAL


class QuotedText(msgspec.Struct, frozen=True, gc=False):
    """Words of a person or of the model. `record` is empty for those carried over from an earlier summary.

    `about` is what they need to be understood: the question that a short message answers, what a correction
    corrects, the message that a report of the model ended.
    """

    text: str
    record: str = ""
    about: str = ""
    # A model listed it in a summary: nobody can tell whether the person said it.
    is_reported: bool = False


class ToolAction(msgspec.Struct, frozen=True, gc=False):
    """One tool call. `target` is its path, command, or what else identifies it among
    calls of the same tool; `detail` is where in it: lines that were read, the first line that was written.
    """

    call: str
    tool: str
    verb: Verb
    target: str = ""
    new_text: str = ""
    detail: str = ""


class FileWork(msgspec.Struct, frozen=True, gc=False):
    """What was done to one file. `notes` are lines that an earlier summary had about it."""

    path: str
    read: int = 0
    edited: int = 0
    wrote: int = 0
    new_text: str = ""
    notes: str = ""
    # The user, or a linter, changed it after it was last read or written here.
    by_user: bool = False

    @property
    def changed(self) -> int:
        return self.edited + self.wrote


class ToolFailure(msgspec.Struct, frozen=True, gc=False):
    """A failed result, what was done next, and what the user said about it. `passed`: the same command ended
    without a failure later; `passed_since` is another run of tests that did; `hidden_since` is a run of the
    same whose output was filtered or written to a file, so that nobody saw how it ended.
    """

    deed: ToolAction
    lines: tuple[str, ...]
    then: ToolAction | None = None
    feedback: str = ""
    passed: bool = False
    passed_since: str = ""
    hidden_since: str = ""


class AgentReport(msgspec.Struct, frozen=True, gc=False):
    """What another agent reported to this one; `name` is the task it was given."""

    name: str
    text: str
    record: str = ""
    failed: bool = False


class WorkState(msgspec.Struct, frozen=True, kw_only=True):
    """What is true at the end, whatever was said: modes, conflicts, failing commands, commits."""

    permission: str = ""
    is_planning: bool = False
    plan: str = ""
    plan_approved: bool = False
    plan_refused: bool = False
    # What the user said when they refused it.
    plan_refusal: str = ""
    # Messages of the user since it was presented.
    plan_age: int = 0
    conflicts: tuple[str, ...] = ()
    under_way: str = ""
    # Whether git was used at all: then an earlier summary no longer decides about conflicts.
    git_known: bool = False
    # Checks whose last run failed, and programs that ran since the last summary.
    failing: tuple[ToolFailure, ...] = ()
    programs: frozenset[str] = frozenset()
    commits: tuple[str, ...] = ()
    pushes: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    # The last command that tests, builds or commits; files that were changed after it, and after a commit.
    last_check: str = ""
    unchecked: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    running_agents: tuple[str, ...] = ()


class TaskItem(msgspec.Struct, frozen=True, gc=False):
    text: str
    status: Status = "pending"


class EarlierSummary(msgspec.Struct, frozen=True):
    """What earlier summaries carried over. `items` are whole entries by section number."""

    messages: tuple[QuotedText, ...] = ()
    # The number of messages, and of their characters, that are no longer in it at all.
    missing: tuple[int, int] = (0, 0)
    standing: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    files: tuple[FileWork, ...] = ()
    concepts: Mapping[str, int] = {}
    items: Mapping[int, tuple[str, ...]] = {}
    intent: str = ""
    task: str = ""
    # A summary without these sections, in its own words: notes, or another program's.
    prose: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    messages: tuple[QuotedText, ...] = ()
    statements: tuple[QuotedText, ...] = ()
    # What a conversation began with if that was no person's words: a program wrapped it, and nobody can tell
    # who wrote it. It may be all that says what the work is about.
    task: QuotedText | None = None
    # The prompt that the program put in the place of a command that the user typed, such as "/review".
    expansion: QuotedText | None = None
    deeds: tuple[ToolAction, ...] = ()
    # What was changed since the user's last message; not what failed, was refused or has no result.
    changes: tuple[ToolAction, ...] = ()
    # The last failed change of each file since then, if none of that file succeeded after it.
    unmade: tuple[ToolAction, ...] = ()
    unanswered: tuple[ToolAction, ...] = ()
    # Calls whose turn ended without their result: nobody knows what they did.
    abandoned: frozenset[str] = frozenset()
    # Commands that still run in the background, by the id that the harness gave them.
    background: Mapping[str, ToolAction] = {}
    failed: frozenset[str] = frozenset()
    files: Mapping[str, FileWork] = {}
    failures: tuple[ToolFailure, ...] = ()
    # Calls that the user refused, and what they said.
    refused: Mapping[str, str] = {}
    # Whether the user interrupted the model and has said nothing since; the call that they refused then.
    is_stopped: bool = False
    refusal: QuotedText | None = None
    # Telling lines of the last results, by call.
    last_lines: Mapping[str, tuple[str, ...]] = {}
    # Answers that the user gave through a tool.
    answers: tuple[QuotedText, ...] = ()
    corrections: tuple[QuotedText, ...] = ()
    # The last words of the model before each message of the user, and its words since the last one.
    reports: tuple[QuotedText, ...] = ()
    current: tuple[QuotedText, ...] = ()
    agent_reports: tuple[AgentReport, ...] = ()
    # Sentences in which the user says what they did themselves.
    own_work: tuple[QuotedText, ...] = ()
    # What the model offered to do, if the user has neither accepted nor declined it.
    offer: str = ""
    state: WorkState = WorkState()
    tasks: tuple[TaskItem, ...] = ()
    tasks_known: bool = False
    pins: tuple[str, ...] = ()
    words: Mapping[str, int] = {}
    earlier: EarlierSummary = EarlierSummary()
    # Whether the model said or did anything after the last message.
    is_answered: bool = False
    # Whether the last thing it did was to say something.
    ends_with_words: bool = False

    @property
    def all_messages(self) -> tuple[QuotedText, ...]:
        return (*self.earlier.messages, *self.messages)

    @property
    def last_request(self) -> QuotedText | None:
        """The user's last message that is for the model, not for the program that runs it."""
        every = (said for said in reversed(self.all_messages) if not is_local(said.text))
        return next(every, None)
