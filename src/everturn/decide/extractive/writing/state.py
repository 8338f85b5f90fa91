"""What is true at the end, whatever was said: modes, unresolved conflicts, failing checks, commits."""

from collections.abc import Iterator
from typing import Final

from everturn.decide.extractive.reading.commands import programs
from everturn.decide.extractive.reading.facts import Facts, ToolFailure
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.writing import wording
from everturn.decide.extractive.writing.fitting import SummaryEntry
from everturn.decide.extractive.writing.quoting import clipped, one_line, prefix_lines, quote, shortened
from everturn.decide.extractive.writing.trouble import described

_SHORT: Final = 200
_NAMES: Final = 600
_CHECK: Final = 80
# A plan with more messages after it is only named: it may be done.
_FRESH: Final = 2


def modes(facts: Facts, settings: SummarySettings) -> list[SummaryEntry]:
    """Plan mode, permission mode and the plan: what the model may do."""
    state = facts.state
    entries: list[SummaryEntry] = []
    if state.is_planning:
        entries.append(
            SummaryEntry("mode: plan mode is on: change nothing until the user has approved the plan", rank=0)
        )
    elif state.permission and state.permission != "default":
        entries.append(SummaryEntry(f"permission mode: {one_line(state.permission)[:_SHORT]}", rank=1))
    if state.plan:
        how = _standing_of_plan(facts)
        short = f"the plan ({how}): {quote(shortened(state.plan, _SHORT))}"
        whole = f"the plan ({how}): {quote(shortened(state.plan, settings.statement))}"
        entries.append(SummaryEntry(whole if state.plan_age <= _FRESH else short, 2, short))
    return entries


def _standing_of_plan(facts: Facts) -> str:
    if facts.state.plan_approved:
        return "approved by the user"
    return "refused by the user" if facts.state.plan_refused else "not approved"


def open_items(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    """What has to be settled before the work is done."""
    state = facts.state
    if state.under_way:
        yield SummaryEntry(f"{wording.UNDER_WAY}{state.under_way}", rank=0)
    for path in state.conflicts:
        yield SummaryEntry(f"{wording.CONFLICTED} not resolved: {one_line(path)}", rank=0)
    for failure in state.failing:
        yield _failing(failure, settings)
    if state.last_check and state.unchecked:
        named = clipped(", ".join(map(one_line, state.unchecked)), _NAMES)
        yield SummaryEntry(f"{wording.UNCHECKED} (`{clipped(state.last_check, _CHECK)}`): {named}", rank=1)
    for name in state.running_agents:
        yield SummaryEntry(f"an agent is still running: {quote(one_line(name))}", rank=1)
    if state.plan and state.plan_refused:
        # What the user said next is about it, or about something else.
        if not state.plan_age:
            yield SummaryEntry(_refusal(state.plan_refusal), rank=0)
    elif state.plan and not state.plan_approved:
        yield SummaryEntry(f"{wording.PLAN_WAITS}, see 8", rank=0)


def _refusal(said: str) -> str:
    """Words with the refusal say how to go on; without any, only the user can."""
    if not said:
        return f"{wording.PLAN_REFUSED}: change nothing before they say more, see 8"
    words = quote(shortened(said, _SHORT))
    return f"{wording.PLAN_REFUSED} and said: {words}; until they approve one, change nothing but the plan"


def _failing(failure: ToolFailure, settings: SummarySettings) -> SummaryEntry:
    head = f"{wording.FAILING}: {described(failure.deed)}"
    if failure.passed_since:
        head += f"; later `{clipped(failure.passed_since, _CHECK)}` reported no failure"
    if failure.hidden_since:
        head += f"; `{clipped(failure.hidden_since, _CHECK)}` ran later and does not show how it ended"
    lines = prefix_lines(clipped(line, settings.sentence) for line in failure.lines)
    return SummaryEntry(f"{head}\n{lines}", rank=0, short=head)


def is_replaced(item: str, facts: Facts) -> bool:
    """Whether what happened since decides about an open item of an earlier summary."""
    state = facts.state
    if item.startswith(wording.TODO):
        return facts.tasks_known
    if item.startswith((wording.CONFLICTED, wording.UNDER_WAY)):
        return state.git_known
    if item.startswith((wording.AT_WORK, wording.NOT_MENTIONED, wording.STOPPED, wording.UNANSWERED)):
        return facts.is_answered or bool(facts.messages)
    if item.startswith((wording.ASKING, wording.OFFERED)):
        return bool(facts.messages)
    if item.startswith((wording.PLAN_REFUSED, wording.PLAN_WAITS)):
        return bool(facts.messages or facts.state.plan)
    if item.startswith(wording.UNMADE):
        return bool(facts.messages) or any(f"`{deed.target}`" in item for deed in facts.changes)
    if item.startswith(wording.UNCHECKED):
        return bool(state.last_check)
    if item.startswith(wording.FAILING):
        command = item.partition("`")[2].partition("`")[0]
        return bool(state.programs.intersection(programs(command)))
    return False


def commits(facts: Facts, settings: SummarySettings) -> Iterator[SummaryEntry]:
    """What is committed and pushed, and what was changed after that."""
    state = facts.state
    newest = state.commits[-settings.commits :]
    if newest:
        listed = prefix_lines(clipped(each, _SHORT) for each in newest)
        yield SummaryEntry(f"committed:\n{listed}", 2, f"committed last:\n{prefix_lines(newest[-1:])}")
    if state.pushes:
        yield SummaryEntry(f"pushed last: {one_line(state.pushes[-1])}", 3)
    for address in state.requests:
        yield SummaryEntry(f"pull request: {one_line(address)}", 3)
    if state.commits and state.uncommitted:
        named = ", ".join(map(one_line, state.uncommitted))
        yield SummaryEntry(f"changed after the last commit: {clipped(named, _NAMES)}", 3)
