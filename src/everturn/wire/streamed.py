"""Assembles a streamed reply into the body that a plain request would have returned (api-facts 6).

Only a complete stream is a reply. A stream with an element that we cannot assemble is reported as unreadable:
half a reply must never be taken for a whole one.
"""

from typing import Any

import msgspec

from everturn.wire.sse import ServerEvent, SseReader

_Fields = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(dict[str, Any]).decode


class StreamedReply:
    """Takes the bytes of a stream. `body` is valid once `is_whole`; `problem` says why it cannot be."""

    def __init__(self) -> None:
        self.is_whole = False
        self.problem = ""
        self._sse = SseReader()
        self._message: _Fields = {}
        self._blocks: dict[int, _Fields] = {}
        self._inputs: dict[int, list[str]] = {}

    def feed(self, piece: bytes) -> None:
        for event in self._sse.feed(piece):
            if not self.problem and not self.is_whole:
                self._take(event)

    @property
    def body(self) -> bytes:
        content = [self._finished(at) for at in sorted(self._blocks)]
        return _encode({**self._message, "content": content})

    @property
    def envelope(self) -> bytes:
        """The reply so far without its content, which may end anywhere; empty before it has begun."""
        return _encode({**self._message, "content": []}) if self._message else b""

    def _take(self, event: ServerEvent) -> None:
        try:
            fields = _read(event.data)
            self._add(str(fields.get("type") or event.name), fields)
        except (msgspec.MsgspecError, LookupError, TypeError, AttributeError, RecursionError) as problem:
            self.problem = f"the event {event.name!r} has an unexpected shape: {problem!r}"

    def _add(self, kind: str, fields: _Fields) -> None:
        match kind:
            case "message_start":
                self._message = dict(fields["message"])
            case "content_block_start":
                self._blocks[int(fields["index"])] = dict(fields["content_block"])
            case "content_block_delta":
                self._fill(int(fields["index"]), fields["delta"])
            case "message_delta":
                self._close(fields)
            case "message_stop":
                # Decode once, so that a truncated tool input is found here and not by the caller.
                _read(self.body)
                self.is_whole = True
            case "error":
                self.problem = f"the stream ended with an error: {fields.get('error')}"
            case _:
                # Pings and future event types: the API may add events, and clients must ignore unknown ones.
                pass

    def _fill(self, at: int, delta: _Fields) -> None:
        block = self._blocks[at]
        match delta["type"]:
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "input_json_delta":
                self._inputs.setdefault(at, []).append(delta["partial_json"])
            case "citations_delta":
                cited: list[Any] = block.get("citations") or []
                block["citations"] = [*cited, delta["citation"]]
            case "compaction_delta":
                block |= {name: value for name, value in delta.items() if name != "type"}
            case other:
                self.problem = f"unknown delta type: {other!r}"

    def _close(self, fields: _Fields) -> None:
        self._message |= fields.get("delta") or {}
        usage: _Fields = fields.get("usage") or {}
        reported = {name: value for name, value in usage.items() if value is not None}
        self._message["usage"] = {**(self._message.get("usage") or {}), **reported}
        if fields.get("context_management") is not None:
            self._message["context_management"] = fields["context_management"]

    def _finished(self, at: int) -> _Fields:
        block, said = self._blocks[at], "".join(self._inputs.get(at, ()))
        # As received, not decoded and encoded again: its numbers may have more digits than a float keeps.
        return {**block, "input": msgspec.Raw(said.encode())} if said.strip() else block
