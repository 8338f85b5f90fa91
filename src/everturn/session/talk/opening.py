"""What a session is held with, from what a person gives: names and numbers become one `Setting`.

Nothing is opened here but the SDK's client where none was given; files are the session's (`session.py`).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from everturn.decide.compact.ground import CompactionStyle
from everturn.decide.compact.values import Way
from everturn.decide.policy import Policy
from everturn.engine import Setting
from everturn.errors import UsageError
from everturn.measure.capabilities import Capabilities
from everturn.measure.model import Model
from everturn.measure.models import find, model_or_default
from everturn.measure.outline import Costs, Head
from everturn.session.config.shape import Config, of_policy
from everturn.session.talk.costs import EstimatedCosts
from everturn.session.talk.tools import Tool
from everturn.session.upstream import Send, Stream, stream_through_sdk, through_sdk
from everturn.view.lifetime import KeyParameters, lifetime
from everturn.view.sections import Sections, head_of, own_system_prompt, system_blocks
from everturn.wire.anthropic import tool_block

if TYPE_CHECKING:
    import anthropic

# The policy under which nothing is ever changed, compactions included.
HANDS_OFF: Final = "none"
DEFAULT_WAYS: Final[tuple[Way, ...]] = ("notes", "fork", "direct", "extract")


class Provider(NamedTuple):
    """The way to the model. `close` ends connections that were opened for this session alone."""

    send: Send
    stream: Stream | None = None
    close: Callable[[], None] = lambda: None


class Wanted(NamedTuple):
    """What a session was opened with, as far as it shapes the requests."""

    model: str
    policy: str | Policy | Config
    source: str
    max_tokens: int
    thinking: Mapping[str, Any] | None
    effort: str
    ways: Sequence[Way]
    capabilities: Capabilities
    costs: Costs | None


def provider_of(client: "anthropic.Anthropic | None", send: Send | None) -> Provider:
    if send is not None:
        if client is not None:
            raise UsageError("Give a session either a client or a way to send, not both.")
        return Provider(send)
    if client is not None:
        return Provider(through_sdk(client), stream_through_sdk(client))
    import anthropic

    own = anthropic.Anthropic()
    return Provider(through_sdk(own), stream_through_sdk(own), own.close)


def config_of(wanted: str | Policy | Config) -> Config:
    """One configuration, whichever of its forms was given. A policy of one's own keeps its own steps."""
    if isinstance(wanted, Config):
        return wanted
    if isinstance(wanted, str):
        return of_policy(wanted)
    return Config(micro=wanted.micro, thresholds=wanted.thresholds, ttl=wanted.ttl, tools=wanted.tools)


def model_of(name: str, config: Config) -> Model:
    """Its row in the table. One that is not there is taken for the nearest, under its own name."""
    found = find(name)
    model = found or dataclasses.replace(model_or_default(name).model, id=name)
    return dataclasses.replace(model, window=config.window) if config.window else model


def head_for(system: str | Sections, tools: Sequence[Tool], capabilities: Capabilities) -> Head:
    blocks = tuple(tool_block(tool.definition) for tool in tools)
    if isinstance(system, Sections):
        return head_of(blocks, system_blocks(system, capabilities=capabilities))
    return head_of(blocks, own_system_prompt(system))


def setting_for(wanted: Wanted, config: Config, *, transcript: str) -> Setting:
    model = model_of(config.model or wanted.model, config)
    in_force = wanted.policy if isinstance(wanted.policy, Policy) else config.in_force()
    compacts = config.compacts and in_force.name != HANDS_OFF
    style = CompactionStyle(ways=tuple(wanted.ways), settings=config.compact, transcript=transcript)
    able = wanted.capabilities
    return Setting(
        model=model,
        capabilities=able,
        policy=in_force,
        costs=wanted.costs or EstimatedCosts(model),
        parameters=KeyParameters(
            lifetime(wanted.source, "conversation", in_force.ttl, able),
            thinking=wanted.thinking,
            effort=wanted.effort,
        ),
        source=wanted.source,
        fields={"max_tokens": min(wanted.max_tokens, model.max_output)},
        compaction=style if compacts else None,
    )
