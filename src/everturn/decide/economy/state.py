"""What the economic policy remembers: the carry, the bill, and the bill of doing nothing."""

from typing import Final

import msgspec

from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.settings import COLD_TOKENS
from everturn.history.records import Usage
from everturn.measure.prefix_cache import SECONDS

# A rewind can go back beyond any of them; one that goes back further finds no numbers, and claims no saving.
MAX_RESETS: Final = 200


class ResetMark(msgspec.Struct, frozen=True):
    """What a compaction has left, by the uuid of its boundary: the size to count from, and how many tokens
    more the context would hold without it and those before it."""

    boundary: str
    base: int
    surplus: int


class EconomyState(msgspec.Struct, frozen=True, kw_only=True):
    # The compactions of the session, whether in view or not: a rewind may leave them, and come back.
    resets: tuple[ResetMark, ...] = ()
    # The boundary of the view; "" before the first compaction.
    boundary: str = ""
    # The size right after the last reset; None before the first one.
    base: int | None = None
    # What reading the context beyond the base has cost since then, in input tokens (EC-5).
    carry: float = 0.0
    # Dollars: the input side of all calls, summaries and holds; and the input side without them (EC-8).
    spent: float = 0.0
    unmanaged: float = 0.0
    held: float = 0.0
    # Tokens that the context would hold more if nothing had been reset.
    surplus: int = 0
    # Tokens of system prompt and tools that the first call read, before anything of ours was cached: other
    # conversations keep them alive.
    shared: int = 0
    # Of the last answered call: its prompt, its output, when it began.
    prompt: int = 0
    output: int = 0
    # Of that prompt: what was read from the cache or written to it.
    cached: int = 0
    called_at: float | None = None
    # Since that call: holds, and whether the context was reset.
    holds: int = 0
    was_reset: bool = False
    # The share of the last prompt that would have been read if it had not been reset; None if nobody looked.
    share_before: float | None = None
    # A compaction was undone: below this size, price is no reason for another one.
    quiet_below: int = 0
    # The summary model of which it was said that its price is not known.
    unpriced: str = ""

    @property
    def has_acted(self) -> bool:
        """Whether there was a reset or a hold, in view or not."""
        return bool(self.resets) or self.held > 0 or self.holds > 0

    def in_view(self, boundary: str, size: int) -> "EconomyState":
        """With this compaction as the last one; "" if the view has none. `size` is that of the next request.
        After an undo, a rewind, or in a fork, what other compactions have saved is no part of what is sent.
        """
        if boundary == self.boundary:
            return self
        mark = next((each for each in self.resets if each.boundary == boundary), None)
        return msgspec.structs.replace(
            self.rewound(size),
            boundary=boundary,
            base=mark.base if mark else None,
            surplus=mark.surplus if mark else 0,
            # What was carried in the other view says nothing about this one.
            carry=0.0,
            # Without that compaction, the entries of this view would have been renewed until now.
            was_reset=True,
        )

    def rewound(self, size: int) -> "EconomyState":
        """The next request has this size: the conversation goes on from an earlier message, or from another
        branch. The last prompt is as much of that as was sent before."""
        return msgspec.structs.replace(
            self,
            prompt=size if self.prompt else 0,
            output=0,
            cached=min(self.cached, size),
            share_before=None,
        )

    def within(self, window: int, size: int) -> "EconomyState":
        """Before a call of this size. Who does nothing has to forget something too where the window ends."""
        return msgspec.structs.replace(self, surplus=min(self.surplus, max(0, window - size)))

    def unmanaged_call(
        self, size: int, read: int, now: float, prices: RelativePrices, *, kept_anyway: int = 0
    ) -> float:
        """What a call of this size, which reads so much, would have cost in dollars if nothing had ever been
        reset or held. What the provider lost by itself, it would have lost then too; `kept_anyway` are tokens
        that it is known to have kept beyond their time by itself.
        """
        size, before = size + self.surplus, self.prompt + self.surplus
        is_late = self.called_at is None or now - self.called_at > SECONDS[prices.ttl]
        if self.was_reset and self.share_before is not None:
            share = self.share_before
        elif self.was_reset or (is_late and self.holds):
            share = 0.0 if is_late else 1.0
        else:
            share = read / self.prompt if self.prompt else 0.0
        if is_late and before:
            share = max(share, kept_anyway / before)
        # Before the first call nothing of ours is there, and what others keep is read in any case.
        found = min(1.0, share) * min(before, size) if self.prompt else min(read, size)
        return (prices.read * found + prices.write * (size - found)) * prices.dollars

    def after_reply(
        self,
        usage: Usage,
        prices: RelativePrices,
        *,
        base: int,
        now: float,
        kept_anyway: int = 0,
        head: int = 0,
    ) -> "EconomyState":
        """`base` is the size to count from while there was no reset, `head` are system prompt and tools."""
        base = self.base if self.base is not None else base
        read = usage.cache_read_input_tokens
        # While nothing was reset or held, it is what was paid, whatever was cached and why.
        unmanaged = (
            self.unmanaged_call(usage.context, read, now, prices, kept_anyway=kept_anyway)
            if self.has_acted
            else prices.input_side(usage)
        )
        return msgspec.structs.replace(
            self,
            carry=self.carry + prices.read * max(0, usage.context - base),
            spent=self.spent + prices.input_side(usage),
            unmanaged=self.unmanaged + unmanaged,
            shared=min(read, head) if self.called_at is None else self.shared,
            prompt=usage.context,
            output=usage.output_tokens,
            cached=read + usage.cache_creation_input_tokens,
            called_at=now,
            holds=0,
            was_reset=False,
            share_before=None,
        )

    def after_reset(
        self,
        boundary: str,
        before: int,
        after: int,
        dollars: float,
        *,
        read: int | None = None,
        kept: int = 0,
    ) -> "EconomyState":
        """The next prompt has become this much smaller, for a summary of so many dollars. `read` is what
        would have been read of it without that; None if nobody looked. Of what is left, `kept` tokens are a
        large message that nobody has answered yet: the next reset can free it, so it is not in the base.
        """
        looked = None if read is None or not self.prompt else min(1.0, read / self.prompt)
        mark = ResetMark(boundary, max(0, after - kept), self.surplus + max(0, before - after))
        return msgspec.structs.replace(
            self,
            resets=(*self.resets, mark)[-MAX_RESETS:],
            boundary=boundary,
            base=mark.base,
            carry=0.0,
            spent=self.spent + dollars,
            surplus=mark.surplus,
            # What is left of the last prompt: nobody knows exactly, and a new prompt is written anyway.
            prompt=min(self.prompt, after),
            cached=0,
            was_reset=True,
            share_before=self.share_before if self.was_reset else looked,
            quiet_below=0,
        )

    def after_failed_reset(self, dollars: float) -> "EconomyState":
        """Summaries of so many dollars were paid for, and the context stays as it is."""
        return msgspec.structs.replace(self, spent=self.spent + dollars)

    def after_undo(self, boundary: str, size: int) -> "EconomyState":
        """A compaction was undone: the view has the one before it, if any, and the next request this size. It
        was not wanted, so the context has to grow before price is a reason again.
        """
        return msgspec.structs.replace(self.in_view(boundary, size), quiet_below=size + COLD_TOKENS)

    def after_hold(self, dollars: float) -> "EconomyState":
        return msgspec.structs.replace(
            self, spent=self.spent + dollars, held=self.held + dollars, holds=self.holds + 1
        )

    def after_late_hold(self, dollars: float) -> "EconomyState":
        """A hold of an earlier pause, or of an earlier process: its price counts, its effect does not."""
        return msgspec.structs.replace(self, spent=self.spent + dollars, held=self.held + dollars)
