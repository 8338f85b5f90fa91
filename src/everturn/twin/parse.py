"""From the bytes of a body to a `Request`, or to the refusal the API would send.

Only the shape that the rest of the twin stands on is checked here: an object, a known model, messages made of
blocks. Every rule about content is `validate`'s. `Request.body` holds the top-level fields beside `messages`,
`tools` and `system`. Parsed messages are shared between requests: treat their bodies as read-only.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal, get_args

import msgspec

from everturn.measure.model_table import Model, find_model
from everturn.twin.memo import Memo
from everturn.twin.values import (
    ApiError,
    ParsedBlock,
    ParsedMessage,
    ParsedRequest,
    RequestRole,
    Ttl,
    invalid_request,
)

Endpoint = Literal["messages", "count_tokens"]

_MEMO_BYTES = 128 * 1024 * 1024
_messages: Memo[bytes, ParsedMessage] = Memo(_MEMO_BYTES)
_sections: Memo[bytes, tuple[ParsedBlock, ...]] = Memo(_MEMO_BYTES)

_top_level = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

_TOO_DEEP = "The request body is nested too deeply."
# Clients move markers and references along as a conversation grows; the prompt stays what it was.
_NOT_IN_KEYS = frozenset(("cache_control", "cache_reference"))
_SEPARATE = frozenset(("messages", "tools", "system"))


class _Misshapen(Exception):
    """What is wrong, and where, relative to the value being read."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Header names in lower case, values of a repeated header joined as HTTP allows."""
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
    fields = _decode(_top_level, body)
    plain = lowered(headers)
    try:
        messages = _read_messages(fields)
        tools = _read_tools(fields)
        system = _read_system(fields)
        rest = {name: _decode(_anything, raw) for name, raw in fields.items() if name not in _SEPARATE}
    except _Misshapen as wrong:
        raise invalid_request(str(wrong)) from None
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
    except (msgspec.DecodeError, ValueError) as broken:
        raise invalid_request(f"The request body is not valid JSON: {broken}") from None


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


def _read_messages(fields: Mapping[str, msgspec.Raw]) -> tuple[ParsedMessage, ...]:
    if "messages" not in fields:
        raise _Misshapen("messages", "Field required")
    read: list[ParsedMessage] = []
    for index, raw in enumerate(_raw_items("messages", fields["messages"])):
        data = bytes(raw)
        try:
            read.append(_messages.get(data, lambda data=data: parse_message(data), weight=len(data)))
        except _Misshapen as wrong:
            raise _Misshapen(_join(f"messages.{index}", wrong.path), wrong.problem) from None
    return tuple(read)


def parse_message(data: bytes) -> ParsedMessage:
    value = _decode(_anything, data)
    if not isinstance(value, dict):
        raise _Misshapen("", "Input should be a valid dictionary or object to extract fields from")
    extra: dict[str, Any] = dict(value)
    role = _role(extra)
    if "content" not in extra and role != "system":
        raise _Misshapen("content", "Field required")
    return ParsedMessage(role, parse_content(extra.pop("content", ""), "content"), extra)


def _role(fields: dict[str, Any]) -> RequestRole:
    if "role" not in fields:
        raise _Misshapen("role", "Field required")
    role = fields.pop("role")
    if role not in get_args(RequestRole):
        raise _Misshapen("role", "Input should be 'user', 'assistant' or 'system'")
    return role


def parse_content(content: Any, path: str) -> tuple[ParsedBlock, ...]:
    """The blocks of a `content` or `system` value; a string is one text block."""
    if isinstance(content, str):
        return (make_block({"type": "text", "text": content}),) if content else ()
    if not isinstance(content, list):
        raise _Misshapen(path, "Input should be a valid list")
    blocks: list[ParsedBlock] = []
    for index, item in enumerate(content):
        if not isinstance(item, dict):
            problem = "Input should be a valid dictionary or object to extract fields from"
            raise _Misshapen(f"{path}.{index}", problem)
        if not isinstance(item.get("type"), str):
            raise _Misshapen(f"{path}.{index}.type", "Field required")
        blocks.append(make_block(item))
    return tuple(blocks)


def _read_tools(fields: Mapping[str, msgspec.Raw]) -> tuple[ParsedBlock, ...]:
    if "tools" not in fields or bytes(fields["tools"]) == b"null":
        return ()
    data = bytes(fields["tools"])
    return _sections.get(data, lambda: _tool_blocks(data), weight=len(data))


def _tool_blocks(data: bytes) -> tuple[ParsedBlock, ...]:
    tools: list[ParsedBlock] = []
    for index, raw in enumerate(_raw_items("tools", data)):
        value = _decode(_anything, raw)
        if not isinstance(value, dict):
            raise _Misshapen(
                f"tools.{index}", "Input should be a valid dictionary or object to extract fields from"
            )
        tools.append(make_block(value, kind="tool"))
    return tuple(tools)


def _read_system(fields: Mapping[str, msgspec.Raw]) -> tuple[ParsedBlock, ...]:
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
        raise _Misshapen(path, "Input should be a valid list") from None


def _join(head: str, tail: str) -> str:
    return f"{head}.{tail}" if tail else head


def make_block(body: dict[str, Any], *, kind: str | None = None) -> ParsedBlock:
    return ParsedBlock(kind or body["type"], body, compute_digest(body), _marker(body))


def _marker(body: Mapping[str, Any]) -> Ttl | None:
    control = body.get("cache_control")
    if not isinstance(control, dict):
        return None
    return "1h" if control.get("ttl") == "1h" else "5m"


def compute_digest(body: dict[str, Any]) -> bytes:
    """Key order counts, the marker does not (api-facts 1.3). A signed thinking block is its signature."""
    if body.get("type") == "thinking" and body.get("signature"):
        body = {"type": "thinking", "signature": body["signature"]}
    return blake2b(_encode(_unmarked(body)), digest_size=16).digest()


def _unmarked(body: dict[str, Any]) -> dict[str, Any]:
    """Without markers and references, also in nested blocks; a result's string content is one text block."""
    plain = {name: value for name, value in body.items() if name not in _NOT_IN_KEYS}
    content = plain.get("content")
    if isinstance(content, str) and plain.get("type") == "tool_result":
        plain["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        plain["content"] = [_unmarked(item) if isinstance(item, dict) else item for item in content]
    return plain
