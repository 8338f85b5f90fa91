"""What the API refuses by public reports: the wording, and the option that turns it off."""

import json
import re

import pytest
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from twin.asking import Desk, user

from everturn.twin.options import TwinOptions
from everturn.twin.validate.known_betas import KNOWN_BETAS, SDK_BETAS

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OPEN = {"type": "object", "properties": {"n": {"type": "integer"}}}
CLOSED = OPEN | {"additionalProperties": False}
MUST_BE_CLOSED = "For 'object' type, 'additionalProperties' must be explicitly set to false"


def image(data, media_type="image/png"):
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def output(schema):
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


REFUSED = [
    (
        "unknown_betas",
        {"betas": "made-up-2026-01-01,context-management-2025-06-27"},
        "Unexpected value(s) `made-up-2026-01-01` for the `anthropic-beta` header. Please consult our "
        "documentation at docs.anthropic.com or try again without the header.",
    ),
    ("open_schemas", output(OPEN), f"output_config.format.schema: {MUST_BE_CLOSED}"),
    (
        "open_schemas",
        output(
            CLOSED
            | {"properties": {"inner": {"type": "array", "items": {"anyOf": [OPEN, {"type": "null"}]}}}}
        ),
        f"output_config.format.schema: {MUST_BE_CLOSED}",
    ),
    (
        "open_schemas",
        {"tools": [{"name": "t", "strict": True, "input_schema": OPEN}]},
        f"tools.0.custom: {MUST_BE_CLOSED}",
    ),
    (
        "mislabeled_images",
        {"messages": [user("look", image(PNG, "image/jpeg"))]},
        "messages.0.content.1.image.source.base64: The image was specified using the image/jpeg media type, "
        "but the image appears to be a image/png image",
    ),
    (
        "broken_base64",
        {"messages": [user("look", image("data:image/png;base64," + PNG))]},
        "messages.0.content.1.image.source.base64: invalid base64 data",
    ),
]


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("option", "fields", "message"), REFUSED)
def test_a_request_is_refused_with_the_apis_words_unless_the_option_accepts_it(option, fields, message):
    sent = {"messages": [user("hi")]} | fields
    assert Desk().refused(**sent) == message
    assert Desk(TwinOptions(**{option: "accept"})).ask(**sent)["type"] == "message"


@pytest.mark.parametrize(
    ("model", "is_refused"),
    [
        ("claude-sonnet-4-5", True),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-1", True),
        ("claude-opus-4-0", False),
    ],
)
def test_temperature_and_top_p_together_are_refused_since_opus_4_1(model, is_refused):
    desk = Desk(model=model)
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    body = {"model": model, "max_tokens": 100, "messages": [user("hi")], "temperature": 0.5, "top_p": 0.9}
    response = desk.twin.messages(headers, json.dumps(body).encode())
    message = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    told = json.loads(response.body)
    assert told.get("error", {}).get("message") == (message if is_refused else None)
    one = desk.twin.messages(headers, json.dumps(body | {"top_p": None}).encode())
    assert one.status == 200


@pytest.mark.parametrize(
    "fields",
    [
        output(CLOSED),
        {"tools": [{"name": "t", "input_schema": OPEN}]},
        {"messages": [user("look", image(PNG))]},
        {"messages": [user("look", image("aGVsbG8="))]},
        {"betas": "claude-code-20250219,prompt-caching-scope-2026-01-05"},
    ],
)
def test_what_the_api_accepts_is_accepted(fields):
    assert Desk().ask(**({"messages": [user("hi")]} | fields))["type"] == "message"


def test_an_image_in_a_tool_result_is_named_by_its_path():
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [image("!")]}
    messages = [user("hi"), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    assert Desk().refused(messages=messages) == (
        "messages.2.content.0.tool_result.content.0.image.source.base64: invalid base64 data"
    )


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"a": "\\ud83d"}', "line 1 column 8 (char 7)"),
        (b'{"a":\n "\\\\\\ud83d x"}', "line 2 column 5 (char 10)"),
        ('{"ä": "\\ud83d\\ud83d\\ude00"}'.encode(), "line 1 column 8 (char 7)"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_with_its_place(body, place):
    response = Desk().twin.messages({"x-api-key": "k"}, body)
    message = json.loads(response.body)["error"]["message"]
    assert message == f"The request body is not valid JSON: no low surrogate in string: {place}"


def test_every_beta_of_the_sdk_is_known():
    sdk = set(re.findall(r"'([a-z0-9-]+-\d{4}-\d\d-\d\d)'", str(AnthropicBetaParam)))
    assert set(SDK_BETAS.split()) == sdk
    assert sdk < KNOWN_BETAS
