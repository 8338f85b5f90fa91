"""What a summary must not lose of a conversation, as plain values in order of occurrence."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Verb = Literal["read", "edited", "wrote", "ran", "other"]
Status = Literal["pending", "in_progress", "completed"]


class QuotedText(msgspec.Struct, frozen=True, gc=False):
    """Words of a person or of the model. `record` is empty for those carried over from an earlier summary."""

    text: str
    record: str = ""


class ToolAction(msgspec.Struct, frozen=True, gc=False):
    """One tool call. `target` is its path, command, or what else identifies it among
    calls of the same tool.
    """

    call: str
    tool: str
    verb: Verb
    target: str = ""
    new_text: str = ""


class FileWork(msgspec.Struct, frozen=True, gc=False):
    """What was done to one file. `notes` are lines that an earlier summary had about it."""

    path: str
    read: int = 0
    edited: int = 0
    wrote: int = 0
    new_text: str = ""
    notes: str = ""

    @property
    def changed(self) -> int:
        return self.edited + self.wrote


class ToolFailure(msgspec.Struct, frozen=True, gc=False):
    """A failed result, what was done next, and what the user said about it."""

    deed: ToolAction
    lines: tuple[str, ...]
    then: ToolAction | None = None
    feedback: str = ""


class TaskItem(msgspec.Struct, frozen=True, gc=False):
    text: str
    status: Status = "pending"


class EarlierSummary(msgspec.Struct, frozen=True):
    """What earlier summaries carried over. `items` are whole entries by section number."""

    messages: tuple[QuotedText, ...] = ()
    # The number of messages, and of their characters, that are no longer in it at all.
    missing: tuple[int, int] = (0, 0)
    standing: tuple[str, ...] = ()
    files: tuple[FileWork, ...] = ()
    concepts: Mapping[str, int] = {}
    items: Mapping[int, tuple[str, ...]] = {}
    intent: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    messages: tuple[QuotedText, ...] = ()
    statements: tuple[QuotedText, ...] = ()
    deeds: tuple[ToolAction, ...] = ()
    unanswered: tuple[ToolAction, ...] = ()
    failed: frozenset[str] = frozenset()
    files: Mapping[str, FileWork] = {}
    failures: tuple[ToolFailure, ...] = ()
    # Answers that the user gave through a tool, and the words with which they refused one.
    answers: tuple[QuotedText, ...] = ()
    tasks: tuple[TaskItem, ...] = ()
    tasks_known: bool = False
    pins: tuple[str, ...] = ()
    words: Mapping[str, int] = {}
    earlier: EarlierSummary = EarlierSummary()
    # Whether the model said or did anything after the last message.
    is_answered: bool = False

    @property
    def all_messages(self) -> tuple[QuotedText, ...]:
        return (*self.earlier.messages, *self.messages)
