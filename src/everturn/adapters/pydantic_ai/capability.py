"""The capability for pydantic-ai agents:

    agent = Agent(model, capabilities=[Everturn()])

The run's history keeps every message; the model gets the engine's messages, built anew for each attempt. If
everturn fails, it reports the error and the agent's own request is sent (`docs/pydantic-ai.md`).
"""

import copy
from collections.abc import Sequence
from typing import Any, Self

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelContextWindowExceededError, RetryModelRequest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext, infer_model

from everturn.adapters.framework import (
    FrameworkAdapter,
    build_response,
    is_bad_request,
    is_too_long,
    to_upstream_error,
)
from everturn.adapters.pydantic_ai.call import PydanticAICall
from everturn.adapters.pydantic_ai.messages import to_framework_reply
from everturn.adapters.tracking import AsyncSend, PreparedCall, UnsupportedRequest
from everturn.decide.options import Options
from everturn.session.upstream import RawResponse


class Everturn(FrameworkAdapter, AbstractCapability[Any]):
    """One instance serves any number of agents and runs. `summary_model` is a model for summaries or its
    name, by default the agent's own; the other arguments are those of `FrameworkAdapter`."""

    def __init__(self, options: Options | str | None = None, **arguments: Any) -> None:
        super().__init__(options, **arguments)
        self._reset()

    def _reset(self) -> None:
        """Clear the state of one model request, before each step of a run."""
        self._call: PydanticAICall | None = None
        self._prepared: PreparedCall | None = None
        self._has_compacted = False
        self._refusal: Exception | None = None

    async def for_run(self, ctx: Any) -> Self:
        """A copy for one run: its steps are sequential, but runs are concurrent. The tracker is shared."""
        copied = copy.copy(self)
        copied._reset()
        return copied

    async def prepare_model_request(
        self, ctx: Any, request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._prepared = None
        if self._refusal is not None:
            return request_context
        try:
            call = PydanticAICall(request_context)
            read = self.tracker.read(call.body())
            if isinstance(read, UnsupportedRequest):
                return request_context
            prepared = await self.tracker.prepare_async(read, self._make_send(call))
            attempt = call.build_request(prepared)
        except Exception as problem:
            self.tracker.report_failure(problem)
            return request_context
        self._call, self._prepared = call, prepared
        return attempt

    async def on_model_request_error(
        self, ctx: Any, *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """If the prompt is too long: compact once and retry. If the request was rejected otherwise: retry
        with the agent's own request. If that is accepted, the prepared one was at fault."""
        if self._call is None or self._prepared is None:
            raise error
        if is_too_long(error, ModelContextWindowExceededError):
            if await self._compact_after_overflow(self._call, self._prepared):
                raise RetryModelRequest
        elif is_bad_request(error):
            self._refusal = error
            raise RetryModelRequest
        raise error

    async def _compact_after_overflow(self, call: PydanticAICall, prepared: PreparedCall) -> bool:
        if self._has_compacted:
            return False
        self._has_compacted = True
        try:
            return (
                await self.tracker.compact_after_overflow_async(prepared, self._make_send(call)) is not None
            )
        except Exception as problem:
            self.tracker.report_failure(problem)
            return False

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
                self.tracker.report_failure(problem, prepared)
        return response

    def _make_send(self, call: PydanticAICall) -> AsyncSend:
        async def send(body: bytes, _: Sequence[str]) -> RawResponse:
            messages, settings, parameters = call.build_summary_call(body)
            try:
                model = infer_model(self.summary_model or call.context.model)
                # An agent prepares messages in the same two steps.
                ready = model.prepare_messages(messages, parameters)
                reply = await model.request(ready, settings, parameters)
            except Exception as problem:
                raise to_upstream_error(problem) from problem
            return build_response(to_framework_reply(reply, call.model, "summary"))

        return send
