"""What the economic policy remembers: the carry, the bill, and the bill of doing nothing."""

import msgspec

from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.settings import COLD_TOKENS
from everturn.history.records import Usage
from everturn.measure.prefix_cache import SECONDS, Ttl


class EconomyState(msgspec.Struct, frozen=True, kw_only=True):
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
    # Of the last answered call: its prompt, its output, when it began.
    prompt: int = 0
    output: int = 0
    called_at: float | None = None
    # Since that call: holds, and whether the context was reset.
    holds: int = 0
    was_reset: bool = False
    # The share of the last prompt that would have been read if it had not been reset; None if nobody looked.
    share_before: float | None = None
    # A compaction was undone: below this size, price is no reason for another one.
    quiet_below: int = 0

    @property
    def has_acted(self) -> bool:
        """Whether there was a reset or a hold."""
        return self.base is not None or self.held > 0 or self.holds > 0

    def within(self, window: int, size: int) -> "EconomyState":
        """Before a call of this size. Who does nothing has to forget something too where the window ends."""
        return msgspec.structs.replace(self, surplus=min(self.surplus, max(0, window - size)))

    def unmanaged_call(
        self, size: int, read: int, now: float, prices: RelativePrices, ttl: Ttl, *, kept_anyway: int = 0
    ) -> float:
        """What a call of this size, which reads so much, would have cost in dollars if nothing had ever been
        reset or held. What the provider lost by itself, it would have lost then too; `kept_anyway` are tokens
        that it is known to have kept beyond their time by itself.
        """
        size, before = size + self.surplus, self.prompt + self.surplus
        is_late = self.called_at is None or now - self.called_at > SECONDS[ttl]
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
        return (prices.read * found + prices.write_5m * (size - found)) * prices.dollars

    def after_reply(
        self,
        usage: Usage,
        prices: RelativePrices,
        *,
        base: int,
        now: float,
        ttl: Ttl,
        kept_anyway: int = 0,
    ) -> "EconomyState":
        """`base` is the size to count from while there was no reset."""
        base = self.base if self.base is not None else base
        read = usage.cache_read_input_tokens
        # While nothing was reset or held, it is what was paid, whatever was cached and why.
        unmanaged = (
            self.unmanaged_call(usage.context, read, now, prices, ttl, kept_anyway=kept_anyway)
            if self.has_acted
            else prices.input_side(usage)
        )
        return msgspec.structs.replace(
            self,
            carry=self.carry + prices.read * max(0, usage.context - base),
            spent=self.spent + prices.input_side(usage),
            unmanaged=self.unmanaged + unmanaged,
            prompt=usage.context,
            output=usage.output_tokens,
            called_at=now,
            holds=0,
            was_reset=False,
            share_before=None,
        )

    def after_reset(self, before: int, after: int, dollars: float, read: int | None = None) -> "EconomyState":
        """The next prompt has become this much smaller, for a summary of so many dollars. `read` is what
        would have been read of it without that; None if nobody looked.
        """
        looked = None if read is None or not self.prompt else min(1.0, read / self.prompt)
        return msgspec.structs.replace(
            self,
            base=after,
            carry=0.0,
            spent=self.spent + dollars,
            surplus=self.surplus + max(0, before - after),
            # What is left of the last prompt: nobody knows exactly, and a new prompt is written anyway.
            prompt=min(self.prompt, after),
            was_reset=True,
            share_before=self.share_before if self.was_reset else looked,
            quiet_below=0,
        )

    def after_undo(self, before: int, after: int) -> "EconomyState":
        """A compaction was undone, and the next prompt has grown by this much. It was not wanted, so the
        context has to grow before price is a reason again.
        """
        grown = min(self.surplus, max(0, after - before))
        return msgspec.structs.replace(
            self,
            surplus=self.surplus - grown,
            # What the last prompt was, or would have been.
            prompt=self.prompt + grown,
            was_reset=True,
            quiet_below=after + COLD_TOKENS,
        )

    def after_hold(self, dollars: float) -> "EconomyState":
        return msgspec.structs.replace(
            self, spent=self.spent + dollars, held=self.held + dollars, holds=self.holds + 1
        )

    def after_late_hold(self, dollars: float) -> "EconomyState":
        """A hold of an earlier pause, or of an earlier process: its price counts, its effect does not."""
        return msgspec.structs.replace(self, spent=self.spent + dollars, held=self.held + dollars)
