"""One line for pydantic-ai:

    agent = Agent(model, capabilities=[Everturn()])

The run's history keeps every message; the model gets the engine's view of them, made anew for each attempt.
What goes wrong in here is told and then passed over: the agent's own request takes its place
(`docs/pydantic-ai.md`).
"""

import copy
from collections.abc import Sequence
from typing import Any, Self, Unpack

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelContextWindowExceededError, RetryModelRequest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext, infer_model

from everturn.adapters.framework import (
    DEFAULT_POLICY,
    AdapterOptions,
    FrameworkAdapter,
    PolicyChoice,
    build_response,
    is_bad_request,
    is_too_long,
    to_upstream_error,
)
from everturn.adapters.pydantic_ai.call import PydanticAICall
from everturn.adapters.pydantic_ai.messages import to_framework_reply
from everturn.adapters.tracking import AsyncSend, PreparedCall, UnsupportedRequest
from everturn.session.upstream import RawResponse


class Everturn(FrameworkAdapter, AbstractCapability[Any]):
    """One serves any number of agents and runs. `summary_model` is a model for summaries, or the name of
    one, the agent's own if not given; all other options are in `Options`."""

    def __init__(
        self,
        policy: PolicyChoice = DEFAULT_POLICY,
        *,
        summary_model: Any = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        super().__init__(policy, summary_model=summary_model, **options)
        self._began()

    def _began(self) -> None:
        """Before each step of a run: nothing was sent, and nothing was tried."""
        self._call: PydanticAICall | None = None
        self._ticket: PreparedCall | None = None
        self._has_made_room = False
        self._refusal: Exception | None = None

    async def for_run(self, ctx: Any) -> Self:
        """Steps of one run follow each other; runs do not. What they know of conversations is shared."""
        made = copy.copy(self)
        made._began()
        return made

    async def prepare_model_request(
        self, ctx: Any, request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._ticket = None
        if self._refusal is not None:
            return request_context
        try:
            call = PydanticAICall(request_context)
            read = self.tracker.read(call.body())
            if isinstance(read, UnsupportedRequest):
                return request_context
            ticket = await self.tracker.prepare_async(read, self._sends(call))
            attempt = call.build_request(ticket)
        except Exception as problem:
            self.tracker.failed(problem)
            return request_context
        self._call, self._ticket = call, ticket
        return attempt

    async def on_model_request_error(
        self, ctx: Any, *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Too long: room is made, once. Refused otherwise: the agent's own request decides whose fault it
        is."""
        if self._call is None or self._ticket is None:
            raise error
        if is_too_long(error, ModelContextWindowExceededError):
            if await self._compact_after_overflow(self._call, self._ticket):
                raise RetryModelRequest
        elif is_bad_request(error):
            self._refusal = error
            raise RetryModelRequest
        raise error

    async def _compact_after_overflow(self, call: PydanticAICall, ticket: PreparedCall) -> bool:
        if self._has_made_room:
            return False
        self._has_made_room = True
        try:
            return await self.tracker.compact_after_overflow_async(ticket, self._sends(call)) is not None
        except Exception as problem:
            self.tracker.failed(problem)
            return False

    async def after_model_request(
        self, ctx: Any, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        call, ticket, refusal = self._call, self._ticket, self._refusal
        self._began()
        if refusal is not None:
            self.tracker.failed(refusal)
        if call is not None and ticket is not None:
            try:
                said = build_response(to_framework_reply(response, call.model, self.tracker.manner.new_id()))
                await self.tracker.record_response_async(ticket, said)
            except Exception as problem:
                self.tracker.failed(problem, ticket)
        return response

    def _sends(self, call: PydanticAICall) -> AsyncSend:
        async def send(body: bytes, _: Sequence[str]) -> RawResponse:
            messages, settings, parameters = call.asking(body)
            try:
                model = infer_model(self.summary_model or call.context.model)
                # As the agent itself does: what a model is sent is made of messages in two steps.
                ready = model.prepare_messages(messages, parameters)
                reply = await model.request(ready, settings, parameters)
            except Exception as problem:
                raise to_upstream_error(problem) from problem
            return build_response(to_framework_reply(reply, call.model, "summary"))

        return send
