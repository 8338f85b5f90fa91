"""A summary request that is itself too long: the oldest rounds go, a few times (CP-9).

A round is one response of the model with what answered it. How much goes is read from the error; where its
wording gives no numbers, a share of the rounds. Every retry drops at least one round, or it would be the same
request again.
"""

from collections.abc import Callable, Sequence

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import CompactionSkipped
from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.history.repair import server_calls_under_way
from everturn.measure.tokens import estimate_block
from everturn.view.fragments.truncated import TRUNCATED
from everturn.wire.overflow import Overflow

_MARKER = Message("user", (TRUNCATED,))


def drop_oldest_rounds(
    messages: Sequence[Message],
    overflow: Overflow | None,
    tried: int,
    *,
    settings: CompactSettings = DEFAULTS,
    estimate: Callable[[Block], int] = estimate_block,
) -> tuple[Message, ...] | CompactionSkipped:
    """The messages, without the prompt behind them, of the next try after `tried` retries."""
    if tried >= settings.retries:
        retries = "1 retry" if settings.retries == 1 else f"{settings.retries} retries"
        return CompactionSkipped(f"the conversation is still too long to be summarized after {retries}")
    groups = _rounds(_without_marker(messages))
    drop = _by_gap(groups, overflow.gap, estimate) if overflow and overflow.gap else 0
    drop = drop or max(1, int(len(groups) * settings.drop_share))
    if len(groups) < 2:
        return CompactionSkipped(
            "even the newest part of the conversation is too long to be summarized: nothing would be left"
        )
    # The newest round is always tried: our tokens are estimates, the provider's were counted.
    rest = [message for group in groups[min(drop, len(groups) - 1) :] for message in group]
    return (_MARKER, *rest) if rest[0].role == "assistant" else tuple(rest)


def messages_left_out(whole: Sequence[Message], shown: Sequence[Message]) -> int:
    """How many of all messages a shortened request does not have."""
    return len(whole) - len(_without_marker(shown))


def _without_marker(messages: Sequence[Message]) -> Sequence[Message]:
    """Without what an earlier retry put there: it would be the round that this one drops."""
    return messages[1:] if messages and messages[0] == _MARKER else messages


def _rounds(messages: Sequence[Message]) -> list[list[Message]]:
    """A reply that goes on while a tool of the provider's is under way belongs to the round before: a result
    without its call would be refused."""
    groups: list[list[Message]] = []
    under_way: list[Block] = []
    for message in messages:
        if (message.role == "assistant" and not under_way) or not groups:
            groups.append([])
        groups[-1].append(message)
        if message.role == "assistant":
            under_way = server_calls_under_way([*under_way, *message.blocks])
    return groups


def _by_gap(groups: Sequence[Sequence[Message]], gap: int, estimate: Callable[[Block], int]) -> int:
    """How many of the oldest rounds hold the tokens that are too many; all, where all do not."""
    freed = 0
    for at, group in enumerate(groups, start=1):
        freed += sum(estimate(block) for message in group for block in message.blocks)
        if freed >= gap:
            return at
    return len(groups)
