"""Estimate the tokens of one block: deterministic, by model, replaceable (TW-11).

There is no tokenizer: the estimate is the bytes of the text divided by the model's characters per token, plus
a few tokens of overhead per block. A client's own estimate therefore differs from the twin's counts as it
does from the API's, by model and by kind of content. `request_layout.py` adds the hidden tokens of the
prompt.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from everturn.measure.images import image_tokens, tier_of
from everturn.measure.model_table import Model
from everturn.twin.memo import Memo
from everturn.twin.options import TwinOptions
from everturn.twin.signature_format import decode_signature
from everturn.twin.values import ParsedBlock
from everturn.wire.json_values import as_objects, is_list, is_object

BlockCounter = Callable[[ParsedBlock], int]

# Built-in tools are short in the request and long in the prompt (api-facts 4): prefix of the type, tokens.
_BUILT_IN: Final = (("text_editor_", 700), ("computer_", 4520), ("browser_", 6610))
_BASH: Final = {True: 325, False: 244}

# Overhead per block for ids, names and delimiters. Not published; kept small, so that content dominates.
_OVERHEAD: Final = {
    "tool": 8,
    "tool_use": 12,
    "tool_result": 10,
    "document": 12,
    "search_result": 10,
    "compaction": 6,
}
# A guess: the pages of a PDF are billed as text and image, but the twin only knows its size in bytes.
_PDF_BYTES_PER_TOKEN: Final = 30
_BASE64: Final = 3 / 4

_memo: Memo[tuple[bytes, int, str, float], int] = Memo(100_000)
_encode = msgspec.json.Encoder().encode


def make_block_counter(model: Model, options: TwinOptions) -> BlockCounter:
    """A function that counts the tokens of a block for this model."""
    if options.counter is not None:
        replaced = options.counter
        return lambda block: replaced(block, model)
    ratio = options.chars_per_token.get(model.id, model.chars_per_token)

    def count(block: ParsedBlock) -> int:
        # Thinking blocks with equal signatures may be sent with or without their text.
        shown = len(_thinking_text(block.body)) if block.kind == "thinking" else 0
        key = (block.digest, shown, model.id, ratio)
        return _memo.get(key, lambda: _block(block.kind, block.body, model, ratio))

    return count


def count_text_tokens(text: str, ratio: float) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / ratio)


def _block(kind: str, body: dict[str, Any], model: Model, ratio: float) -> int:
    overhead = _OVERHEAD.get(kind, 0)
    match kind:
        case "text":
            return _text(body.get("text"), ratio)
        case "tool":
            return _tool(body, model, ratio)
        case "tool_use":
            return overhead + _text(body.get("name"), ratio) + _json(body.get("input"), ratio)
        case "thinking":
            return _thinking(body, ratio)
        case "redacted_thinking":
            return _text(body.get("data"), ratio / _BASE64)
        case "image":
            return image_tokens(_encode(body), tier_of(model))
        case "document":
            return overhead + _document(body, model, ratio)
        case "tool_result" | "search_result" | "compaction":
            return overhead + _text(body.get("title"), ratio) + _content(body.get("content"), model, ratio)
        case _:
            return _json({name: value for name, value in body.items() if name != "cache_control"}, ratio)


def _text(value: Any, ratio: float) -> int:
    return count_text_tokens(value, ratio) if isinstance(value, str) else 0


def _json(value: Any, ratio: float) -> int:
    return math.ceil(len(_encode(value)) / ratio)


def _tool(body: dict[str, Any], model: Model, ratio: float) -> int:
    kind = body.get("type")
    if isinstance(kind, str):
        if kind.startswith("bash_"):
            return _BASH[model.sharp_images]
        for start, tokens in _BUILT_IN:
            if kind.startswith(start):
                return tokens
    rest = {name: value for name, value in body.items() if name != "cache_control"}
    return _OVERHEAD["tool"] + _json(rest, ratio)


def _thinking(body: dict[str, Any], ratio: float) -> int:
    # Omitted thinking is encrypted in its signature, and billed.
    return _text(_thinking_text(body), ratio) or _text(body.get("signature"), ratio / _BASE64)


def _thinking_text(body: dict[str, Any]) -> str:
    """The text of a thinking block. Text that a client adds to an omitted one is ignored (api-facts 7)."""
    record = decode_signature(body.get("signature") or "")
    return "" if record is not None and record.kind == "omitted" else body.get("thinking") or ""


def _document(body: dict[str, Any], model: Model, ratio: float) -> int:
    source = body.get("source")
    titles = _text(body.get("title"), ratio) + _text(body.get("context"), ratio)
    if not is_object(source):
        return titles
    if source.get("type") == "content":
        return titles + _content(source.get("content"), model, ratio)
    per_token = ratio if source.get("type") == "text" else _PDF_BYTES_PER_TOKEN / _BASE64
    return titles + _text(source.get("data"), per_token)


def _content(content: Any, model: Model, ratio: float) -> int:
    if is_list(content):
        return sum(_block(str(part.get("type")), part, model, ratio) for part in as_objects(content))
    return _text(content, ratio)
