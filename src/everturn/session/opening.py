"""Build a conversation's settings from options: the model's row, the preamble and the parameters.

All surfaces use these functions, so an option means the same everywhere.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from everturn.decide.options import DEFAULT_MODEL, Options, ProviderSettings
from everturn.engine import ConversationSettings
from everturn.engine.capture import asks_for_all_thinking
from everturn.errors import UsageError
from everturn.history.blocks import Block
from everturn.measure.capabilities import PROVIDERS, Capabilities
from everturn.measure.model import Model
from everturn.measure.model_table import find_model, model_or_default
from everturn.measure.outline import Preamble, TokenCosts
from everturn.measure.tokens import Estimator
from everturn.session.estimated_costs import EstimatedCosts
from everturn.session.tools import Tool
from everturn.session.upstream import RawResponse, Send, Stream, make_sdk_send, make_sdk_stream
from everturn.session.valid_text import make_encodable, replace_lone_surrogates
from everturn.view.key_parameters import KeyParameters, choose_ttl
from everturn.view.system_prompt import (
    SectionKind,
    SystemPromptSections,
    make_preamble,
    own_system_prompt,
    system_blocks,
)
from everturn.wire.anthropic import tool_block

if TYPE_CHECKING:
    import anthropic


class ProviderClient(NamedTuple):
    """How requests reach the model. `close` ends connections that were opened for this session only.
    `send_once` does not try again: a hold that got no answer may have been paid."""

    send: Send
    send_once: Send
    stream: Stream | None = None
    close: Callable[[], None] = lambda: None


def make_client(provider: ProviderSettings) -> "anthropic.Anthropic":
    """A client of our own. The SDK reads from the environment what is not configured here.

    It follows no redirect: the API has none, and the key and the conversation would go wherever one leads.
    """
    import anthropic

    return anthropic.Anthropic(
        api_key=provider.api_key.reveal() or None,
        auth_token=provider.auth_token.reveal() or None,
        base_url=provider.base_url or None,
        http_client=anthropic.DefaultHttpxClient(follow_redirects=False),
    )


def connect(
    client: "anthropic.Anthropic | None", send: Send | None, provider: ProviderSettings
) -> ProviderClient:
    if send is not None:
        if client is not None:
            raise UsageError("Give a session either `client` or `send`, not both.")
        return ProviderClient(send, send)
    if client is not None:
        return _connect(client)
    own = make_client(provider)
    return _connect(own)._replace(close=own.close)


def _connect(client: "anthropic.Anthropic") -> ProviderClient:
    def send_once(body: bytes, betas: Sequence[str]) -> RawResponse:
        return make_sdk_send(client.with_options(max_retries=0))(body, betas)

    return ProviderClient(make_sdk_send(client), send_once, make_sdk_stream(client))


def capabilities_of(options: Options) -> Capabilities:
    return PROVIDERS[options.provider.name]


def resolve_model(name: str, options: Options) -> Model:
    """The model's row in the table. An unknown model gets the row of the nearest one, under its own id."""
    found = find_model(name)
    model = found or dataclasses.replace(model_or_default(name).model, id=name)
    return dataclasses.replace(model, window=options.window) if options.window else model


def build_preamble(
    system: str | SystemPromptSections, tools: Sequence[Tool], capabilities: Capabilities
) -> Preamble:
    blocks = tuple(_tool_block(_without_breakpoint(tool.definition)) for tool in tools)
    if isinstance(system, SystemPromptSections):
        names = (block.tool for block in blocks)
        sections = _EncodableSections(system)
        return make_preamble(blocks, system_blocks(sections, capabilities=capabilities, tools=names))
    return make_preamble(blocks, own_system_prompt(replace_lone_surrogates(system)))


class _EncodableSections(SystemPromptSections):
    """The sections of a caller, without lone surrogates."""

    def __init__(self, sections: SystemPromptSections) -> None:
        super().__init__(
            attribution=lambda: replace_lone_surrogates(sections.attribution),
            identity=replace_lone_surrogates(sections.identity),
        )
        self._given = sections

    def texts(self, part: SectionKind) -> list[str]:
        return [replace_lone_surrogates(text) for text in self._given.texts(part)]


def _tool_block(definition: Mapping[str, Any]) -> Block:
    try:
        return tool_block(definition)
    except UnicodeEncodeError:
        # Only now: definitions are encoded for every turn.
        return tool_block(make_encodable(definition))


def _without_breakpoint(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Breakpoints are placed for every request, and the API allows four."""
    return {name: value for name, value in definition.items() if name != "cache_control"}


def build_settings(
    options: Options,
    *,
    capabilities: Capabilities,
    costs: TokenCosts | None = None,
    transcript: str = "",
    model: str = "",
    preamble: Preamble | None = None,
    parameters: KeyParameters | None = None,
    fields: Mapping[str, Any] | None = None,
    decides: Literal["engine", "caller"] = "engine",
    estimator: Estimator | None = None,
) -> ConversationSettings:
    """Pass `model`, `parameters` and `fields` if the caller builds the requests itself; otherwise they are
    derived from the options."""
    row = resolve_model(model or options.model or DEFAULT_MODEL, options)
    made = ConversationSettings(
        model=row,
        capabilities=capabilities,
        options=options,
        costs=costs or _estimated_costs(row),
        preamble=preamble or Preamble(),
        parameters=parameters or _parameters(options, capabilities),
        source=options.source,
        fields={"max_tokens": min(options.max_tokens, row.max_output)} if fields is None else fields,
        transcript=transcript,
        decides=decides,
        estimator=estimator,
    )
    if row.keeps_thinking or not asks_for_all_thinking(made):
        return made
    row = dataclasses.replace(row, keeps_thinking=True)
    return msgspec.structs.replace(made, model=row, costs=costs or _estimated_costs(row))


@lru_cache(maxsize=64)
def _estimated_costs(model: Model) -> EstimatedCosts:
    """One object per model: where another one counts, an outline measures every message again."""
    return EstimatedCosts(model)


def _parameters(options: Options, capabilities: Capabilities) -> KeyParameters:
    lifetime = choose_ttl(options.source, "conversation", options.cache.ttl, capabilities)
    return KeyParameters(lifetime, thinking=options.thinking.to_field(), effort=options.effort)
