"""What the API refuses by public reports rather than by its documentation; each has an option.

The wordings are from reports of users with request ids, 2025 to 2026.
"""

import binascii
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final

from everturn.twin.options import TwinOptions
from everturn.twin.validate.grammar import invalid_field, join_path
from everturn.twin.validate.known_betas import KNOWN_BETAS
from everturn.twin.values import ParsedBlock, ParsedRequest, invalid_request
from everturn.wire.json_values import as_object, as_objects, is_list, is_object

# Opus 4.1 was the first model that takes only one of the two.
_ONE_SAMPLER_SINCE: Final = date(2025, 8, 5)
_OPEN_OBJECT: Final = "For 'object' type, 'additionalProperties' must be explicitly set to false"
_MAX_SCHEMA_DEPTH: Final = 60
# The first bytes of a file, by media type.
_IMAGE_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def check_known_betas(request: ParsedRequest, options: TwinOptions) -> None:
    if options.unknown_betas == "accept":
        return
    unknown = sorted(request.betas - KNOWN_BETAS)
    if unknown:
        named = ", ".join(f"`{name}`" for name in unknown)
        raise invalid_request(
            f"Unexpected value(s) {named} for the `anthropic-beta` header. Please consult our documentation "
            "at docs.anthropic.com or try again without the header."
        )


def check_samplers(request: ParsedRequest, options: TwinOptions) -> None:
    if options.temperature_with_top_p == "accept" or request.model.released < _ONE_SAMPLER_SINCE:
        return
    if request.body.get("temperature") is not None and request.body.get("top_p") is not None:
        raise invalid_request(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )


def check_schemas(request: ParsedRequest, options: TwinOptions) -> None:
    """Schemas that the output must match: the output format, and the inputs of strict tools."""
    if options.open_schemas == "accept":
        return
    for path, schema in _strict_schemas(request):
        if _has_open_object(schema, 0):
            raise invalid_field(path, _OPEN_OBJECT)


def _strict_schemas(request: ParsedRequest) -> Iterator[tuple[str, Any]]:
    chosen = as_object(request.get_object("output_config").get("format"))
    yield "output_config.format.schema", chosen.get("schema")
    yield "output_format.schema", as_object(request.body.get("output_format")).get("schema")
    for index, tool in enumerate(request.tools):
        if tool.body.get("strict") is True:
            yield f"tools.{index}.custom", tool.body.get("input_schema")


def _has_open_object(schema: Any, depth: int) -> bool:
    if is_list(schema):
        return any(_has_open_object(part, depth + 1) for part in schema)
    if not is_object(schema) or depth > _MAX_SCHEMA_DEPTH:
        return False
    kind = schema.get("type")
    is_an_object = kind == "object" or (is_list(kind) and "object" in kind)
    if is_an_object and schema.get("additionalProperties") is not False:
        return True
    named = [as_object(schema.get(name)) for name in ("properties", "$defs", "definitions")]
    parts = [part for members in named for part in members.values()]
    parts += [schema.get(name) for name in ("items", "anyOf", "allOf", "oneOf")]
    return any(_has_open_object(part, depth + 1) for part in parts)


# ── images ───────────────────────────────────────────────────────────────────────────────────────


def find_image_problem(sent: Sequence[ParsedBlock]) -> tuple[str, str, str] | None:
    """The first image that the API cannot read: its option, its path in the message, and the reason."""
    for at, block in enumerate(sent):
        for path, body in _images(block, f"content.{at}"):
            problem = _image_problem(as_object(body.get("source")))
            if problem is not None:
                return problem[0], f"{path}.image.source.base64", problem[1]
    return None


def _images(block: ParsedBlock, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if block.kind == "image":
        yield path, block.body
    elif block.kind == "tool_result":
        for at, part in enumerate(as_objects(block.body.get("content"))):
            if part.get("type") == "image":
                yield join_path(path, f"tool_result.content.{at}"), part


def _image_problem(source: dict[str, Any]) -> tuple[str, str] | None:
    if source.get("type") != "base64":
        return None
    try:
        data = binascii.a2b_base64(str(source.get("data")).encode(), strict_mode=True)
    except (binascii.Error, ValueError):
        return "broken_base64", "invalid base64 data"
    given, found = source.get("media_type"), _media_type(data)
    if found is None or found == given:
        return None
    return "mislabeled_images", (
        f"The image was specified using the {given} media type, but the image appears to be a {found} image"
    )


def _media_type(data: bytes) -> str | None:
    """The media type of an image; None for data that is none of the types that the API takes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGE_STARTS if data.startswith(start)), None)
