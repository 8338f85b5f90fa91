"""How an adapter treats conversations: what a person chose, made into one value.

Two things that a policy may do are left out unless they are configured on purpose: large results do not go
to files, because nobody knows whether the caller's agent could read them there; and nothing is declared to
the API, because a request that we change should not need a beta that its caller never asked for.
"""

import os
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from everturn.adapters.tracking.caller_request import BreakpointOwner, CallerRequest
from everturn.decide.compact.context import CompactionOptions
from everturn.decide.compact.values import Strategy
from everturn.decide.events import Event
from everturn.decide.policy import Policy
from everturn.engine import ConversationSettings
from everturn.errors import UsageError
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.measure.model import Model
from everturn.measure.outline import Costs
from everturn.session.config.shape import Config
from everturn.session.estimated_costs import EstimatedCosts
from everturn.session.files import Roots, resolve_roots
from everturn.session.opening import DEFAULT_STRATEGIES, PASSTHROUGH_POLICY, resolve_config, resolve_model

# Conversations held in memory at once; the one unused for longest gives way, its file brings it back.
MAX_CONVERSATIONS: Final = 256
# A caller's request asks for no diagnosis of its cache, so neither does ours.
ADAPTER_CAPABILITIES: Final = msgspec.structs.replace(ANTHROPIC, diagnostics=False)


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    config: Config
    policy: Policy
    # Where transcripts are kept; None keeps everything in memory.
    folder: Path | None
    markers: BreakpointOwner = "ours"
    readable: Roots | None = None
    ways: tuple[Strategy, ...] = DEFAULT_STRATEGIES
    most: int = MAX_CONVERSATIONS
    capabilities: Capabilities = ADAPTER_CAPABILITIES
    costs: Costs | None = None
    listen: Callable[[Event], None] = lambda _: None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())

    def setting_for(self, request: CallerRequest) -> ConversationSettings:
        """What this request is to be held with."""
        model = resolve_model(request.model, self.config)
        style = CompactionOptions(ways=self.ways, settings=self.config.compact)
        compacts = self.config.compacts and self.policy.name != PASSTHROUGH_POLICY
        able = self.capabilities
        if request.markers == "the caller's":
            able = msgspec.structs.replace(able, max_breakpoints=0)
        return ConversationSettings(
            model=model,
            capabilities=able,
            policy=self.policy,
            costs=self.costs or _estimated(model),
            head=request.head,
            parameters=request.parameters,
            fields=request.fields,
            compaction=style if compacts else None,
            decides="caller",
        )


def manner_of(
    policy: str | Policy | Config,
    *,
    folder: str | os.PathLike[str] | None,
    readable: Sequence[str | os.PathLike[str]] = (),
    **more: object,
) -> Manner:
    """`readable` are folders that files may be read from again after a compaction; none by default."""
    config = resolve_config(policy)
    if not isinstance(policy, Config):
        switches = msgspec.structs.replace(config.switches, oversize=False, declarative=False)
        config = msgspec.structs.replace(config, switches=switches)
    elif folder is None:
        config = msgspec.structs.replace(
            config, switches=msgspec.structs.replace(config.switches, oversize=False)
        )
    in_force = _hushed(policy) if isinstance(policy, Policy) else config.in_force()
    made = Manner(config=config, policy=in_force, folder=Path(folder).absolute() if folder else None)
    allowed = resolve_roots([os.fspath(each) for each in readable]) if readable else None
    try:
        return msgspec.structs.replace(made, readable=allowed, **more)
    except TypeError:
        known = ", ".join(sorted(set(Manner.__struct_fields__) - {"config", "policy", "folder"}))
        raise UsageError(f"Of {', '.join(more)} something is no option. Those are: {known}.") from None


def default_folder() -> Path:
    """Where data of programs belongs (XDG)."""
    data = os.environ.get("XDG_DATA_HOME") or ""
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "everturn" / "sessions"


@lru_cache(maxsize=64)
def _estimated(model: Model) -> EstimatedCosts:
    """One for each model: another one would have every message measured again."""
    return EstimatedCosts(model)


def _hushed(policy: Policy) -> Policy:
    steps = tuple(step for step in policy.steps if step != "oversize")
    return msgspec.structs.replace(policy, steps=steps, declares=False)
