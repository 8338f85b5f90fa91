"""Show the results of a verification as a table, as JSON, and as options."""

from collections.abc import Sequence
from typing import Any, Final

from everturn.twin.verify.run import ProbeResult, Verification, learn_options

_MAX_SHOWN: Final = 46


def format_row(result: ProbeResult, width: int) -> list[str]:
    """The lines of the table for one result: one, and one more for each difference."""
    probe = result.probe
    lines = [f"{probe.id:<{width}}  {result.verdict:<9}  {probe.asks}"]
    if result.reason:
        lines.append(f"{'':<{width}}  {result.reason}")
    for at in result.differences:
        compared = probe.compares[at]
        place = f"{compared.path} of request {compared.request + 1}"
        lines.append(f"{'':<{width}}  {place}: twin {_show(result.twin[at])}, API {_show(result.api[at])}")
    return lines


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + " ..."


def describe(
    verification: Verification, *, against: str, version: str, at: str, options: dict[str, Any]
) -> dict[str, Any]:
    """The whole verification, for `--json`. It contains no key."""
    return {
        "against": against,
        "everturn": version,
        "time": at,
        "dollars": round(verification.spent, 6),
        "budget": verification.budget,
        "options": options,
        "learned": learn_options(verification.results),
        "probes": [_describe_result(result) for result in verification.results],
    }


def _describe_result(result: ProbeResult) -> dict[str, Any]:
    fields = [{"request": each.request, "path": each.path, "how": each.how} for each in result.probe.compares]
    return {
        "id": result.probe.id,
        "asks": result.probe.asks,
        "verdict": result.verdict,
        "reason": result.reason,
        "compared": fields,
        "twin": list(result.twin),
        "api": list(result.api),
        "dollars": round(result.dollars, 6),
    }


def summarize(verification: Verification) -> str:
    counts: Sequence[str] = [
        f"{count} {verdict}"
        for verdict in ("same", "differs", "no answer", "not run")
        if (count := verification.count(verdict))
    ]
    return f"{', '.join(counts)}; ${verification.spent:.4f} spent"
