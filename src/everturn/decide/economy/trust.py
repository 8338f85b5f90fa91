"""Trust, then check (EC-3): whether a hold of an hour has really kept the prefix.

That an entry of an hour survives the five-minute entries below it is documented and not proven. The first
return after a hold tells. It tells nothing within five minutes of the hold, when the entries below are alive
too, nor after its hour, nor if the prompt has changed since.
"""

from typing import Final

import msgspec

from everturn.measure.prefix_cache import SECONDS

# A prompt of which less was read was not kept. Estimated sizes differ from the provider's by less.
KEPT_SHARE: Final = 0.5


class HoldCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the first return after a hold has read, of what the hold covered."""

    kept: bool
    read: int
    held: int
    seconds: float

    @property
    def why(self) -> str:
        minutes = f"{self.seconds / 60:.0f} minutes after the hold"
        found = f"{self.read:,} of {self.held:,} held tokens were read {minutes}"
        if self.kept:
            return f"{found}: an hour's entry survives"
        return f"{found}: from now on the cache is refreshed every five minutes while that is worth its price"


def check_hold(*, held: int, read: int, seconds: float, is_same_prompt: bool) -> HoldCheck | None:
    """`held` are the tokens that the last hold covered, `read` what the call after it has read, `seconds` the
    time between them. None if that tells nothing."""
    if not held or not is_same_prompt or not SECONDS["5m"] < seconds <= SECONDS["1h"]:
        return None
    return HoldCheck(kept=read >= KEPT_SHARE * held, read=read, held=held, seconds=seconds)
