"""The twin: one request from top to bottom.

    who asks ─ parse ─ validate ─ thinking ─ edits ─ window ─ faults ─ (compaction) ─ cache ─ speak ─ bill

Each step is a module of its own; this one only says in which order they come. Nothing a client sends makes it
raise: a refusal is an answer too, and is in the ledger.
"""

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, Literal

from everturn.measure.prefix_cache import CacheLookup, PrefixCache, PromptLayout
from everturn.measure.pricing import compute_priced_usage
from everturn.twin.cache_diagnostics import FingerprintStore, compute_fingerprint
from everturn.twin.cache_edits import CACHE_EDITS_EXTENSION, deleted_results
from everturn.twin.catalogue import list_models, one_model
from everturn.twin.clock import Clock
from everturn.twin.compaction import (
    extract_summary,
    find_requested_compaction,
    find_threshold_compaction,
    replace_with_summary,
    summary_prompt,
)
from everturn.twin.context_editing import apply_edits, drop_before_compaction
from everturn.twin.count import make_block_counter
from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.ledger import RequestLedger
from everturn.twin.options import TwinOptions
from everturn.twin.parse import lowered, parse_request
from everturn.twin.request_layout import RequestLayout, lay_out
from everturn.twin.request_text import new_id
from everturn.twin.response_bodies import Iteration, build_error_response, build_usage, encode, message_body
from everturn.twin.server_threads import ServerThreads
from everturn.twin.signatures import check_thinking, sign_compaction, sign_reply
from everturn.twin.speaker import Speaker
from everturn.twin.stream import stream_chunks
from everturn.twin.truncation import count_output_tokens, count_thinking_tokens, truncate_output
from everturn.twin.validate import check_window, validate
from everturn.twin.values import ApiError, HttpResponse, ModelOutput, ParsedRequest, invalid_request

Endpoint = Literal["messages", "count_tokens"]

MISSING_KEY_ERROR: Final = ApiError(401, "authentication_error", "x-api-key header is required")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request on its way: who asks, when, and under which id it is answered."""

    id: str
    at: datetime
    workspace: str
    endpoint: Endpoint

    @property
    def now(self) -> float:
        return self.at.timestamp()


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A valid request, as it was sent and as the model sees it."""

    sent: ParsedRequest
    seen: ParsedRequest
    layout: RequestLayout
    applied: tuple[dict[str, Any], ...]
    transformations: tuple[dict[str, str], ...]
    # Tokens taken out by reference, all edits together; None without the extension.
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Generation:
    said: ModelOutput
    iterations: tuple[Iteration, ...]


class Twin:
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
        self._lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Cache, ledger, fingerprints and ids as at the start; the clock and the script are not ours."""
        self.cache = PrefixCache()
        self._ledger = RequestLedger()
        self._diagnoses = FingerprintStore(self.options)
        self._threads = ServerThreads()
        self._rng = random.Random(self._seed)

    def messages(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        return self._handle("messages", headers, body, self._message)

    def count_tokens(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        return self._handle("count_tokens", headers, body, self._count)

    def models(self, query: Mapping[str, str]) -> HttpResponse:
        return self._listing(lambda: list_models(query))

    def model(self, id: str) -> HttpResponse:
        return self._listing(lambda: one_model(id))

    def ledger(self, workspace: str | None = None) -> list[dict[str, Any]]:
        return self._ledger.entries(workspace)

    def refused(self, refusal: ApiError) -> HttpResponse:
        return build_error_response(refusal, new_id("req_", self._rng))

    # ── from the door to the ledger ──────────────────────────────────────────────────────────────

    def _handle(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        body: bytes,
        answer: Callable[[RequestContext, ParsedRequest], HttpResponse],
    ) -> HttpResponse:
        with self._lock:
            plain = lowered(headers)
            call = RequestContext(
                new_id("req_", self._rng), self.clock.now(), find_workspace(plain) or "", endpoint
            )
            request: ParsedRequest | None = None
            try:
                self._check_access(call, body)
                sent = parse_request(endpoint, plain, body, workspace=call.workspace)
                request = self._threads.joined(sent, call.now)
                made = answer(call, request)
            except ApiError as refusal:
                made = self._refuse(call, refusal, request)
            except RecursionError:
                made = self._refuse(call, invalid_request("The request body is nested too deeply."), request)
            return replace(made, headers=made.headers | _workspace_header(call.workspace))

    def _check_access(self, call: RequestContext, body: bytes) -> None:
        if not call.workspace:
            raise MISSING_KEY_ERROR
        if len(body) > self.options.max_body_bytes:
            raise ApiError(413, "request_too_large", self.options.oversized_message)

    def _refuse(self, call: RequestContext, refusal: ApiError, request: ParsedRequest | None) -> HttpResponse:
        model = str(request.body.get("model")) if request is not None else None
        self._ledger.refused(
            refusal, id=call.id, at=call.at, workspace=call.workspace, endpoint=call.endpoint, model=model
        )
        return build_error_response(refusal, call.id)

    def _listing(self, listing: Callable[[], dict[str, Any]]) -> HttpResponse:
        try:
            return self._answer(new_id("req_", self._rng), listing())
        except ApiError as refusal:
            return self.refused(refusal)

    def _answer(self, id: str, body: dict[str, Any]) -> HttpResponse:
        return HttpResponse(200, {"content-type": "application/json", "request-id": id}, encode(body))

    # ── the two endpoints ────────────────────────────────────────────────────────────────────────

    def _count(self, call: RequestContext, request: ParsedRequest) -> HttpResponse:
        accepted = self._accept(request)
        fault = self._take_fault(call, request)
        body: dict[str, Any] = {"input_tokens": accepted.layout.total}
        if request.body.get("context_management") is not None:
            original = lay_out(drop_before_compaction(accepted.sent), self.options).total
            body["context_management"] = {"original_input_tokens": original}
        self._ledger.counted(request, id=call.id, at=call.at)
        answer = self._answer(call.id, body)
        return answer if fault is None else fault.alter_response(answer)

    def _message(self, call: RequestContext, request: ParsedRequest) -> HttpResponse:
        accepted = self._accept(request)
        check_window(accepted.layout.total, request)
        fault = self._take_fault(call, request)
        spoken = self._generate(call, accepted)
        body = self._body(call, accepted, spoken)
        self._threads.hold(request, body, call.now)
        outcomes = tuple(part.outcome for part in spoken.iterations)
        paid = compute_priced_usage(body["usage"], request.model, on=call.at.date())
        self._ledger.answered(request, id=call.id, at=call.at, body=body, bill=paid, outcomes=outcomes)
        return self._send(call, request, body, fault, outcomes)

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

    def _take_fault(self, call: RequestContext, request: ParsedRequest) -> InjectedFault | None:
        """The fault that this request meets; one that is an error ends the request here."""
        compacts = find_requested_compaction(request) is not None
        fault = self.faults.take(request.endpoint, request.workspace, is_compaction=compacts)
        if fault is not None and (refusal := fault.refusal(request.model, at=call.at)) is not None:
            raise refusal
        if fault is not None and fault.drops_cache:
            self.cache.lose(
                lambda entry: isinstance(entry.scope, tuple) and entry.scope[0] == request.workspace
            )
        return fault

    # ── what the model says ──────────────────────────────────────────────────────────────────────

    def _generate(self, call: RequestContext, accepted: AcceptedRequest) -> Generation:
        request = accepted.seen
        if (asked := find_requested_compaction(request)) is not None:
            return self._summarize(call, accepted, asked.get("instructions"))
        if request.body["max_tokens"] == 0:
            outcome = self._look_up_cache(call, accepted.layout.prompt)
            return Generation(ModelOutput((), "max_tokens"), (Iteration("message", outcome, 0),))
        if (trigger := find_threshold_compaction(request, accepted.layout, self.options)) is not None:
            return self._compact_and_reply(call, accepted, trigger.instructions, pauses=trigger.pauses)
        return self._reply(call, accepted, request, accepted.layout)

    def _reply(
        self,
        call: RequestContext,
        accepted: AcceptedRequest,
        request: ParsedRequest,
        layout: RequestLayout,
        opening: tuple[dict[str, Any], ...] = (),
    ) -> Generation:
        outcome = self._look_up_cache(call, layout.prompt)
        count = make_block_counter(request.model, self.options)
        heard = replace(request, messages=accepted.sent.messages)
        said = truncate_output(
            self.speaker.say(heard, rng=self._rng, now=call.at), request, layout.total, count
        )
        part = Iteration(
            "message", outcome, count_output_tokens(said, count), count_thinking_tokens(said, count)
        )
        content = sign_reply((*opening, *said.content), accepted.sent)
        return Generation(replace(said, content=content), (part,))

    def _summarize(
        self, call: RequestContext, accepted: AcceptedRequest, instructions: str | None
    ) -> Generation:
        """On demand: the summary is the whole answer; a failed one is an empty answer that costs the same."""
        said, part = self._summary(call, accepted, instructions)
        count = make_block_counter(accepted.seen.model, self.options)
        said = truncate_output(said, accepted.seen, accepted.layout.total, count)
        part = replace(part, output=count_output_tokens(said, count))
        text = extract_summary(said)
        if text is None or said.stop_reason in ("max_tokens", "model_context_window_exceeded"):
            return Generation(ModelOutput((), said.stop_reason), (part,))
        block = sign_compaction({"type": "compaction", "content": text}, accepted.sent)
        return Generation(ModelOutput((block,), "compaction"), (part,))

    def _compact_and_reply(
        self, call: RequestContext, accepted: AcceptedRequest, instructions: str | None, *, pauses: bool
    ) -> Generation:
        said, part = self._summary(call, accepted, instructions)
        self.cache.write(part.outcome, call.now)
        block = {"type": "compaction", "content": extract_summary(said)}
        if pauses:
            return Generation(ModelOutput((block,), "compaction"), (part,))
        request, layout = accepted.seen, accepted.layout
        if block["content"] is not None:
            request = replace_with_summary(request, block)
            layout = lay_out(request, self.options)
        spoken = self._reply(call, accepted, request, layout, opening=(block,))
        return replace(spoken, iterations=(part, *spoken.iterations))

    def _summary(
        self, call: RequestContext, accepted: AcceptedRequest, instructions: str | None
    ) -> tuple[ModelOutput, Iteration]:
        outcome = self._look_up_cache(call, summary_prompt(accepted.layout))
        said = self.speaker.summary(accepted.seen, instructions)
        output = count_output_tokens(said, make_block_counter(accepted.seen.model, self.options))
        return said, Iteration("compaction", outcome, output)

    def _look_up_cache(self, call: RequestContext, prompt: PromptLayout) -> CacheLookup:
        outcome = self.cache.look(prompt, call.now)
        self.cache.refresh(outcome)
        return outcome

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def _body(self, call: RequestContext, accepted: AcceptedRequest, spoken: Generation) -> dict[str, Any]:
        request = accepted.sent
        id = new_id("msg_", self._rng)
        diagnostics = None
        if isinstance(request.body.get("diagnostics"), dict):
            present = compute_fingerprint(request, lay_out(request, self.options), call.now)
            diagnostics = self._diagnoses.compare(request, present)
            self._diagnoses.remember(request, id, present)
        return message_body(
            request,
            spoken.said,
            id=id,
            usage=build_usage(request, spoken.iterations, deleted=accepted.deleted),
            diagnostics=diagnostics,
            applied=accepted.applied,
            transformations=accepted.transformations,
        )

    def _send(
        self,
        call: RequestContext,
        request: ParsedRequest,
        body: dict[str, Any],
        fault: InjectedFault | None,
        outcomes: tuple[CacheLookup, ...],
    ) -> HttpResponse:
        answer = self._answer(call.id, body)
        if request.streams:
            headers = {"content-type": "text/event-stream; charset=utf-8", "request-id": call.id}
            answer = HttpResponse(200, headers, stream=stream_chunks(body))
        if fault is not None:
            answer = fault.alter_response(answer)
        return self._begin(answer, call, outcomes)

    def _begin(
        self, answer: HttpResponse, call: RequestContext, outcomes: tuple[CacheLookup, ...]
    ) -> HttpResponse:
        """Others can read what was written once the response begins: now, later, or never."""

        def write() -> None:
            for outcome in outcomes:
                self.cache.write(outcome, call.now)

        if answer.hangs_up and answer.stream is None and not answer.body:
            return answer
        if answer.delay > 0:
            return replace(answer, begins=write)
        write()
        return answer


def _workspace_header(workspace: str) -> dict[str, str]:
    """The key itself stays out of answers; equal keys have equal ids."""
    if not workspace:
        return {}
    name = blake2b(workspace.encode(errors="surrogatepass"), digest_size=12).hexdigest()
    return {"anthropic-workspace-id": f"wrkspc_{name}"}


def find_workspace(headers: Mapping[str, str]) -> str | None:
    """Every key is a workspace of its own; `x-api-key` wins over a bearer token. None without a key."""
    if key := headers.get("x-api-key"):
        return key
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
