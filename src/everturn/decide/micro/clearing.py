"""A plan that clears: what all kinds that put placeholders in place of results have in common (MC-3 to 5)."""

from collections.abc import Sequence

from everturn.decide.micro.bound_thinking import with_thinking
from everturn.decide.micro.context import MicroContext, MicroPlan, several
from everturn.decide.policy import StepName
from everturn.decide.result_tracker import TrackedResult
from everturn.history.edits import Cleared


def clearing(
    kind: StepName, situation: MicroContext, doomed: Sequence[TrackedResult], because: str
) -> MicroPlan:
    """`doomed` is oldest first and not empty."""
    saved = situation.results.saving(doomed)
    why = f"{because}: clears {several(len(doomed), 'result')}, saves {saved:,} tokens"
    edit = Cleared(
        tuple(result.call for result in doomed),
        why=why,
        tokens_before=situation.size,
        tokens_saved=saved,
    )
    plan = MicroPlan(
        kind,
        edits=(edit,),
        why=why,
        tokens_saved=saved,
        forgotten=situation.results.paths_of(edit.calls),
        detector_notice="deleted",
        suppresses_warning=True,
    )
    return with_thinking(plan, situation.results.reply_after(doomed[0]), situation)


def seen(situation: MicroContext, results: Sequence[TrackedResult]) -> list[TrackedResult]:
    """Without those of the newest user message: what the model never saw would be lost to it."""
    return [result for result in results if situation.results.was_seen(result.call)]
