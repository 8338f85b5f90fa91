"""What a flow may ask of the world. Each effect is a value; whoever drives the flow performs it and answers.

A flow is a generator that yields these and is sent what comes of them. It contains no I/O, so the same flow
runs under a sync driver, an async one, one on virtual time, and one that fails every effect in turn (OV-2).

    WriteFile   -> str                  the path the text is at
    ReadFiles   -> tuple[FileRead, ...] in the order asked for, failures included
    AskModel    -> Answer | Failure     one call of a model, retries included
    RunHooks    -> HookOutcome          every hook of one event, in a fixed order
    Emit        -> None                 something that happened, for whoever listens
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from everturn.history.blocks import Block
from everturn.history.records import Usage
from everturn.view.forks import CapturedRequest
from everturn.wire.anthropic import Request
from everturn.wire.overflow import Overflow

CallPurpose = Literal["compact", "session_memory"]
# Why a call of a model gave nothing: the window, the provider, the line, or whoever cancelled it.
# calls_spent is our own word: nobody was asked, because enough calls were made.
FailureKind = Literal["too_long", "api_error", "refused", "timeout", "cancelled", "calls_spent"]
HookEvent = Literal[
    "PreCompact", "PostCompact", "SessionStart", "SessionEnd",
    "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
]  # fmt: skip


class WriteFile(msgspec.Struct, frozen=True):
    """Keep this text where the model can read it."""

    name: str
    text: str


class ReadFiles(msgspec.Struct, frozen=True):
    """The current content of files, each up to so many characters."""

    paths: tuple[str, ...]
    max_characters: int


class FileRead(msgspec.Struct, frozen=True):
    """A file as it is now; `problem` says why there is no text."""

    path: str
    text: str = ""
    is_cut: bool = False
    problem: str = ""


class AskModel(msgspec.Struct, frozen=True):
    """One call. `way` is "fork" where it shares the conversation's cached prefix, "direct" where not."""

    request: Request
    betas: tuple[str, ...]
    purpose: CallPurpose
    way: Literal["fork", "direct", "provider"]
    # The conversation, or the part of it, that the request begins with; None where it shares nothing.
    parent: CapturedRequest | None = None


class ModelAnswer(msgspec.Struct, frozen=True):
    """What the model said."""

    blocks: tuple[Block, ...]
    stop_reason: str
    usage: Usage


class ModelFailure(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    kind: FailureKind
    message: str
    overflow: Overflow | None = None


class RunHooks(msgspec.Struct, frozen=True):
    event: HookEvent
    payload: Mapping[str, Any]


# What hooks say about a tool call; empty where none of them says anything.
HookPermission = Literal["", "allow", "ask", "deny"]


class HookOutcome(msgspec.Struct, frozen=True):
    """All hooks of an event together. `blocked` is the reason one of them gave; empty where none did.

    The rest is for events of the loop: `asks` is why a person must decide, `ended` why nothing more is to be
    done, and what is `updated` takes the place of what a tool was given, or of what came out of it.
    """

    instructions: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    blocked: str = ""
    permission: HookPermission = ""
    asks: str = ""
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any = None
    ended: str = ""


class Emit(msgspec.Struct, frozen=True):
    """A typed event (TL-1). What it is made of: `decide/events.py`."""

    event: msgspec.Struct


Effect = WriteFile | ReadFiles | AskModel | RunHooks | Emit
