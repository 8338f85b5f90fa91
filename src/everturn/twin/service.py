"""The twin: how one request is handled, step by step.

    key ─ parse ─ validate ─ thinking ─ edits ─ window ─ faults ─ (compaction) ─ cache ─ generate ─ bill

Each step is a module of its own; this module defines their order. No request makes it raise: an error is also
a response, and is recorded in the ledger.
"""

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

import msgspec

from everturn.catalog.practice import mark_practice
from everturn.measure.prefix_cache import CacheEntry, CacheLookup, PrefixCache, PromptLayout
from everturn.twin.batches import MessageBatch, MessageBatches, check_batch_item
from everturn.twin.cache_diagnostics import FingerprintStore, compute_fingerprint
from everturn.twin.cache_edits import CACHE_EDITS_EXTENSION, deleted_results
from everturn.twin.catalogue import get_model, list_models
from everturn.twin.clock import Clock
from everturn.twin.compaction import (
    drop_before_compaction,
    extract_summary,
    find_requested_compaction,
    find_threshold_compaction,
    replace_with_summary,
    summary_prompt,
)
from everturn.twin.context_editing import apply_edits
from everturn.twin.count import BlockCounter, make_block_counter
from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.ledger import RequestLedger, workspace_id
from everturn.twin.options import TwinOptions
from everturn.twin.parse import lower_header_names, make_block, parse_request
from everturn.twin.request_layout import RequestLayout, lay_out
from everturn.twin.request_text import new_id
from everturn.twin.response_bodies import Iteration, build_error_response, build_usage, encode, message_body
from everturn.twin.server_threads import ServerThreads
from everturn.twin.signatures import check_thinking, omits_thinking, sign_compaction, sign_reply
from everturn.twin.speaker import GiveBack, Speaker
from everturn.twin.stream import NO_DETAILS, StreamDetails, estimate_increments, stream_chunks
from everturn.twin.truncation import count_output_tokens, count_thinking_tokens, truncate_output
from everturn.twin.validate import check_window, validate
from everturn.twin.values import ApiError, Endpoint, HttpResponse, ModelOutput, ParsedRequest, invalid_request

THINKING_TOKEN_COUNT: Final = "thinking-token-count-2026-05-13"
MISSING_KEY_ERROR: Final = ApiError(401, "authentication_error", "x-api-key header is required")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The id, time, workspace and endpoint of the request being handled."""

    id: str
    at: datetime
    workspace: str
    endpoint: Endpoint
    # The injected fault breaks the response off.
    is_broken_off: bool = False
    batch_id: str | None = None

    @property
    def now(self) -> float:
        return self.at.timestamp()


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A valid request, as it was sent and as the model sees it after context editing."""

    original: ParsedRequest
    edited: ParsedRequest
    layout: RequestLayout
    applied: tuple[dict[str, Any], ...]
    transformations: tuple[dict[str, str], ...]
    # Tokens deleted by reference, all edits together; None without the extension.
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Generation:
    """What the model generated, and the model calls that it took."""

    output: ModelOutput
    iterations: tuple[Iteration, ...]
    details: StreamDetails = NO_DETAILS
    # Puts the reply back into its script, if the client does not get it.
    give_back: GiveBack | None = None

    @property
    def lookups(self) -> tuple[CacheLookup, ...]:
        return tuple(part.lookup for part in self.iterations)


class Twin:
    """A local Messages API. `messages` and `count_tokens` take headers and a body, and never raise."""

    def __init__(
        self,
        *,
        clock: Clock,
        options: TwinOptions | None = None,
        speaker: Speaker | None = None,
        faults: FaultInjector | None = None,
        seed: int = 0,
    ) -> None:
        self.clock = clock
        self.options = options or TwinOptions()
        self.faults = faults or FaultInjector(seed=seed)
        self.speaker = speaker or Speaker(faults=self.faults, seed=seed)
        self._seed = seed
        # Requests are handled one at a time.
        self.lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Reset cache, ledger, fingerprints, threads and ids; the clock and the script are not changed."""
        self.cache = PrefixCache()
        self._ledger = RequestLedger(self.options.ledger_size)
        self._fingerprints = FingerprintStore(self.options)
        self._threads = ServerThreads()
        self.batches = MessageBatches(self.options, self._answer_batch_item)
        self._rng = random.Random(self._seed)

    def messages(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        return self._handle("messages", headers, body, self._message)

    def count_tokens(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        return self._handle("count_tokens", headers, body, self._count)

    def models(self, query: Mapping[str, str]) -> HttpResponse:
        return self._listing(lambda: list_models(query))

    def model(self, id: str) -> HttpResponse:
        return self._listing(lambda: get_model(id))

    def ledger(self, workspace: str | None = None) -> list[dict[str, Any]]:
        with self.lock:
            self.batches.settle(self.clock.now())
            return self._ledger.entries(workspace)

    def new_id(self, prefix: str) -> str:
        return new_id(prefix, self._rng)

    def new_request_id(self) -> str:
        made = new_id("req_", self._rng)
        return mark_practice(made) if self.options.marks_practice else made

    def error_response(self, error: ApiError) -> HttpResponse:
        return build_error_response(error, self.new_request_id())

    # ── handling a request ───────────────────────────────────────────────────────────────────────

    def _handle(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        body: bytes,
        handler: Callable[[RequestContext, ParsedRequest], HttpResponse],
    ) -> HttpResponse:
        with self.lock:
            lower = lower_header_names(headers)
            context = RequestContext(
                self.new_request_id(), self.clock.now(), find_workspace(lower) or "", endpoint
            )
            request: ParsedRequest | None = None
            try:
                self._check_access(context, body)
                sent = parse_request(endpoint, lower, body, workspace=context.workspace)
                request = self._threads.resolve(sent, context.now)
                response = handler(context, request)
            except ApiError as error:
                response = self._fail(context, error, request)
            except RecursionError:
                response = self._fail(
                    context, invalid_request("The request body is nested too deeply."), request
                )
            if context.workspace:
                named = {"anthropic-workspace-id": workspace_id(context.workspace)}
                response = replace(response, headers=response.headers | named)
            return response

    def _check_access(self, context: RequestContext, body: bytes) -> None:
        if not context.workspace:
            raise MISSING_KEY_ERROR
        if len(body) > self.options.max_body_bytes:
            raise ApiError(413, "request_too_large", self.options.oversized_message)

    def _fail(self, context: RequestContext, error: ApiError, request: ParsedRequest | None) -> HttpResponse:
        model = str(request.body.get("model")) if request is not None else None
        self._ledger.record_error(
            error,
            id=context.id,
            at=context.at,
            workspace=context.workspace,
            endpoint=context.endpoint,
            model=model,
            batch_id=context.batch_id,
        )
        return build_error_response(error, context.id)

    def _listing(self, listing: Callable[[], dict[str, Any]]) -> HttpResponse:
        try:
            return self._json_response(self.new_request_id(), listing())
        except ApiError as error:
            return self.error_response(error)

    def _json_response(self, id: str, body: dict[str, Any]) -> HttpResponse:
        return HttpResponse(200, {"content-type": "application/json", "request-id": id}, encode(body))

    # ── the two endpoints ────────────────────────────────────────────────────────────────────────

    def _count(self, context: RequestContext, request: ParsedRequest) -> HttpResponse:
        accepted = self._accept(request)
        fault = self._take_fault(context, request)
        body: dict[str, Any] = {"input_tokens": accepted.layout.total}
        if request.body.get("context_management") is not None:
            original = lay_out(drop_before_compaction(accepted.original), self.options).total
            body["context_management"] = {"original_input_tokens": original}
        self._ledger.record_count(request, id=context.id, at=context.at)
        response = self._json_response(context.id, body)
        return response if fault is None else fault.alter_response(response)

    def _message(self, context: RequestContext, request: ParsedRequest) -> HttpResponse:
        accepted = self._accept(request)
        check_window(accepted.layout.total, request)
        fault = self._take_fault(context, request)
        context = replace(context, is_broken_off=fault is not None and fault.breaks_off)
        generation = self._generate(context, accepted)
        body = self._bill(context, accepted, generation)
        self._threads.hold(request, body, context.now)
        return self._send(context, request, body, fault, generation)

    def _bill(
        self, context: RequestContext, accepted: AcceptedRequest, generation: Generation
    ) -> dict[str, Any]:
        """The body of the response, recorded in the ledger, which prices it."""
        request = accepted.original
        body = self._body(context, accepted, generation)
        if context.batch_id is not None:
            body["usage"]["service_tier"] = "batch"
        self._ledger.record_response(
            request,
            id=context.id,
            at=context.at,
            body=body,
            lookups=generation.lookups,
            batch_id=context.batch_id,
        )
        return body

    def _answer_batch_item(self, batch: MessageBatch, body: bytes, at: datetime) -> dict[str, Any]:
        """The result of one request of a batch. Faults do not apply to it."""
        context = RequestContext(self.new_request_id(), at, batch.workspace, "messages", batch_id=batch.id)
        request: ParsedRequest | None = None
        try:
            request = parse_request("messages", batch.headers, body, workspace=batch.workspace)
            check_batch_item(request)
            accepted = self._accept(request)
            check_window(accepted.layout.total, request)
            generation = self._generate(context, accepted)
            message = self._bill(context, accepted, generation)
        except ApiError as error:
            failed = self._fail(context, error, request)
            return {"type": "errored", "error": msgspec.json.decode(failed.body)}
        for lookup in generation.lookups:
            self.cache.write(lookup, context.now)
        return {"type": "succeeded", "message": message}

    def _accept(self, request: ParsedRequest) -> AcceptedRequest:
        if request.model.lifecycle == "retired" and self.options.retired_models == "refuse":
            raise ApiError(404, "not_found_error", f"model: {request.body['model']}")
        validate(request, self.options)
        checked = check_thinking(request, self.options)
        edits = apply_edits(drop_before_compaction(checked.request), self.options)
        extended = CACHE_EDITS_EXTENSION in self.options.extensions
        unseen = deleted_results(request) if extended else frozenset[bytes]()
        layout = lay_out(edits.request, self.options, unseen=unseen)
        deleted = lay_out(edits.request, self.options).total - layout.total if extended else None
        return AcceptedRequest(
            checked.request, edits.request, layout, edits.applied, checked.transformations, deleted
        )

    def _take_fault(self, context: RequestContext, request: ParsedRequest) -> InjectedFault | None:
        """The fault injected into this request. Raises if the fault is an error response."""
        compacts = find_requested_compaction(request) is not None
        fault = self.faults.take(request.endpoint, request.workspace, is_compaction=compacts)
        if fault is not None and (error := fault.to_error(request.model, at=context.at)) is not None:
            raise error
        if fault is not None and fault.drops_cache:
            self.cache.lose(lambda entry: _workspace_of(entry) == request.workspace)
        return fault

    # ── generating ───────────────────────────────────────────────────────────────────────────────

    def _generate(self, context: RequestContext, accepted: AcceptedRequest) -> Generation:
        request = accepted.edited
        if (asked := find_requested_compaction(request)) is not None:
            return self._summarize(context, accepted, asked.get("instructions"))
        if request.body["max_tokens"] == 0:
            lookup = self._look_up_cache(context, accepted.layout.prompt)
            return Generation(ModelOutput((), "max_tokens"), (Iteration("message", lookup, 0),))
        if (trigger := find_threshold_compaction(request, accepted.layout, self.options)) is not None:
            return self._compact_and_reply(context, accepted, trigger.instructions, pauses=trigger.pauses)
        return self._reply(context, accepted, request, accepted.layout)

    def _reply(
        self,
        context: RequestContext,
        accepted: AcceptedRequest,
        request: ParsedRequest,
        layout: RequestLayout,
        opening: tuple[dict[str, Any], ...] = (),
    ) -> Generation:
        lookup = self._look_up_cache(context, layout.prompt)
        count = make_block_counter(request.model, self.options)
        unedited = replace(request, messages=accepted.original.messages)
        said = self.speaker.say(unedited, rng=self._rng, is_broken_off=context.is_broken_off)
        output = truncate_output(said.output, request, layout.total, count)
        part = Iteration(
            "message", lookup, count_output_tokens(output, count), count_thinking_tokens(output, count)
        )
        content = sign_reply(
            (*opening, *output.content),
            accepted.original,
            omitted=omits_thinking(accepted.original, self.options),
        )
        details = StreamDetails(output.partial_input, self._estimated_tokens(request, output, count))
        return Generation(replace(output, content=content), (part,), details, said.give_back)

    def _estimated_tokens(
        self, request: ParsedRequest, output: ModelOutput, count: BlockCounter
    ) -> list[list[int]] | None:
        """How a stream reports the progress of thinking, with the beta header for it (api-facts 6)."""
        if THINKING_TOKEN_COUNT not in request.betas:
            return None
        thoughts = (block for block in output.content if block.get("type") == "thinking")
        step = self.options.estimated_tokens_step
        return [estimate_increments(count(make_block(block)), step) for block in thoughts]

    def _summarize(
        self, context: RequestContext, accepted: AcceptedRequest, instructions: str | None
    ) -> Generation:
        """On demand: the summary is the whole reply. A failed one is an empty reply at the same price."""
        output, part = self._summary(context, accepted, instructions)
        count = make_block_counter(accepted.edited.model, self.options)
        output = truncate_output(output, accepted.edited, accepted.layout.total, count)
        part = replace(part, output=count_output_tokens(output, count))
        text = extract_summary(output)
        if text is None or output.stop_reason in ("max_tokens", "model_context_window_exceeded"):
            return Generation(ModelOutput((), output.stop_reason), (part,))
        block = sign_compaction({"type": "compaction", "content": text}, accepted.original)
        return Generation(ModelOutput((block,), "compaction"), (part,))

    def _compact_and_reply(
        self, context: RequestContext, accepted: AcceptedRequest, instructions: str | None, *, pauses: bool
    ) -> Generation:
        output, part = self._summary(context, accepted, instructions)
        self.cache.write(part.lookup, context.now)
        block = {"type": "compaction", "content": extract_summary(output)}
        if pauses:
            return Generation(ModelOutput((block,), "compaction"), (part,))
        request, layout = accepted.edited, accepted.layout
        if block["content"] is not None:
            request = replace_with_summary(request, block)
            layout = lay_out(request, self.options)
        generation = self._reply(context, accepted, request, layout, opening=(block,))
        return replace(generation, iterations=(part, *generation.iterations))

    def _summary(
        self, context: RequestContext, accepted: AcceptedRequest, instructions: str | None
    ) -> tuple[ModelOutput, Iteration]:
        lookup = self._look_up_cache(context, summary_prompt(accepted.layout))
        output = self.speaker.summary(accepted.edited, instructions)
        tokens = count_output_tokens(output, make_block_counter(accepted.edited.model, self.options))
        return output, Iteration("compaction", lookup, tokens)

    def _look_up_cache(self, context: RequestContext, prompt: PromptLayout) -> CacheLookup:
        lookup = self.cache.look(prompt, context.now)
        self.cache.refresh(lookup)
        return lookup

    # ── the response ─────────────────────────────────────────────────────────────────────────────

    def _body(
        self, context: RequestContext, accepted: AcceptedRequest, generation: Generation
    ) -> dict[str, Any]:
        request = accepted.original
        id = new_id("msg_", self._rng)
        diagnostics = None
        if isinstance(request.body.get("diagnostics"), dict):
            present = compute_fingerprint(request, lay_out(request, self.options), context.now)
            diagnostics = self._fingerprints.compare(request, present)
            self._fingerprints.remember(request, id, present)
        return message_body(
            request,
            generation.output,
            id=id,
            usage=build_usage(
                request,
                generation.iterations,
                deleted=accepted.deleted,
                searches=sum(
                    block["type"] == "tool_search_tool_result" for block in generation.output.content
                ),
            ),
            diagnostics=diagnostics,
            applied=accepted.applied,
            transformations=accepted.transformations,
        )

    def _send(
        self,
        context: RequestContext,
        request: ParsedRequest,
        body: dict[str, Any],
        fault: InjectedFault | None,
        generation: Generation,
    ) -> HttpResponse:
        response = self._json_response(context.id, body)
        if request.streams:
            headers = {"content-type": "text/event-stream; charset=utf-8", "request-id": context.id}
            response = HttpResponse(200, headers, stream=stream_chunks(body, generation.details))
        if fault is not None:
            response = fault.alter_response(response)
        if generation.give_back is not None:
            response = replace(response, on_abandoned=self._once(generation.give_back))
        return self._write_cache(response, context, generation.lookups)

    def _once(self, give_back: GiveBack) -> Callable[[], None]:
        """The function, called under the lock and only the first time."""
        left = [give_back]

        def call() -> None:
            with self.lock:
                if left:
                    left.pop()()

        return call

    def _write_cache(
        self, response: HttpResponse, context: RequestContext, lookups: tuple[CacheLookup, ...]
    ) -> HttpResponse:
        """Write the cache entries when the response starts: now, after its delay, or never."""

        def write() -> None:
            for lookup in lookups:
                self.cache.write(lookup, context.now)

        if response.hangs_up and response.stream is None and not response.body:
            return response
        if response.delay > 0:
            return replace(response, on_first_byte=write)
        write()
        return response


def _workspace_of(entry: CacheEntry) -> str:
    """The first part of the scope that `lay_out` gives to an entry."""
    workspace, _, _ = cast(tuple[str, str, str], entry.scope)
    return workspace


def find_workspace(headers: Mapping[str, str]) -> str | None:
    """The API key, which is the workspace: `x-api-key`, else the bearer token, else None."""
    if key := headers.get("x-api-key"):
        return key
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
