"""Edits on models that bind thinking to the exact prefix that produced it (PC-16, api-facts 7).

An edit makes all later thinking invalid, so that thinking is dropped with it, and the edit must save more
than the thinking is worth. While a tool loop runs, the API wants the loop's thinking unchanged: the edit
waits. It is decided anew when the loop has ended; a clearing of a cold cache may find the cache warm then and
not happen.
"""

import msgspec

from everturn.decide.micro.context import MicroContext, MicroPlan, no_change
from everturn.history.edits import ThinkingDropped


def with_thinking(plan: MicroPlan, since: str, situation: MicroContext) -> MicroPlan:
    """The plan with what it costs in thinking. `since` is the first reply behind the edit, "" for none."""
    if not situation.binds_thinking or not since:
        return plan
    if situation.in_tool_loop:
        return MicroPlan("waits", why=f"{plan.why}; waits for the tool loop to end: its thinking is bound")
    lost = situation.thinking_tokens_after(since) if situation.thinking_tokens_after else 0
    price = lost * situation.options.micro.thinking_worth
    if price and price >= plan.tokens_saved:
        return no_change(
            f"{plan.why}; but {lost:,} tokens of thinking are worth more than what would be saved"
        )
    why = f"{plan.why}; drops {lost:,} tokens of thinking, which is bound to what changes"
    return msgspec.structs.replace(plan, edits=(*plan.edits, ThinkingDropped(since, why)), why=why)
