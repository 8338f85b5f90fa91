"""The models of a thread as its requests need them: token counts, system prompts, cache events."""

from collections.abc import Mapping
from typing import Final

import msgspec

from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model import Model
from everturn.measure.model_table import model_or_default
from everturn.measure.prefix_cache import Ttl
from everturn.replay.playing.cache_billing import CacheEvent
from everturn.replay.playing.counting import PreambleSizes, ScaledCosts

# What the API clears itself is not simulated, so no request asks for it.
PROVIDER: Final = msgspec.structs.replace(ANTHROPIC, context_editing=False)


class ThreadModels(msgspec.Struct, frozen=True):
    """The models of a thread and their token counts, by recorded name, and the size of its preamble."""

    models: Mapping[str, Model]
    costs: Mapping[str, ScaledCosts]
    # That of the first call.
    preamble: PreambleSizes
    # The TTL of its cache entries.
    ttl: Ttl = "5m"
    # By call: what the provider's cache did on its own, and the tokens of the preamble that others kept.
    events: Mapping[int, CacheEvent] = {}
    warm: Mapping[int, int] = {}
    # The preambles that begin at a later call: another model was given another one.
    preambles: Mapping[int, PreambleSizes] = {}

    def preamble_at(self, call: int) -> PreambleSizes:
        since = max((number for number in self.preambles if number <= call), default=0)
        return self.preambles.get(since, self.preamble)


class CallingModel(msgspec.Struct, frozen=True):
    """The model that answers a call, and how its tokens are counted."""

    model: Model
    costs: ScaledCosts

    def summarizer(self, name: str) -> "CallingModel":
        """Itself, or another model that writes the summaries, counted on the same scale."""
        if name == self.model.id:
            return self
        model = model_or_default(name).model
        return CallingModel(model, ScaledCosts(model, self.costs.ratio))
