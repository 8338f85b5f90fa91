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
    Chosen,
    Holder,
    Options,
    answered,
    is_refused,
    is_too_long,
    unreached,
)
from everturn.adapters.pydantic_ai.call import Call
from everturn.adapters.pydantic_ai.parts import heard
from everturn.adapters.shadow import AsyncSend, NotOurs, Ticket
from everturn.session.upstream import Answered


class Everturn(Holder, AbstractCapability[Any]):
    """One serves any number of agents and runs. `summary_model` is a model for summaries, or the name of
    one, the agent's own if not given; all other options are in `Options`."""

    def __init__(
        self, policy: Chosen = DEFAULT_POLICY, *, summary_model: Any = None, **options: Unpack[Options]
    ) -> None:
        super().__init__(policy, summary_model=summary_model, **options)
        self._began()

    def _began(self) -> None:
        """Before each step of a run: nothing was sent, and nothing was tried."""
        self._call: Call | None = None
        self._ticket: Ticket | None = None
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
            call = Call(request_context)
            read = self.shadows.read(call.body())
            if isinstance(read, NotOurs):
                return request_context
            ticket = await self.shadows.prepare_async(read, self._sends(call))
            attempt = call.attempt(ticket)
        except Exception as problem:
            self.shadows.failed(problem)
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
            if await self._makes_room(self._call, self._ticket):
                raise RetryModelRequest
        elif is_refused(error):
            self._refusal = error
            raise RetryModelRequest
        raise error

    async def _makes_room(self, call: Call, ticket: Ticket) -> bool:
        if self._has_made_room:
            return False
        self._has_made_room = True
        try:
            return await self.shadows.make_room_async(ticket, self._sends(call)) is not None
        except Exception as problem:
            self.shadows.failed(problem)
            return False

    async def after_model_request(
        self, ctx: Any, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        call, ticket, refusal = self._call, self._ticket, self._refusal
        self._began()
        if refusal is not None:
            self.shadows.failed(refusal)
        if call is not None and ticket is not None:
            try:
                said = answered(heard(response, call.model, self.shadows.manner.new_id()))
                await self.shadows.received_async(ticket, said)
            except Exception as problem:
                self.shadows.failed(problem, ticket)
        return response

    def _sends(self, call: Call) -> AsyncSend:
        async def send(body: bytes, _: Sequence[str]) -> Answered:
            messages, settings, parameters = call.asking(body)
            try:
                model = infer_model(self.summary_model or call.context.model)
                # As the agent itself does: what a model is sent is made of messages in two steps.
                ready = model.prepare_messages(messages, parameters)
                reply = await model.request(ready, settings, parameters)
            except Exception as problem:
                raise unreached(problem) from problem
            return answered(heard(reply, call.model, "summary"))

        return send
