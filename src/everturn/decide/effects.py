"""The effects that a flow can request. Each is a value; the driver of the flow performs
it and returns the result.

A flow is a generator that yields effects and is sent their results. It contains no I/O, so the same flow runs
under a sync driver, an async one, one on virtual time, and one that fails every effect in turn (OV-2).

    effect      function       result
    WriteFile   write_file     str: the path the text is at
    ReadFiles   read_files     tuple[FileRead, ...]: in the order asked for, failures included
    AskModel    ask_model      ModelAnswer | ModelFailure: one call of a model, retries included
    RunHooks    run_hooks      HookOutcome: every hook of one event, in a fixed order
    Emit        emit           None: something that happened, for listeners

A flow uses the functions (`answer = yield from ask_model(...)`): they give the result its type, and refuse a
result of another type by name, so that a handler with a mistake fails where it answers.
"""

from collections.abc import Generator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from everturn.history.blocks import Block
from everturn.history.records import Usage
from everturn.view.forks import CapturedRequest
from everturn.wire.anthropic import Request
from everturn.wire.overflow import Overflow

CallPurpose = Literal["compact", "session_memory"]
# Why a model call returned nothing: the window, the provider, the network, or a cancellation. calls_spent is
# our own: no call was made, because the limit of calls was reached.
FailureKind = Literal["too_long", "api_error", "refused", "timeout", "cancelled", "calls_spent"]
HookEvent = Literal[
    "PreCompact", "PostCompact", "SessionStart", "SessionEnd",
    "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
    "SubagentStart", "SubagentStop", "PermissionRequest", "InstructionsLoaded",
]  # fmt: skip


class WriteFile(msgspec.Struct, frozen=True):
    """Store this text where the model can read it."""

    name: str
    text: str


class ReadFiles(msgspec.Struct, frozen=True):
    """The current content of files, each up to a maximum of characters."""

    paths: tuple[str, ...]
    max_characters: int


class FileRead(msgspec.Struct, frozen=True):
    """A file as it is now; `problem` says why there is no text."""

    path: str
    text: str = ""
    is_cut: bool = False
    problem: str = ""


class AskModel(msgspec.Struct, frozen=True):
    """One model call. The strategies "fork" and "provider" share the conversation's cached prefix."""

    request: Request
    betas: tuple[str, ...]
    purpose: CallPurpose
    strategy: Literal["fork", "direct", "provider"]
    # The conversation, or the part of it, that the request begins with; None if it shares nothing.
    parent: CapturedRequest | None = None
    # The same request again, shortened, after a "too long" error (CP-9).
    is_overflow_retry: bool = False


class ModelAnswer(msgspec.Struct, frozen=True):
    """The answer of the model."""

    blocks: tuple[Block, ...]
    stop_reason: str
    usage: Usage
    # Who wrote it, and is paid; "" if the reply does not say, then it is the model of the request.
    model: str = ""


class ModelFailure(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    kind: FailureKind
    message: str
    overflow: Overflow | None = None


class RunHooks(msgspec.Struct, frozen=True):
    event: HookEvent
    payload: Mapping[str, Any]


# The decision of hooks about a tool call; empty if none of them made one.
HookPermission = Literal["", "allow", "ask", "deny"]


class HookOutcome(msgspec.Struct, frozen=True):
    """The combined result of all hooks of an event. `blocked` is the reason that one of
    them gave; empty if none did.

    The other fields are for events of the agent loop: `asks` is why a person must decide, `ended` why the
    loop must stop, and `updated` replaces the input of a tool, or its output.
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
    """A typed event (TL-1); the types are in `decide/events.py`."""

    event: msgspec.Struct


Effect = WriteFile | ReadFiles | AskModel | RunHooks | Emit
EffectResult = str | tuple[FileRead, ...] | ModelAnswer | ModelFailure | HookOutcome | None
T = TypeVar("T")
# A flow that returns a T.
Flow = Generator[Effect, EffectResult, T]


def write_file(effect: WriteFile) -> Flow[str]:
    result = yield effect
    if isinstance(result, str):
        return result
    raise _wrong_result(effect, result)


def read_files(effect: ReadFiles) -> Flow[tuple[FileRead, ...]]:
    result = yield effect
    if isinstance(result, tuple):
        return result
    raise _wrong_result(effect, result)


def ask_model(effect: AskModel) -> Flow[ModelAnswer | ModelFailure]:
    result = yield effect
    if isinstance(result, ModelAnswer | ModelFailure):
        return result
    raise _wrong_result(effect, result)


def run_hooks(effect: RunHooks) -> Flow[HookOutcome]:
    result = yield effect
    if isinstance(result, HookOutcome):
        return result
    raise _wrong_result(effect, result)


def emit(event: msgspec.Struct) -> Flow[None]:
    yield Emit(event)


def _wrong_result(effect: Effect, result: EffectResult) -> TypeError:
    return TypeError(
        f"the handler answered the effect {type(effect).__name__} with a value of type "
        f"{type(result).__name__}; `everturn.decide.effects` lists what each effect is answered with"
    )
