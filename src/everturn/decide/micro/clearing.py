"""A plan that clears: what all kinds that replace results by placeholders have in common (MC-3 to MC-5)."""

from collections.abc import Sequence

from everturn.decide.micro.bound_thinking import with_thinking
from everturn.decide.micro.context import MicroContext, MicroPlan, several
from everturn.decide.result_tracker import TrackedResult
from everturn.decide.settings import MicroStepName
from everturn.history.edits import Cleared


def clearing(
    kind: MicroStepName, situation: MicroContext, to_clear: Sequence[TrackedResult], because: str
) -> MicroPlan:
    """`to_clear` is oldest first and not empty."""
    saved = situation.results.saving(to_clear)
    why = f"{because}: clears {several(len(to_clear), 'result')}, saves {saved:,} tokens"
    edit = Cleared(
        tuple(result.call for result in to_clear),
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
    )
    return with_thinking(plan, situation.results.reply_after(to_clear[0]), situation)


def seen(situation: MicroContext, results: Sequence[TrackedResult]) -> list[TrackedResult]:
    """Without those of the newest user message: the model has not seen them yet."""
    return [result for result in results if situation.results.was_seen(result.call)]
