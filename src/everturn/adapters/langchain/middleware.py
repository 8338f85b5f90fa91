"""The middleware for LangChain and LangGraph agents:

    agent = create_agent(model, tools, middleware=[EverturnMiddleware()])

The agent's state keeps every message; the model gets the engine's messages. If everturn fails, it reports the
error and the agent's own request is sent (`docs/langchain.md`).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.constants import TAG_NOSTREAM

from everturn.adapters.framework import (
    FrameworkAdapter,
    is_bad_request,
    is_too_long,
    may_have_cost,
)
from everturn.adapters.langchain.call import LangChainCall, model_name
from everturn.adapters.langchain.call_flow import CallFlow, run_call_flow, run_call_flow_async
from everturn.adapters.langchain.messages import convert_list
from everturn.adapters.tracking import AsyncSend, CallerRequest, PreparedCall, UnsupportedRequest
from everturn.adapters.tracking.tracker import NOT_PAID, NOT_RECORDED
from everturn.decide.options import Options
from everturn.session.upstream import RawResponse, Send

# A summary must not appear in the agent's streamed output or callbacks.
SILENT_CONFIG: Final[Any] = {"callbacks": [], "tags": [TAG_NOSTREAM]}


class _TrackerCalls(NamedTuple):
    """The functions that a call needs: all of them sync, or all of them async."""

    prepare: Callable[..., Any]
    compact_after_overflow: Callable[..., Any]
    undo_after_refusal: Callable[..., Any]
    record_response: Callable[..., Any]
    make_send: Callable[[LangChainCall], Any]


class EverturnMiddleware(FrameworkAdapter, AgentMiddleware[Any, Any, Any]):
    """One instance serves any number of agents, threads and event loops. `summary_model` is a chat model or
    its name and overrides the option `compact.summary_model`; the other arguments are those of
    `FrameworkAdapter`."""

    def __init__(self, options: Options | str | None = None, **arguments: Any) -> None:
        super().__init__(options, model_name=model_name, convert=convert_list, **arguments)
        tracker = self.tracker
        # LangChain adds the tools of a middleware to those of the agent.
        self.tools = [make_recall_tool(self)] if tracker.parts.options.recall.enabled else []
        self._sync = _TrackerCalls(
            tracker.prepare,
            tracker.compact_after_overflow,
            tracker.undo_after_refusal,
            tracker.record_response,
            self._make_send,
        )
        self._async = _TrackerCalls(
            tracker.prepare_async,
            tracker.compact_after_overflow_async,
            tracker.undo_after_refusal_async,
            tracker.record_response_async,
            self._make_send_async,
        )

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        return run_call_flow(self._call_model(request, handler, self._sync))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        return await run_call_flow_async(self._call_model(request, handler, self._async))

    def _call_model(
        self, request: ModelRequest[Any], handler: Callable[..., Any], functions: _TrackerCalls
    ) -> CallFlow[Any]:
        read = self._read(request)
        if read is None:
            return (yield from self._call_unchanged(request, handler))
        call, asked = read
        send = functions.make_send(call)
        try:
            prepared = yield lambda: functions.prepare(asked, send, hold=send if call.is_cached else None)
            attempt = call.build_request(prepared)
        except Exception as problem:
            self.tracker.report_failure(problem)
            return (yield from self._call_unchanged(request, handler))
        handled: set[bool] = set()
        while True:
            try:
                response = yield from self._attempt(attempt, handler)
                break
            except Exception as problem:
                too_long = is_too_long(problem, ContextOverflowError)
                if not (too_long or is_bad_request(problem)):
                    raise
                refusal = "" if too_long else str(problem)
                is_new = too_long not in handled
                other = (yield from self._change(prepared, refusal, send, functions)) if is_new else None
                if other is None and (too_long or not prepared.tracked.fits_unchanged()):
                    raise
                if other is None:
                    return (yield from self._send_unchanged(request, handler, problem, prepared))
                handled.add(too_long)
                prepared, attempt = other, call.build_request(other)
        yield from self._record(prepared, call, response, functions)
        return response

    def _change(
        self, prepared: PreparedCall, refusal: str, send: Any, functions: _TrackerCalls
    ) -> CallFlow[PreparedCall | None]:
        """Another request after the API refused this one: compacted if it was too long (no `refusal`),
        otherwise without the compaction that was refused."""
        try:
            if refusal:
                return (yield lambda: functions.undo_after_refusal(prepared, refusal, send))
            return (yield lambda: functions.compact_after_overflow(prepared, send))
        except Exception as problem:
            return self.tracker.report_failure(problem)

    def _send_unchanged(
        self,
        request: ModelRequest[Any],
        handler: Callable[..., Any],
        refusal: Exception,
        prepared: PreparedCall,
    ) -> CallFlow[Any]:
        """Send the agent's own request. If it is accepted, the prepared one was at fault."""
        response = yield from self._call_unchanged(request, handler)
        self.tracker.report_failure(refusal, prepared)
        return response

    def _call_unchanged(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> CallFlow[Any]:
        """The response to the agent's own request: it is in the bill, and nowhere else."""
        response = yield from self._attempt(request, handler)
        try:
            if (reply := _reply(response)) is not None:
                raw = LangChainCall(request).read_reply(reply, self.tracker.parts.new_id())
                self.tracker.pay_unchanged(raw.body)
        except Exception as problem:
            self.tracker.report_problem(NOT_PAID, repr(problem))
        return response

    def _attempt(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> CallFlow[Any]:
        """Call the model. If that ends without a reply that may have been paid, the bill says so."""
        try:
            return (yield lambda: handler(request))
        except BaseException as problem:
            if may_have_cost(problem):
                self.tracker.note_lost_reply()
            raise

    def _record(
        self, prepared: PreparedCall, call: LangChainCall, response: Any, functions: _TrackerCalls
    ) -> CallFlow[None]:
        try:
            if (reply := _reply(response)) is not None:
                raw = call.read_reply(reply, self.tracker.parts.new_id())
                yield lambda: functions.record_response(prepared, raw)
        except Exception as problem:
            self.tracker.report_failure(problem, prepared, outcome=NOT_RECORDED)

    def _read(self, request: ModelRequest[Any]) -> tuple[LangChainCall, CallerRequest] | None:
        try:
            call = LangChainCall(request, self.summary_model)
            read = self.tracker.read(call.body())
        except Exception as problem:
            return self.tracker.report_failure(problem)
        return None if isinstance(read, UnsupportedRequest) else (call, read)

    def _make_send(self, call: LangChainCall) -> Send:
        def send(body: bytes, _: Sequence[str]) -> RawResponse:
            model, messages = call.build_summary_call(body)
            with self.asking_for_summary():
                reply = model.invoke(messages, SILENT_CONFIG)
            return call.read_reply(reply, "summary")

        return send

    def _make_send_async(self, call: LangChainCall) -> AsyncSend:
        async def send(body: bytes, _: Sequence[str]) -> RawResponse:
            model, messages = call.build_summary_call(body)
            with self.asking_for_summary():
                reply = await model.ainvoke(messages, SILENT_CONFIG)
            return call.read_reply(reply, "summary")

        return send


def make_recall_tool(adapter: EverturnMiddleware) -> StructuredTool:
    definition = adapter.recall_tool.definition

    def recall(**given: Any) -> str:
        return adapter.answer_recall(given)

    return StructuredTool.from_function(
        recall,
        name=definition["name"],
        description=definition["description"],
        args_schema=definition["input_schema"],
    )


def _reply(response: Any) -> AIMessage | None:
    """The model's reply in any of the results that a handler may return."""
    response = getattr(response, "model_response", response)
    messages = getattr(response, "result", [response])
    return next((each for each in messages if isinstance(each, AIMessage)), None)
