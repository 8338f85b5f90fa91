"""Parse the body of a request into a `ParsedRequest`, or raise the API's error.

Only what the other modules rely on is checked here: the body is an object, the model is known, messages
consist of blocks. `validate` checks the content. `ParsedRequest.body` holds the top-level fields other than
`messages`, `tools` and `system`. Parsed messages are shared between requests: treat their bodies as
read-only.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, get_args

import msgspec

from everturn.measure.model_table import Model, find_model
from everturn.measure.prefix_cache import Ttl
from everturn.twin.json_errors import describe_lone_surrogate
from everturn.twin.memo import LatestMemo, Memo
from everturn.twin.values import (
    ApiError,
    Endpoint,
    ParsedBlock,
    ParsedMessage,
    ParsedRequest,
    RequestRole,
    invalid_request,
)
from everturn.wire.json_values import is_list, is_object

# In bytes of JSON. The parsed values take about three times as much.
_messages: Memo[bytes, ParsedMessage] = Memo(48 * 1024 * 1024)
_sections: Memo[bytes, tuple[ParsedBlock, ...]] = Memo(8 * 1024 * 1024)

_top_level = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

_TOO_DEEP = "The request body is nested too deeply."
# Clients move breakpoints and references as a conversation grows; the prompt does not change.
_CACHE_FIELDS = frozenset(("cache_control", "cache_reference"))
_SEPARATE = frozenset(("messages", "tools", "system"))


class _ShapeError(Exception):
    """An error in the request, with its path relative to the value being parsed."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def lower_header_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with lower-case names; the values of a repeated header are joined with commas."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        plain[key] = f"{plain[key]},{value}" if key in plain else value
    return plain


def parse_request(
    endpoint: Endpoint,
    headers: Mapping[str, str],
    body: bytes,
    *,
    workspace: str,
) -> ParsedRequest:
    """The request in a body; raises ApiError if it cannot be parsed."""
    fields = _decode(_top_level, body)
    plain = lower_header_names(headers)
    try:
        messages = _parse_messages(fields)
        tools = _parse_tools(fields)
        system = _parse_system(fields)
        rest = {name: _decode(_anything, raw) for name, raw in fields.items() if name not in _SEPARATE}
    except _ShapeError as error:
        raise invalid_request(str(error)) from None
    except RecursionError:
        raise invalid_request(_TOO_DEEP) from None
    return ParsedRequest(
        endpoint=endpoint,
        workspace=workspace,
        version=plain.get("anthropic-version", ""),
        betas=_betas(plain.get("anthropic-beta", "")),
        model=_model(rest),
        body=rest,
        tools=tools,
        system=system,
        messages=messages,
    )


def _decode(decoder: msgspec.json.Decoder[Any], data: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise invalid_request("The request body must be a JSON object.") from None
    except RecursionError:
        raise invalid_request(_TOO_DEEP) from None
    except (msgspec.DecodeError, ValueError) as error:
        reason = describe_lone_surrogate(bytes(data)) or str(error)
        raise invalid_request(f"The request body is not valid JSON: {reason}") from None


def _betas(header: str) -> frozenset[str]:
    return frozenset(name.strip() for name in header.split(",") if name.strip())


def _model(fields: Mapping[str, Any]) -> Model:
    if "model" not in fields:
        raise invalid_request("model: Field required")
    name = fields["model"]
    if not isinstance(name, str):
        raise invalid_request("model: Input should be a valid string")
    if (model := find_model(name)) is None:
        raise ApiError(404, "not_found_error", f"model: {name}")
    return model


def _parse_messages(fields: Mapping[str, msgspec.Raw]) -> tuple[ParsedMessage, ...]:
    if "messages" not in fields:
        raise _ShapeError("messages", "Field required")
    data = bytes(fields["messages"])
    known = _lists.get(data[:_LIST_START]) or _NO_LIST
    count, rest = _split_known(known, data)
    parsed = known.messages[:count]
    sizes: list[int] = []
    for index, raw in enumerate(_raw_items("messages", rest), count):
        item = bytes(raw)
        try:
            parsed.append(_messages.get(item, lambda item=item: parse_message(item), weight=len(item)))
        except _ShapeError as error:
            raise _ShapeError(_join(f"messages.{index}", error.path), error.problem) from None
        sizes.append(len(item))
    if sizes:
        ends = [*known.ends[:count], *_find_ends(data, known.ends[count - 1] if count else 1, sizes)]
        _lists.put(data[:_LIST_START], _ParsedList(data, ends, parsed), weight=len(data))
    return tuple(parsed)


class _ParsedList(NamedTuple):
    """The text of a list of messages, where each of its items ends, and the messages."""

    data: bytes
    ends: list[int]
    messages: list[ParsedMessage]


_NO_LIST = _ParsedList(b"", [], [])
# The latest list for each beginning, in bytes of JSON.
_lists: LatestMemo[bytes, _ParsedList] = LatestMemo(16 * 1024 * 1024)
# How much of the text tells conversations apart. Shorter lists are parsed as they come.
_LIST_START = 8 * 1024


def _split_known(known: _ParsedList, data: bytes) -> tuple[int, bytes]:
    """How many first items a list has in common with a known one, and the rest of it, as a list.

    A conversation grows at its end, so the last items are tried first, in growing steps.
    """
    count, step = bisect_right(known.ends, len(data)), 1
    while count > 0:
        end = known.ends[count - 1]
        if data.startswith(known.data[:end]):
            rest = data[end:].lstrip(_SPACE)
            return count, b"[" + (rest[1:] if rest.startswith(b",") else rest)
        count, step = count - step, step * 2
    return 0, data


def _find_ends(data: bytes, start: int, sizes: Iterable[int]) -> Iterator[int]:
    """Where the items of a list end, by their sizes: between them are only commas and spaces."""
    for size in sizes:
        while data[start] in _BETWEEN:
            start += 1
        start += size
        yield start


_SPACE = b" \t\r\n"
_BETWEEN = b"[," + _SPACE


def parse_message(data: bytes) -> ParsedMessage:
    """One message from its JSON."""
    value = _decode(_anything, data)
    if not is_object(value):
        raise _ShapeError("", "Input should be a valid dictionary or object to extract fields from")
    extra: dict[str, Any] = dict(value)
    role = _role(extra)
    if "content" not in extra and role != "system":
        raise _ShapeError("content", "Field required")
    return ParsedMessage(role, parse_content(extra.pop("content", ""), "content"), extra)


def _role(fields: dict[str, Any]) -> RequestRole:
    if "role" not in fields:
        raise _ShapeError("role", "Field required")
    role = fields.pop("role")
    if role not in get_args(RequestRole):
        raise _ShapeError("role", "Input should be 'user', 'assistant' or 'system'")
    return role


def parse_content(content: Any, path: str) -> tuple[ParsedBlock, ...]:
    """The blocks of a `content` or `system` value. A string becomes one text block."""
    if isinstance(content, str):
        return (make_block({"type": "text", "text": content}),) if content else ()
    if not is_list(content):
        raise _ShapeError(path, "Input should be a valid list")
    blocks: list[ParsedBlock] = []
    for index, item in enumerate(content):
        if not is_object(item):
            problem = "Input should be a valid dictionary or object to extract fields from"
            raise _ShapeError(f"{path}.{index}", problem)
        if not isinstance(item.get("type"), str):
            raise _ShapeError(f"{path}.{index}.type", "Field required")
        blocks.append(make_block(item))
    return tuple(blocks)


def _parse_tools(fields: Mapping[str, msgspec.Raw]) -> tuple[ParsedBlock, ...]:
    if "tools" not in fields or bytes(fields["tools"]) == b"null":
        return ()
    data = bytes(fields["tools"])
    return _sections.get(data, lambda: _tool_blocks(data), weight=len(data))


def _tool_blocks(data: bytes) -> tuple[ParsedBlock, ...]:
    tools: list[ParsedBlock] = []
    for index, raw in enumerate(_raw_items("tools", data)):
        value = _decode(_anything, raw)
        if not is_object(value):
            raise _ShapeError(
                f"tools.{index}", "Input should be a valid dictionary or object to extract fields from"
            )
        tools.append(make_block(value, kind="tool"))
    return tuple(tools)


def _parse_system(fields: Mapping[str, msgspec.Raw]) -> tuple[ParsedBlock, ...]:
    if "system" not in fields:
        return ()
    data = bytes(fields["system"])
    return _sections.get(b"system " + data, lambda: _system_blocks(data), weight=len(data))


def _system_blocks(data: bytes) -> tuple[ParsedBlock, ...]:
    return parse_content(_decode(_anything, data), "system")


def _raw_items(path: str, data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return _raw_list.decode(data)
    except msgspec.ValidationError:
        raise _ShapeError(path, "Input should be a valid list") from None


def _join(head: str, tail: str) -> str:
    return f"{head}.{tail}" if tail else head


def make_block(body: dict[str, Any], *, kind: str | None = None) -> ParsedBlock:
    """A block with its digest; `kind` defaults to the `type` of the body."""
    return ParsedBlock(kind or body["type"], body, compute_digest(body), read_ttl(body.get("cache_control")))


def read_ttl(control: Any) -> Ttl | None:
    """The TTL of a `cache_control` value; None if there is none."""
    if not is_object(control):
        return None
    return "1h" if control.get("ttl") == "1h" else "5m"


def compute_digest(body: dict[str, Any]) -> bytes:
    """The cache identity of a block. `cache_control` does not count (api-facts 1.3), nor does how a client
    spells the block itself: the order of its own fields, and fields that are null. SDKs spell replies anew
    when they send them back. Inside a field the order of keys counts: it is in the prompt.

    A signed thinking block is identified by its signature alone.
    """
    if body.get("type") == "thinking" and body.get("signature"):
        body = {"type": "thinking", "signature": body["signature"]}
    return blake2b(_encode(_without_cache_fields(body)), digest_size=16).digest()


def _without_cache_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Without `cache_control` and references, also in nested blocks; string results become a block."""
    plain = {
        name: value for name, value in sorted(body.items()) if name not in _CACHE_FIELDS and value is not None
    }
    content = plain.get("content")
    if isinstance(content, str) and plain.get("type") == "tool_result":
        plain["content"] = [{"type": "text", "text": content}]
    elif is_list(content):
        plain["content"] = [_without_cache_fields(item) if is_object(item) else item for item in content]
    return plain
