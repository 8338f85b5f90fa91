"""The capability for pydantic-ai agents:

    agent = Agent(model, capabilities=[Everturn()])

The run's history keeps every message; the model gets the engine's messages, built anew for each attempt. If
everturn fails, it reports the error and the agent's own request is sent (`docs/pydantic-ai.md`).
"""

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

import msgspec
from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelContextWindowExceededError, RetryModelRequest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext

from everturn.adapters.framework import (
    FrameworkAdapter,
    build_response,
    is_bad_request,
    is_too_long,
    may_have_cost,
)
from everturn.adapters.pydantic_ai.call import PydanticAICall, model_name
from everturn.adapters.pydantic_ai.messages import convert_message, to_framework_reply
from everturn.adapters.tracking import AsyncSend, PreparedCall, UnsupportedRequest
from everturn.adapters.tracking.summary_retries import make_send_error
from everturn.adapters.tracking.tracker import NOT_PAID, NOT_RECORDED
from everturn.decide.options import Options
from everturn.session.upstream import RawResponse


class Everturn(FrameworkAdapter, AbstractCapability[Any]):
    """One instance serves any number of agents and runs. `summary_model` is a model or its name and
    overrides the option `compact.summary_model`; the other arguments are those of `FrameworkAdapter`."""

    def __init__(self, options: Options | str | None = None, **arguments: Any) -> None:
        super().__init__(
            options,
            model_name=model_name,
            convert=lambda messages: [convert_message(each).converted for each in messages],
            **arguments,
        )
        self._reset()

    def _reset(self) -> None:
        """Clear the state of one model request, before each step of a run."""
        self._call: PydanticAICall | None = None
        self._prepared: PreparedCall | None = None
        # The kinds of refusals that were answered with another request.
        self._handled: set[str] = set()
        self._refusal: Exception | None = None
        # Whether a request may have been sent that has no reply yet.
        self._is_sent = False

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """The recall tool, if the option `recall.enabled` is set."""
        if not self.tracker.parts.options.recall.enabled:
            return None
        definition = self.recall_tool.definition

        def recall(ctx: RunContext[Any], **given: Any) -> str:
            return self.answer_recall(given, ctx.tool_call_id or "")

        tool = Tool[Any].from_schema(
            recall,
            name=definition["name"],
            description=definition["description"],
            json_schema=definition["input_schema"],
            takes_ctx=True,
        )
        return FunctionToolset([tool])

    async def for_run(self, ctx: Any) -> Self:
        """A copy for one run: its steps are sequential, but runs are concurrent. The tracker is shared."""
        copied = copy.copy(self)
        copied._reset()
        return copied

    async def wrap_model_request(
        self, ctx: Any, *, request_context: ModelRequestContext, handler: Callable[..., Awaitable[Any]]
    ) -> ModelResponse:
        """A stream that breaks or is left, and a run that is cancelled, end here and in no other hook."""
        try:
            return await handler(request_context)
        except BaseException as problem:
            self._note_if_lost(problem)
            raise

    def _note_if_lost(self, problem: BaseException) -> None:
        """If a request has ended without a reply that may have been paid, the bill says so."""
        is_sent, self._is_sent = self._is_sent, False
        if is_sent and may_have_cost(problem):
            self.tracker.note_lost_reply()

    async def prepare_model_request(
        self, ctx: Any, request_context: ModelRequestContext
    ) -> ModelRequestContext:
        attempt = await self._prepare(request_context)
        self._is_sent = True
        return attempt

    async def _prepare(self, request_context: ModelRequestContext) -> ModelRequestContext:
        self._prepared = None
        if self._refusal is not None:
            return request_context
        try:
            call = PydanticAICall(request_context)
            read = self.tracker.read(call.body())
            if isinstance(read, UnsupportedRequest):
                return request_context
            send = self._make_send(call)
            hold = send if call.is_anthropic else None
            prepared = await self.tracker.prepare_async(read, send, hold=hold)
            attempt = call.build_request(prepared)
        except Exception as problem:
            self.tracker.report_failure(problem)
            return request_context
        self._call, self._prepared = call, prepared
        return attempt

    async def on_model_request_error(
        self, ctx: Any, *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """If the prompt is too long: compact once and retry. If a compacted view was rejected otherwise: undo
        the compaction once and retry. Then retry with the agent's own request, unless that cannot fit: if it
        is accepted, the prepared one was at fault."""
        self._note_if_lost(error)
        call, prepared = self._call, self._prepared
        too_long = is_too_long(error, ModelContextWindowExceededError)
        if call is None or prepared is None or not (too_long or is_bad_request(error)):
            raise error
        if await self._change(call, prepared, "" if too_long else str(error)):
            raise RetryModelRequest
        if too_long or not prepared.tracked.fits_unchanged():
            raise error
        self._refusal = error
        raise RetryModelRequest

    async def _change(self, call: PydanticAICall, prepared: PreparedCall, refusal: str) -> bool:
        """Whether there is another request after the API refused this one: compacted if it was too long (no
        `refusal`), otherwise without the compaction that was refused."""
        kind = "refused" if refusal else "too long"
        if kind in self._handled:
            return False
        self._handled.add(kind)
        send = self._make_send(call)
        try:
            if refusal:
                other = await self.tracker.undo_after_refusal_async(prepared, refusal, send)
            else:
                other = await self.tracker.compact_after_overflow_async(prepared, send)
        except Exception as problem:
            self.tracker.report_failure(problem)
            return False
        return other is not None

    async def after_model_request(
        self, ctx: Any, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        call, prepared, refusal = self._call, self._prepared, self._refusal
        self._reset()
        if refusal is not None:
            self.tracker.report_failure(refusal)
        if call is not None and prepared is not None:
            try:
                raw = build_response(to_framework_reply(response, call.model, self.tracker.parts.new_id()))
                await self.tracker.record_response_async(prepared, raw)
            except Exception as problem:
                self.tracker.report_failure(problem, prepared, outcome=NOT_RECORDED)
        else:
            self._pay_unchanged(request_context, response)
        return response

    def _pay_unchanged(self, request_context: ModelRequestContext, response: ModelResponse) -> None:
        """The response to the agent's own request: it is in the bill, and nowhere else."""
        try:
            model = model_name(request_context.model)
            raw = build_response(to_framework_reply(response, model, self.tracker.parts.new_id()))
            self.tracker.pay_unchanged(raw.body)
        except Exception as problem:
            self.tracker.report_problem(NOT_PAID, repr(problem))

    def _make_send(self, call: PydanticAICall) -> AsyncSend:
        async def send(body: bytes, _: Sequence[str]) -> RawResponse:
            messages, settings, parameters = call.build_summary_call(body)
            try:
                model = call.find_model(msgspec.json.decode(body)["model"], self.summary_model)
                # An agent prepares messages in the same two steps.
                ready = model.prepare_messages(messages, parameters)
            except Exception as problem:
                raise make_send_error(problem) from problem
            with self.asking_for_summary():
                reply = await model.request(ready, settings, parameters)
            return build_response(to_framework_reply(reply, call.model, "summary"))

        return send
