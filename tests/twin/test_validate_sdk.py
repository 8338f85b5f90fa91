"""The tables of fields match the types of the official SDK."""

import typing
from typing import Any

import pytest
import typing_extensions
from anthropic.types import (
    ContentBlockParam,
    ToolUnionParam,
    message_count_tokens_params,
    message_create_params,
)
from anthropic.types.beta import BetaContentBlockParam, BetaToolUnionParam
from anthropic.types.beta import message_count_tokens_params as beta_count_tokens_params
from anthropic.types.beta import message_create_params as beta_create_params

from everturn.twin.validate.blocks import BLOCKS
from everturn.twin.validate.message_facts import grammar
from everturn.twin.validate.params import COUNT_TOKENS, MESSAGES
from everturn.twin.validate.tools import TOOLS
from everturn.twin.values import ApiError

# How many members of each union are tried; no union of the SDK has more relevant ones.
ALTERNATIVES = range(5)


def typed_members(union: Any) -> list[Any]:
    return [hint for hint in typing.get_args(union) if typing_extensions.is_typeddict(hint)]


def tags(hint: Any) -> tuple[str, ...]:
    """The possible values of `type`; a custom tool may omit it."""
    kind = typing_extensions.get_type_hints(hint)["type"]
    optional = type(None) in typing.get_args(kind)
    return typing.get_args(typing.get_args(kind)[0] if optional else kind)


def fields_by_tag(*unions: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for hint in (hint for union in unions for hint in typed_members(union)):
        for tag in tags(hint):
            found.setdefault(tag, set()).update(set(typing_extensions.get_type_hints(hint)) - {"type"})
    return found


def fields_of(spelled: str) -> set[str]:
    return {part.split(" ")[0].rstrip("!") for part in spelled.split(", ")}


def test_the_blocks_and_their_fields_are_those_of_the_sdk():
    sdk = fields_by_tag(ContentBlockParam, BetaContentBlockParam)
    assert {tag: fields_of(spelled) for tag, spelled in BLOCKS.items()} == sdk


def test_the_tools_and_their_fields_are_those_of_the_sdk():
    sdk = fields_by_tag(ToolUnionParam, BetaToolUnionParam)
    assert {tag: fields_of(spelled) for tag, spelled in TOOLS.items()} == sdk


@pytest.mark.parametrize(
    ("spelled", "hints", "older"),
    [
        (
            MESSAGES,
            (
                message_create_params.MessageCreateParamsStreaming,
                beta_create_params.MessageCreateParamsStreaming,
            ),
            # Fields of the first version and of a finished beta, which the SDK no longer has.
            {"temperature", "top_p", "top_k", "output_format"},
        ),
        (
            COUNT_TOKENS,
            (
                message_count_tokens_params.MessageCountTokensParams,
                beta_count_tokens_params.MessageCountTokensParams,
            ),
            {"output_format"},
        ),
    ],
    ids=["messages", "count_tokens"],
)
def test_the_parameters_are_those_of_the_sdk(spelled, hints, older):
    sdk = set().union(*(typing_extensions.get_type_hints(hint) for hint in hints))
    parsed_apart = {"messages", "system", "tools"}
    assert fields_of(spelled) - older == sdk - parsed_apart - {"betas"}


def example(hint: Any, *, alternative: int) -> Any:
    """A value of an SDK type with every field set; of each union the member with this number."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if typing_extensions.is_typeddict(hint):
        hints = typing_extensions.get_type_hints(hint)
        return {
            name: FORMS[name] if name in FORMS else example(kind, alternative=alternative)
            for name, kind in hints.items()
        }
    if origin in (typing.Literal, typing_extensions.Literal):
        return inner[alternative % len(inner)]
    if hint is object or origin is dict:
        return {}
    if origin is typing.Union:
        return example(inner[alternative % len(inner)], alternative=alternative)
    if origin is not None and inner:
        return [example(inner[0], alternative=alternative)]
    return {str: "words", int: 60_000, bool: False, float: 0.5, type(None): None}[hint]


# Values with a format that the types do not describe.
FORMS = {
    "id": "srvtoolu_1",
    "tool_use_id": "srvtoolu_1",
    "data": "AAAA",
    "input_schema": {"type": "object"},
    "tool": {"type": "tool_reference", "name": "look"},
}


def refused(check, value):
    """The error of a rule for a value; empty if it is accepted."""
    try:
        check(value, "it")
    except ApiError as refusal:
        return refusal.message
    return ""


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("tag", sorted(BLOCKS))
def test_every_block_the_sdk_can_send_has_a_valid_shape(tag, alternative):
    hint = next(hint for hint in typed_members(BetaContentBlockParam) if tag in tags(hint))
    assert refused(grammar["block"], example(hint, alternative=alternative)) == ""


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("tag", sorted(TOOLS))
def test_every_tool_the_sdk_can_send_has_a_valid_shape(tag, alternative):
    hint = next(hint for hint in typed_members(BetaToolUnionParam) if tag in tags(hint))
    assert refused(grammar["tool"], example(hint, alternative=alternative) | {"type": tag}) == ""


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_every_parameter_the_sdk_can_send_has_a_valid_shape(alternative):
    hints = typing_extensions.get_type_hints(beta_create_params.MessageCreateParamsStreaming)
    check = grammar.shape(MESSAGES)
    for name in fields_of(MESSAGES) & set(hints):
        sent = {"model": "m", "max_tokens": 1, name: example(hints[name], alternative=alternative)}
        check(sent, "")
