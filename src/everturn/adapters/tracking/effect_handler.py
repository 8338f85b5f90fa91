"""The world of a shadow: files in its folder, and the caller's own way to the model.

A summary is asked for on the caller's connection, with the caller's key. Whatever limits its answers, an
output of a few tokens or words to stop at, must not limit a summary: none of it is part of the cache key.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from everturn.decide.effects import (
    AskModel,
    Emit,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)
from everturn.history.records import Usage
from everturn.measure.model_table import model_or_default
from everturn.session.effect_handler import Listener, LocalEffectHandler, to_model_failure
from everturn.session.files import Roots
from everturn.session.upstream import RawResponse, Send, UpstreamError
from everturn.wire.anthropic import compaction_usage, read_response

AsyncSend = Callable[[bytes, Sequence[str]], Awaitable[RawResponse]]
UsageCallback = Callable[[AskModel, Usage], None]

# What a summary may need; the default of a session's own requests, too (`session/session.py`).
SUMMARY_MAX_TOKENS: Final = 16_000


def refuse_to_send(_: bytes, __: Sequence[str]) -> RawResponse:
    """A way to the model that is none: whoever drives a flow brings the caller's."""
    raise UpstreamError(0, "no_way", "nobody gave this conversation a way to the model")


class TrackingEffectHandler(LocalEffectHandler):
    """Under a sync driver."""

    def __init__(
        self, send: Send, folder: Path, *, readable: Roots | None, listen: Listener, paid: UsageCallback
    ) -> None:
        super().__init__(send, folder, readable=readable, listen=listen)
        self._sends = send
        self._may_read = readable is not None
        self._paid = paid

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        if not self._may_read:
            problem = "no folder was given that files may be read from"
            return tuple(FileRead(path, problem=problem) for path in effect.paths)
        return super().read_files(effect)

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        asked = lift_output_limits(effect)
        try:
            return self.heard(asked, self._sends(asked.request.to_bytes(), asked.betas))
        except UpstreamError as problem:
            return to_model_failure(problem)

    def heard(self, effect: AskModel, answered: RawResponse) -> ModelAnswer | ModelFailure:
        try:
            response = read_response(answered.body, request_id=answered.request_id)
        except msgspec.DecodeError as problem:
            return ModelFailure("api_error", f"the provider's answer is no message: {problem}")
        is_provider = effect.way == "provider"
        usage = compaction_usage(answered.body) if is_provider else response.reply.usage or Usage()
        self._paid(effect, usage)
        return ModelAnswer(response.blocks, response.reply.stop_reason, usage)


class AsyncTrackingEffectHandler:
    """The same under an async driver: what touches the disk does so in a thread."""

    def __init__(
        self, send: AsyncSend, folder: Path, *, readable: Roots | None, listen: Listener, paid: UsageCallback
    ) -> None:
        self._send = send
        self._world = TrackingEffectHandler(
            refuse_to_send, folder, readable=readable, listen=listen, paid=paid
        )

    async def write_file(self, effect: WriteFile) -> str:
        return await asyncio.to_thread(self._world.write_file, effect)

    async def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        return await asyncio.to_thread(self._world.read_files, effect)

    async def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return await asyncio.to_thread(self._world.run_hooks, effect)

    async def emit(self, effect: Emit) -> None:
        self._world.emit(effect)

    async def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        asked = lift_output_limits(effect)
        try:
            return self._world.heard(asked, await self._send(asked.request.to_bytes(), asked.betas))
        except UpstreamError as problem:
            return to_model_failure(problem)


def lift_output_limits(effect: AskModel) -> AskModel:
    request = effect.request
    settings = {name: value for name, value in request.settings.items() if name != "stop_sequences"}
    most = model_or_default(request.model).model.max_output
    settings["max_tokens"] = max(settings.get("max_tokens") or 0, min(SUMMARY_MAX_TOKENS, most))
    return msgspec.structs.replace(effect, request=msgspec.structs.replace(request, settings=settings))
