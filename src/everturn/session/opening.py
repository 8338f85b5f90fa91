"""What a session is held with, from what a person gives: names and numbers become one `Setting`.

Nothing is opened here but the SDK's client where none was given; files are the session's (`session.py`).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from everturn.decide.compact.context import CompactionOptions
from everturn.decide.compact.values import Strategy
from everturn.decide.policy import Policy
from everturn.engine import ConversationSettings
from everturn.errors import UsageError
from everturn.measure.capabilities import Capabilities
from everturn.measure.model import Model
from everturn.measure.model_table import find_model, model_or_default
from everturn.measure.outline import Costs, Preamble
from everturn.session.config.shape import Config, of_policy
from everturn.session.estimated_costs import EstimatedCosts
from everturn.session.tools import Tool
from everturn.session.upstream import Send, Stream, make_sdk_send, make_sdk_stream
from everturn.view.key_parameters import KeyParameters, choose_ttl
from everturn.view.system_prompt import SystemPromptSections, make_preamble, own_system_prompt, system_blocks
from everturn.wire.anthropic import tool_block

if TYPE_CHECKING:
    import anthropic

# The policy under which nothing is ever changed, compactions included.
PASSTHROUGH_POLICY: Final = "none"
DEFAULT_STRATEGIES: Final[tuple[Strategy, ...]] = ("notes", "fork", "direct", "extract")


class ProviderClient(NamedTuple):
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
    ways: Sequence[Strategy]
    capabilities: Capabilities
    costs: Costs | None


def open_provider(client: "anthropic.Anthropic | None", send: Send | None) -> ProviderClient:
    if send is not None:
        if client is not None:
            raise UsageError("Give a session either a client or a way to send, not both.")
        return ProviderClient(send)
    if client is not None:
        return ProviderClient(make_sdk_send(client), make_sdk_stream(client))
    import anthropic

    own = anthropic.Anthropic()
    return ProviderClient(make_sdk_send(own), make_sdk_stream(own), own.close)


def resolve_config(wanted: str | Policy | Config) -> Config:
    """One configuration, whichever of its forms was given. A policy of one's own keeps its own steps."""
    if isinstance(wanted, Config):
        return wanted
    if isinstance(wanted, str):
        return of_policy(wanted)
    return Config(micro=wanted.micro, thresholds=wanted.thresholds, ttl=wanted.ttl, tools=wanted.tools)


def resolve_model(name: str, config: Config) -> Model:
    """Its row in the table. One that is not there is taken for the nearest, under its own name."""
    found = find_model(name)
    model = found or dataclasses.replace(model_or_default(name).model, id=name)
    return dataclasses.replace(model, window=config.window) if config.window else model


def build_preamble(
    system: str | SystemPromptSections, tools: Sequence[Tool], capabilities: Capabilities
) -> Preamble:
    blocks = tuple(tool_block(tool.definition) for tool in tools)
    if isinstance(system, SystemPromptSections):
        return make_preamble(blocks, system_blocks(system, capabilities=capabilities))
    return make_preamble(blocks, own_system_prompt(system))


def build_settings(wanted: Wanted, config: Config, *, transcript: str) -> ConversationSettings:
    model = resolve_model(config.model or wanted.model, config)
    in_force = wanted.policy if isinstance(wanted.policy, Policy) else config.in_force()
    compacts = config.compacts and in_force.name != PASSTHROUGH_POLICY
    style = CompactionOptions(ways=tuple(wanted.ways), settings=config.compact, transcript=transcript)
    able = wanted.capabilities
    return ConversationSettings(
        model=model,
        capabilities=able,
        policy=in_force,
        costs=wanted.costs or EstimatedCosts(model),
        parameters=KeyParameters(
            choose_ttl(wanted.source, "conversation", in_force.ttl, able),
            thinking=wanted.thinking,
            effort=wanted.effort,
        ),
        source=wanted.source,
        fields={"max_tokens": min(wanted.max_tokens, model.max_output)},
        compaction=style if compacts else None,
    )
