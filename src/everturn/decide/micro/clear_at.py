"""Clear all but a few results once the context is large, as the API's clear_tool_uses does.

A baseline to compare with (api-facts 2.2). The API looks at the prompt before its edits, and the client keeps
sending all of it: once over the trigger it stays over it, and the edit fires with every further result.
"""

from everturn.decide.micro.clearing import clearing
from everturn.decide.micro.context import MicroContext, MicroPlan, no_change


def plan_clear_at(situation: MicroContext) -> MicroPlan:
    settings = situation.options.micro.clear_at
    has_fired = situation.results.count < situation.results.arrived
    if situation.size <= settings.trigger and not has_fired:
        return no_change(f"{situation.size:,} tokens, not over {settings.trigger:,}")
    to_clear = situation.results.all_but(max(0, settings.keep))
    if not to_clear:
        return no_change(f"no more than the newest {settings.keep} results are there")
    return clearing("clear_at", situation, to_clear, f"the whole prompt is over {settings.trigger:,} tokens")
