"""Carries out effects for tracked conversations: files, hooks, requests on the caller's connection.

A summary is requested on the caller's connection, with the caller's API key, and sent again after a passing
error (`summary_retries.py`). The caller's output limits (a small `max_tokens`, `stop_sequences`) are lifted
for a summary. They are not part of the cache key. What forces another form of answer is lifted too, a tool
call or a JSON format: it is part of the key, so that the messages are not read from the cache.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.summary_retries import RetryClock, retry, retry_async
from everturn.adapters.tracking.system_messages import OUTPUT_CONFIG_BETAS, encode_request
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
from everturn.decide.events import Compacting, EventContext, SummaryUncached, make_hook_trouble
from everturn.errors import InvalidResponseError, UpstreamError
from everturn.history.records import Usage
from everturn.measure.model_table import model_or_default
from everturn.session.effect_handler import Listener, LocalEffectHandler, to_model_failure
from everturn.session.files import Roots
from everturn.session.hooks.run import Hooks
from everturn.session.upstream import RawResponse, Send, parse_reply
from everturn.wire.anthropic import Request
from everturn.wire.json_values import as_object

AsyncSend = Callable[[bytes, Sequence[str]], Awaitable[RawResponse]]
# The request for a summary, what it used, and the model that wrote it.
UsageCallback = Callable[[AskModel, Usage, str], None]

# Enough for a summary; also the default for a session's own requests (`session/session.py`).
SUMMARY_MAX_TOKENS: Final = 16_000
_FORCED: Final = ("any", "tool")


def refuse_to_send(_: bytes, __: Sequence[str]) -> RawResponse:
    """A `send` that always fails, for places where the caller's `send` is passed in later."""
    raise UpstreamError(0, "no_way", "this conversation has no connection to the model")


class TrackingEffectHandler(LocalEffectHandler):
    """For the sync driver."""

    def __init__(
        self,
        send: Send,
        folder: Path,
        *,
        readable: Roots | None,
        hooks: Hooks,
        listen: Listener,
        on_usage: UsageCallback,
        moment: Callable[[], EventContext],
        encode: Callable[[AskModel], bytes],
    ) -> None:
        super().__init__(
            send, folder, readable=readable, hooks=hooks, listen=listen, waiting=self.tell_waiting
        )
        self.began = time.monotonic()
        self._moment = moment
        self._sends = send
        self._may_read = readable is not None
        self._on_usage = on_usage
        self.encode = encode
        # Why the last summary request could not have the key of the conversation; empty if it had.
        self._changed_key = ""

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        if not self._may_read:
            problem = "no readable folder was configured"
            return tuple(FileRead(path, problem=problem) for path in effect.paths)
        return super().read_files(effect)

    def emit(self, effect: Emit) -> None:
        event = effect.event
        if isinstance(event, SummaryUncached) and self._changed_key:
            effect = Emit(msgspec.structs.replace(event, why=self._changed_key))
        super().emit(effect)

    def lift_limits(self, effect: AskModel) -> AskModel:
        """The request for a summary without the caller's limits; remembers whether the key has changed."""
        self._changed_key = explain_changed_key(effect.request)
        return lift_output_limits(effect)

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        asked = self.lift_limits(effect)
        with self.ticking(asked):
            try:
                body = self.encode(asked)
                raw = retry(lambda: self._sends(body, asked.betas), RetryClock(self.began))
                return self.read_answer(asked, raw)
            except UpstreamError as problem:
                return to_model_failure(problem)

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return self._report_trouble(effect, super().run_hooks(effect))

    async def run_hooks_async(self, effect: RunHooks) -> HookOutcome:
        return self._report_trouble(effect, await self._hooks.run_async(effect))

    def _report_trouble(self, effect: RunHooks, outcome: HookOutcome) -> HookOutcome:
        problem = make_hook_trouble(effect.event, outcome, self._moment())
        if problem is not None:
            self.emit(Emit(problem))
        return outcome

    def tell_waiting(self, effect: AskModel) -> None:
        """Report that a summary is being written, and for how long (CP-7)."""
        seconds = time.monotonic() - self.began
        self.emit(Emit(Compacting(moment=self._moment(), way=effect.strategy, seconds=seconds, characters=0)))

    def read_answer(self, effect: AskModel, raw: RawResponse) -> ModelAnswer | ModelFailure:
        try:
            response = parse_reply(raw, self._wire).response
        except InvalidResponseError as problem:
            return ModelFailure("api_error", problem.message)
        usage = self._wire.summary_usage(raw.body, by_provider=effect.strategy == "provider")
        # The reply names the model that is paid: a fallback may have answered.
        self._on_usage(effect, usage, response.reply.model or effect.request.model)
        return ModelAnswer(response.blocks, response.reply.stop_reason, usage)


class AsyncTrackingEffectHandler:
    """For the async driver. Disk access runs in a thread; an async hook runs on the caller's event loop."""

    def __init__(self, send: AsyncSend, folder: Path, **options: Any) -> None:
        self._send = send
        self._handler = TrackingEffectHandler(refuse_to_send, folder, **options)

    async def write_file(self, effect: WriteFile) -> str:
        return await asyncio.to_thread(self._handler.write_file, effect)

    async def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        return await asyncio.to_thread(self._handler.read_files, effect)

    async def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return await self._handler.run_hooks_async(effect)

    async def emit(self, effect: Emit) -> None:
        self._handler.emit(effect)

    async def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        asked = self._handler.lift_limits(effect)
        with self._handler.ticking(asked):
            try:
                body = self._handler.encode(asked)
                raw = await retry_async(
                    lambda: self._send(body, asked.betas), RetryClock(self._handler.began)
                )
                return self._handler.read_answer(asked, raw)
            except UpstreamError as problem:
                return to_model_failure(problem)


class DeferredEffectHandler:
    """A handler, sync or async, that is made when the first effect comes: most turns have none."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def _handler(self) -> Any:
        return self._make()

    def write_file(self, effect: WriteFile) -> Any:
        return self._handler.write_file(effect)

    def read_files(self, effect: ReadFiles) -> Any:
        return self._handler.read_files(effect)

    def ask_model(self, effect: AskModel) -> Any:
        return self._handler.ask_model(effect)

    def run_hooks(self, effect: RunHooks) -> Any:
        return self._handler.run_hooks(effect)

    def emit(self, effect: Emit) -> Any:
        return self._handler.emit(effect)


def encode_summary_request(effect: AskModel, *, native: bool) -> bytes:
    """The bytes of a summary request. A fork repeats the caller's system messages, with their role if the
    caller uses it (`native`); the model of a separate request may not know that role."""
    return encode_request(
        effect.request,
        native=native and effect.parent is not None,
        has_config=not OUTPUT_CONFIG_BETAS.isdisjoint(effect.betas),
    )


def lift_output_limits(effect: AskModel) -> AskModel:
    """The same request without the caller's limits on the output, see above."""
    request = effect.request
    settings = {name: value for name, value in request.settings.items() if name != "stop_sequences"}
    if _forces_call(request):
        settings["tool_choice"] = {"type": "none"}
    if _has_format(request):
        config = {name: value for name, value in settings.pop("output_config").items() if name != "format"}
        settings |= {"output_config": config} if config else {}
    limit = model_or_default(request.model).model.max_output
    settings["max_tokens"] = max(settings.get("max_tokens") or 0, min(SUMMARY_MAX_TOKENS, limit))
    return msgspec.structs.replace(effect, request=msgspec.structs.replace(request, settings=settings))


def explain_changed_key(request: Request) -> str:
    """Why a summary request has another cache key than the conversation; empty if it has the same."""
    if _forces_call(request):
        return "the conversation's requests force a tool call by tool_choice, and a summary must be text"
    if _has_format(request):
        return "the conversation's requests ask for an output format, and a summary must be text"
    return ""


def _forces_call(request: Request) -> bool:
    return as_object(request.settings.get("tool_choice")).get("type") in _FORCED


def _has_format(request: Request) -> bool:
    return bool(as_object(request.settings.get("output_config")).get("format"))
