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
    AdapterOptions,
    FrameworkAdapter,
    PolicyChoice,
    build_response,
    is_bad_request,
    is_too_long,
    to_upstream_error,
)
from everturn.adapters.langchain.call import LangChainCall
from everturn.adapters.langchain.call_flow import CallFlow, run_call_flow, run_call_flow_async
from everturn.adapters.langchain.messages import to_framework_reply
from everturn.adapters.tracking import AsyncSend, CallerRequest, PreparedCall, UnsupportedRequest
from everturn.session.upstream import RawResponse, Send

# Whoever watches the agent's words should not see those of a summary among them.
SILENT_CONFIG: Final[Any] = {"callbacks": [], "tags": [TAG_NOSTREAM]}


class _TrackerCalls(NamedTuple):
    """What a call is made with: all of it gives its result, or all of it something to wait for."""

    prepare: Callable[..., Any]
    compact_after_overflow: Callable[..., Any]
    record_response: Callable[..., Any]
    sends: Callable[[LangChainCall], Any]


class EverturnMiddleware(FrameworkAdapter, AgentMiddleware[Any, Any, Any]):
    """One serves any number of agents, threads and event loops. `summary_model` is a chat model for
    summaries, the agent's own if not given; all other options are in `Options`."""

    def __init__(
        self,
        policy: PolicyChoice = DEFAULT_POLICY,
        *,
        summary_model: Any = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        super().__init__(policy, summary_model=summary_model, **options)
        held = self.tracker
        self._at_once = _TrackerCalls(held.prepare, held.compact_after_overflow, held.record_response, _sends)
        self._awaited = _TrackerCalls(
            held.prepare_async, held.compact_after_overflow_async, held.record_response_async, _sends_async
        )

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        return run_call_flow(self._calling(request, handler, self._at_once))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        return await run_call_flow_async(self._calling(request, handler, self._awaited))

    def _calling(
        self, request: ModelRequest[Any], handler: Callable[..., Any], hands: _TrackerCalls
    ) -> CallFlow[Any]:
        read = self._read(request)
        if read is None:
            return (yield lambda: handler(request))
        call, asked = read
        send = hands.sends(call)
        try:
            ticket = yield lambda: hands.prepare(asked, send)
            attempt = call.build_request(ticket)
        except Exception as problem:
            self.tracker.failed(problem)
            return (yield lambda: handler(request))
        try:
            response = yield lambda: handler(attempt)
        except Exception as problem:
            too_long = is_too_long(problem, ContextOverflowError)
            if is_bad_request(problem) and not too_long:
                return (yield from self._without_us(request, handler, problem, ticket))
            other = (yield from self._compact_after_overflow(ticket, send, hands)) if too_long else None
            if other is None:
                raise
            ticket = other
            response = yield lambda: handler(call.build_request(ticket))
        yield from self._recording(ticket, call, response, hands)
        return response

    def _compact_after_overflow(
        self, ticket: PreparedCall, send: Any, hands: _TrackerCalls
    ) -> CallFlow[PreparedCall | None]:
        try:
            return (yield lambda: hands.compact_after_overflow(ticket, send))
        except Exception as problem:
            return self.tracker.failed(problem)

    def _without_us(
        self,
        request: ModelRequest[Any],
        handler: Callable[..., Any],
        refusal: Exception,
        ticket: PreparedCall,
    ) -> CallFlow[Any]:
        """Refused, and not for its length: where the agent's own request is taken, the fault was ours."""
        response = yield lambda: handler(request)
        self.tracker.failed(refusal, ticket)
        return response

    def _recording(
        self, ticket: PreparedCall, call: LangChainCall, response: Any, hands: _TrackerCalls
    ) -> CallFlow[None]:
        try:
            if (reply := _reply(response)) is not None:
                said = build_response(to_framework_reply(reply, call.model, self.tracker.manner.new_id()))
                yield lambda: hands.record_response(ticket, said)
        except Exception as problem:
            self.tracker.failed(problem, ticket)

    def _read(self, request: ModelRequest[Any]) -> tuple[LangChainCall, CallerRequest] | None:
        try:
            call = LangChainCall(request, self.summary_model)
            read = self.tracker.read(call.body())
        except Exception as problem:
            return self.tracker.failed(problem)
        return None if isinstance(read, UnsupportedRequest) else (call, read)


def _reply(response: Any) -> AIMessage | None:
    """The model's words in whatever a handler gives."""
    response = getattr(response, "model_response", response)
    said = getattr(response, "result", [response])
    return next((each for each in said if isinstance(each, AIMessage)), None)


def _sends(call: LangChainCall) -> Send:
    def send(body: bytes, _: Sequence[str]) -> RawResponse:
        model, messages = call.asking(body)
        try:
            reply = model.invoke(messages, SILENT_CONFIG)
        except Exception as problem:
            raise to_upstream_error(problem) from problem
        return build_response(to_framework_reply(reply, call.model, "summary"))

    return send


def _sends_async(call: LangChainCall) -> AsyncSend:
    async def send(body: bytes, _: Sequence[str]) -> RawResponse:
        model, messages = call.asking(body)
        try:
            reply = await model.ainvoke(messages, SILENT_CONFIG)
        except Exception as problem:
            raise to_upstream_error(problem) from problem
        return build_response(to_framework_reply(reply, call.model, "summary"))

    return send
