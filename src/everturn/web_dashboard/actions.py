"""Actions on a session: compact with a dry run first, undo, pin (DB-7).

Each is refused while another process may be writing the file. everturn's own programs hold a lock; other
agents do not, so a file that changed moments ago counts as being written.
"""

import os
from collections.abc import Callable
from typing import Final

import msgspec

from everturn.decide.compact.values import Compaction, CompactionPlan, CompactionSkipped, Receipt
from everturn.decide.options import Options
from everturn.errors import InputError, SessionLocked
from everturn.measure.money import format_dollars
from everturn.session.reopen import reopen_session

# Within this many seconds of its last change, a file counts as being written by its agent.
QUIET_SECONDS: Final = 30


class ActionResult(msgspec.Struct, frozen=True):
    """What is shown after an action: a sentence and rows of a name and a text. `confirm` is the action that
    the user can now confirm; "" after the last step."""

    title: str
    rows: tuple[tuple[str, str], ...] = ()
    confirm: str = ""


class ActionRefused(InputError):
    """The action cannot be done now; nothing was changed."""


class Actions:
    def __init__(self, options: Options, *, clock: Callable[[], float]) -> None:
        self._options, self._clock = options, clock

    def plan(self, file: str, instructions: str) -> ActionResult:
        """What a compaction would do. Reads only, so it needs no quiet file."""
        with reopen_session(file, dry_run=True, options=self._options) as session:
            plan = session.dry_run(instructions)
        if isinstance(plan, CompactionSkipped):
            raise ActionRefused(f"It would not be compacted: {plan.why}")
        return ActionResult("Compact this session?", tuple(_plan_rows(plan)), confirm="compact")

    def compact(self, file: str, instructions: str) -> ActionResult:
        self.check_quiet(file)
        with reopen_session(file, options=self._options) as session:
            outcome = session.compact(instructions)
            spent = session.bill.parts["compact"]
        if not isinstance(outcome, Compaction):
            raise ActionRefused(f"It was not compacted: {outcome.why}")
        price = format_dollars(spent.dollars) if spent.calls else "nothing: no call was made"
        sizes = f"{outcome.tokens_before:,} before, {outcome.tokens_after:,} after"
        rows = (("Tokens", sizes), ("Price", price), *_receipt_rows(outcome.receipt))
        return ActionResult("The session is compacted. Nothing was deleted: you can undo it.", rows)

    def undo(self, file: str, _: str) -> ActionResult:
        self.check_quiet(file)
        with reopen_session(file, options=self._options) as session:
            before = session.context().size.tokens
            undone = session.undo()
            after = session.context().size.tokens
        if isinstance(undone, CompactionSkipped):
            raise ActionRefused(undone.why)
        return ActionResult(
            "The last compaction is undone.", (("Tokens", f"{before:,} before, {after:,} now"),)
        )

    def pin(self, file: str, text: str) -> ActionResult:
        if not text.strip():
            raise ActionRefused("There is no text to pin. Write what every compaction must keep.")
        self.check_quiet(file)
        with reopen_session(file, options=self._options) as session:
            session.pin(text.strip())
        return ActionResult("Pinned. Every later compaction keeps this text word for word.")

    def check_quiet(self, file: str) -> None:
        try:
            seconds = self._clock() - os.stat(file).st_mtime
        except OSError as problem:
            raise ActionRefused(f"{file} cannot be read: {problem.strerror}.") from None
        if seconds < QUIET_SECONDS:
            raise SessionLocked(
                f"{file} was written {max(0, round(seconds))} seconds ago: another process may be using it. "
                f"Nothing was changed. Try again when it has been quiet for {QUIET_SECONDS} seconds."
            )


def _plan_rows(plan: CompactionPlan) -> list[tuple[str, str]]:
    after = f"up to {plan.expected_after:,}" if plan.restoration.files else f"about {plan.expected_after:,}"
    by = plan.strategies[0] if plan.strategies else "no strategy is allowed"
    pins = f"{len(plan.pins)} word for word" if plan.pins else "none"
    return [
        ("Summarizes", f"{len(plan.summarized):,} records, about {plan.tokens_summarized:,} tokens"),
        ("Keeps", f"{len(plan.kept):,} records, about {plan.tokens_kept:,} tokens"),
        ("Strategy", by),
        ("Pins", pins),
        ("Restores", ", ".join(plan.restoration.files) or "no file"),
        ("Tokens", f"{plan.tokens_before:,} before, {after} after"),
        ("Price", f"{format_dollars(plan.expected_dollars)}, estimated"),
        ("Why", plan.why),
    ]


def _receipt_rows(receipt: Receipt) -> list[tuple[str, str]]:
    rows = (
        ("Retained", receipt.retained),
        ("Recoverable", receipt.recoverable),
        ("Dropped", receipt.dropped),
    )
    return [(name, "; ".join(what)) for name, what in rows if what]
