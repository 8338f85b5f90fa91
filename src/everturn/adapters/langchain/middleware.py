"""One line for LangChain and LangGraph:

    agent = create_agent(model, tools, middleware=[EverturnMiddleware()])

The agent's state keeps every message; the model gets the engine's view of them. What goes wrong in here is
told and then passed over: the agent's own request takes its place (`docs/langchain.md`).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Unpack

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage
from langgraph.constants import TAG_NOSTREAM

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
from everturn.adapters.langchain.call import Call
from everturn.adapters.langchain.messages import heard
from everturn.adapters.langchain.steps import Steps, taken, taken_async
from everturn.adapters.shadow import AsyncSend, CallerRequest, NotOurs, Ticket
from everturn.session.upstream import Answered, Send

# Whoever watches the agent's words should not see those of a summary among them.
QUIET: Final[Any] = {"callbacks": [], "tags": [TAG_NOSTREAM]}


class _Hands(NamedTuple):
    """What a call is made with: all of it gives its result, or all of it something to wait for."""

    prepare: Callable[..., Any]
    make_room: Callable[..., Any]
    received: Callable[..., Any]
    sends: Callable[[Call], Any]


class EverturnMiddleware(Holder, AgentMiddleware[Any, Any, Any]):
    """One serves any number of agents, threads and event loops. `summary_model` is a chat model for
    summaries, the agent's own if not given; all other options are in `Options`."""

    def __init__(
        self, policy: Chosen = DEFAULT_POLICY, *, summary_model: Any = None, **options: Unpack[Options]
    ) -> None:
        super().__init__(policy, summary_model=summary_model, **options)
        held = self.shadows
        self._at_once = _Hands(held.prepare, held.make_room, held.received, _sends)
        self._awaited = _Hands(held.prepare_async, held.make_room_async, held.received_async, _sends_async)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        return taken(self._calling(request, handler, self._at_once))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        return await taken_async(self._calling(request, handler, self._awaited))

    def _calling(self, request: ModelRequest[Any], handler: Callable[..., Any], hands: _Hands) -> Steps[Any]:
        read = self._read(request)
        if read is None:
            return (yield lambda: handler(request))
        call, asked = read
        send = hands.sends(call)
        try:
            ticket = yield lambda: hands.prepare(asked, send)
            attempt = call.attempt(ticket)
        except Exception as problem:
            self.shadows.failed(problem)
            return (yield lambda: handler(request))
        try:
            response = yield lambda: handler(attempt)
        except Exception as problem:
            too_long = is_too_long(problem, ContextOverflowError)
            if is_refused(problem) and not too_long:
                return (yield from self._without_us(request, handler, problem, ticket))
            other = (yield from self._making_room(ticket, send, hands)) if too_long else None
            if other is None:
                raise
            ticket = other
            response = yield lambda: handler(call.attempt(ticket))
        yield from self._recording(ticket, call, response, hands)
        return response

    def _making_room(self, ticket: Ticket, send: Any, hands: _Hands) -> Steps[Ticket | None]:
        try:
            return (yield lambda: hands.make_room(ticket, send))
        except Exception as problem:
            return self.shadows.failed(problem)

    def _without_us(
        self, request: ModelRequest[Any], handler: Callable[..., Any], refusal: Exception, ticket: Ticket
    ) -> Steps[Any]:
        """Refused, and not for its length: where the agent's own request is taken, the fault was ours."""
        response = yield lambda: handler(request)
        self.shadows.failed(refusal, ticket)
        return response

    def _recording(self, ticket: Ticket, call: Call, response: Any, hands: _Hands) -> Steps[None]:
        try:
            if (reply := _reply(response)) is not None:
                said = answered(heard(reply, call.model, self.shadows.manner.new_id()))
                yield lambda: hands.received(ticket, said)
        except Exception as problem:
            self.shadows.failed(problem, ticket)

    def _read(self, request: ModelRequest[Any]) -> tuple[Call, CallerRequest] | None:
        try:
            call = Call(request, self.summary_model)
            read = self.shadows.read(call.body())
        except Exception as problem:
            return self.shadows.failed(problem)
        return None if isinstance(read, NotOurs) else (call, read)


def _reply(response: Any) -> AIMessage | None:
    """The model's words in whatever a handler gives."""
    response = getattr(response, "model_response", response)
    said = getattr(response, "result", [response])
    return next((each for each in said if isinstance(each, AIMessage)), None)


def _sends(call: Call) -> Send:
    def send(body: bytes, _: Sequence[str]) -> Answered:
        model, messages = call.asking(body)
        try:
            reply = model.invoke(messages, QUIET)
        except Exception as problem:
            raise unreached(problem) from problem
        return answered(heard(reply, call.model, "summary"))

    return send


def _sends_async(call: Call) -> AsyncSend:
    async def send(body: bytes, _: Sequence[str]) -> Answered:
        model, messages = call.asking(body)
        try:
            reply = await model.ainvoke(messages, QUIET)
        except Exception as problem:
            raise unreached(problem) from problem
        return answered(heard(reply, call.model, "summary"))

    return send
