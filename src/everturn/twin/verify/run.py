"""Run the probes on both sides, within a budget, and collect what differs.

The twin runs first: it is free, and its prices are the estimate. The other side is asked probe by probe until
the next one would exceed the budget.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from everturn.errors import UpstreamError
from everturn.measure.model_table import find_model
from everturn.measure.pricing import compute_priced_usage
from everturn.twin.options import TwinOptions
from everturn.twin.verify.compare import find_differences, observe
from everturn.twin.verify.values import Probe, ProbeRequest, ProbeResponse, SendProbe
from everturn.wire.json_values import as_object, is_object

Verdict = Literal["same", "differs", "no answer", "not run"]
# Statuses that say nothing about the question: no access, limits, overload.
_NO_ANSWERS: Final = (401, 402, 403, 408, 429, 500, 502, 503, 504, 529)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What both sides answered to a probe."""

    probe: Probe
    verdict: Verdict
    twin: tuple[Any, ...] = ()
    api: tuple[Any, ...] = ()
    # Why there is no verdict.
    reason: str = ""
    dollars: float = 0.0
    differences: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The twin's answers to a probe, and what the same requests would cost."""

    probe: Probe
    responses: tuple[ProbeResponse, ...]
    dollars: float


@dataclass(slots=True)
class Verification:
    """The results so far, and the money spent."""

    budget: float
    results: list[ProbeResult] = field(default_factory=list[ProbeResult])

    @property
    def spent(self) -> float:
        return sum(result.dollars for result in self.results)

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict == verdict for result in self.results)


def rehearse(probes: Sequence[Probe], send: Callable[[Probe], SendProbe], *, on: date) -> list[Rehearsal]:
    """The probes on the twin. `send` gives a new twin for each probe."""
    rehearsals: list[Rehearsal] = []
    for probe in probes:
        responses = _ask(probe, send(probe))
        rehearsals.append(Rehearsal(probe, responses, _price(probe, responses, on)))
    return rehearsals


def verify(
    rehearsals: Sequence[Rehearsal], send: SendProbe, *, budget: float, on: date
) -> Iterator[ProbeResult]:
    """The results in order, each as soon as it is known."""
    spent = 0.0
    for rehearsal in rehearsals:
        if spent + rehearsal.dollars > budget:
            left = max(0.0, budget - spent)
            reason = f"it would cost about ${rehearsal.dollars:.4f}, and ${left:.4f} are left"
            yield ProbeResult(rehearsal.probe, "not run", reason=reason)
            continue
        result = _compare(rehearsal, send, on)
        spent += result.dollars
        yield result


def _compare(rehearsal: Rehearsal, send: SendProbe, on: date) -> ProbeResult:
    probe = rehearsal.probe
    ours = observe(probe, rehearsal.responses)
    try:
        responses = _ask(probe, send)
    except UpstreamError as problem:
        return ProbeResult(probe, "no answer", ours, reason=str(problem))
    dollars = _price(probe, responses, on)
    refused = next((each for each in responses if each.status in _NO_ANSWERS), None)
    if refused is not None:
        message = as_object(refused.body.get("error")).get("message", "")
        return ProbeResult(probe, "no answer", ours, reason=f"{refused.status} {message}", dollars=dollars)
    theirs = observe(probe, responses)
    differences = tuple(find_differences(probe, ours, theirs))
    verdict: Verdict = "differs" if differences else "same"
    return ProbeResult(probe, verdict, ours, theirs, dollars=dollars, differences=differences)


def _ask(probe: Probe, send: SendProbe) -> tuple[ProbeResponse, ...]:
    responses: list[ProbeResponse] = []
    for request in probe.requests:
        responses.append(send(request))
    return tuple(responses)


def _price(probe: Probe, responses: Sequence[ProbeResponse], on: date) -> float:
    return sum(
        _price_of(request, response, on) for request, response in zip(probe.requests, responses, strict=True)
    )


def _price_of(request: ProbeRequest, response: ProbeResponse, on: date) -> float:
    model = find_model(str(request.body.get("model")))
    usage = response.body.get("usage")
    if model is None or not is_object(usage) or request.endpoint != "messages":
        return 0.0
    return float(compute_priced_usage(usage, model, on=on).dollars)


# ── learning ─────────────────────────────────────────────────────────────────────────────────────


def learn_options(results: Sequence[ProbeResult]) -> dict[str, Any]:
    """The options that explain the differences; probes that none explains are left out."""
    learned: dict[str, Any] = {}
    for result in results:
        if result.verdict == "differs":
            for option, value in _learn(result):
                known = learned.get(option)
                learned[option] = known | value if isinstance(known, dict) else value
    return learned


def _learn(result: ProbeResult) -> Iterator[tuple[str, Any]]:
    probe = result.probe
    if probe.learns is not None and probe.learns.field in result.differences:
        observed = result.api[probe.learns.field]
        if observed in probe.learns.values:
            yield probe.learns.option, probe.learns.values[observed]
    if probe.learns_ratio and 0 in result.differences:
        ours, theirs = result.twin[0], result.api[0]
        model = find_model(probe.learns_ratio)
        if model is not None and isinstance(ours, int) and isinstance(theirs, int) and theirs > 0:
            known = TwinOptions().chars_per_token.get(model.id, model.chars_per_token)
            yield "chars_per_token", {model.id: round(known * ours / theirs, 3)}
