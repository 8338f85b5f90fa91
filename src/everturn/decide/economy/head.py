"""The head of every prompt: what the definition of each tool costs, and which tools are worth deferring
(EC-10).

A deferred tool is not in the prompt; the model finds it with a search when it needs it. That saves a read of
its definition with every call, and costs the definition of the search tool and a search now and then. The
tools stand before everything else in the prompt, so a change is made only when nothing is cached.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from everturn.decide.economy.amounts import format_compared
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.settings import REFETCH_ASKS

# A tool that was not called for so long is taken for unused. Our choice.
MIN_CALLS: Final = 10
# Definition of the search tool and the hint that deferred tools exist. An assumption.
SEARCH_TOKENS: Final = 500


class HeadTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that the model is offered: tokens of its definition, and how often it was called."""

    name: str
    tokens: int
    calls: int = 0
    is_deferred: bool = False

    @property
    def is_unused(self) -> bool:
        """Whether it costs something with every call and was never called."""
        return not self.calls and not self.is_deferred


class DeferralDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Which tools are deferred, none if it is not worth it; dollars over as many calls as there were."""

    tools: tuple[str, ...]
    tokens: int
    cost: float
    expected: float
    why: str


def decide_deferral(
    head: Sequence[HeadTool], *, replies: int, size: int, prices: RelativePrices, kept: Collection[str]
) -> DeferralDecision | None:
    """`replies` are the calls of the model so far, `size` the tokens of the next prompt; `kept` are tools
    that must stay. None if it is too early to tell. As many calls are expected as there were, and as many
    tools needed for the first time as were needed only once so far (Good and Turing's estimate)."""
    unused = [tool for tool in head if tool.is_unused and tool.name not in kept]
    if replies < MIN_CALLS or not unused:
        return None
    tokens = sum(tool.tokens for tool in unused)
    once = sum(tool.calls == 1 for tool in head)
    searches = min(float(len(unused)), once + 0.5)
    one_search = prices.read * size + REFETCH_ASKS + prices.write * tokens / len(unused)
    saved = prices.read * tokens * replies * prices.dollars
    cost = (prices.read * SEARCH_TOKENS * replies + searches * one_search) * prices.dollars
    is_cheaper = cost < saved
    unsaved, searched = format_compared(saved, cost)
    named = f"{len(unused)} of {len(head)} tools were not called in {replies} calls"
    return DeferralDecision(
        tools=tuple(tool.name for tool in unused) if is_cheaper else (),
        tokens=tokens,
        cost=cost,
        expected=saved,
        why=f"{named}: their {tokens:,} tokens cost {unsaved} in as many calls, "
        f"a search tool and searches {searched}",
    )
