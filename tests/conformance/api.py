"""A client of bare sockets: what any program could send, and what comes back, byte for byte.

Nothing here knows the twin's code. The suites of this folder use only HTTP, so they hold for every server
that speaks the API and has the control endpoints under /twin.
"""

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MODEL = "claude-opus-5"
FIVE = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
EDITING = "context-management-2025-06-27"
COMPACT_AT = "compact-2026-01-12"
COMPACT_NOW = "compact-2026-09-04"
BINDING = "thinking-binding-controls-2026-08-01"
NEWEST_VERSION = "2026-10-21"
OLD_VERSION = "2023-06-01"
TIMEOUT_S = 20
PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

Json = dict[str, Any]


def text(words: str, marker: Json | None = None) -> Json:
    block: Json = {"type": "text", "text": words}
    return block if marker is None else {**block, "cache_control": marker}


def long(label: str, chars: int = 4000, marker: Json | None = None) -> Json:
    """A text block above every smaller minimum; different labels differ in the first byte."""
    return text((label + " ") * (chars // (len(label) + 1)), marker)


def user(*content: Any) -> Json:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Any) -> Json:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def call(id: str, name: str = "look", **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, words: Any = "seen", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": words, **more}


def tool(name: str = "look", **more: Any) -> Json:
    return {
        "name": name,
        "description": f"The tool {name}.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        **more,
    }


def marked(block: Json, marker: Json = FIVE) -> Json:
    return {**block, "cache_control": marker}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def error(self) -> Json:
        body = self.json
        assert body["type"] == "error", body
        return body["error"]

    @property
    def said(self) -> tuple[int, str, str]:
        """Status, type and words of a refusal."""
        return self.status, self.error["type"], self.error["message"]

    @property
    def events(self) -> list[Json]:
        return list(parse_events(self.data))


def parse_events(data: bytes) -> Iterator[Json]:
    """The events of a stream; fails where the event's name is not the type of its data."""
    for chunk in data.decode().split("\n\n"):
        if not chunk.strip():
            continue
        name, payload = chunk.strip().split("\n", 1)
        body = json.loads(payload.removeprefix("data: "))
        assert name == f"event: {body['type']}", chunk
        yield body


class Api:
    """One API key at one server."""

    def __init__(self, url: str, key: str = "key-a", version: str = OLD_VERSION):
        self.url = url
        self.key = key
        self.version = version

    def as_key(self, key: str) -> "Api":
        return Api(self.url, key, self.version)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request over a connection of its own; `headers` replaces the usual ones."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
        try:
            data = raw if raw is not None else None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, dict(self.usual if headers is None else headers))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    @property
    def usual(self) -> dict[str, str]:
        return {
            "x-api-key": self.key,
            "anthropic-version": self.version,
            "content-type": "application/json",
        }

    def ask(self, *messages: Any, betas: str = "", version: str = "", **fields: Any) -> Answer:
        """POST /v1/messages; a plain string is a user message."""
        return self._post("/v1/messages", messages, betas, version, {"max_tokens": 200, **fields})

    def count(self, *messages: Any, betas: str = "", **fields: Any) -> int:
        answer = self._post("/v1/messages/count_tokens", messages, betas, "", fields)
        assert answer.status == 200, answer.data
        return answer.json["input_tokens"]

    def counted(self, *messages: Any, betas: str = "", **fields: Any) -> Answer:
        return self._post("/v1/messages/count_tokens", messages, betas, "", fields)

    def _post(self, path: str, messages: Any, betas: str, version: str, fields: Json) -> Answer:
        headers = self.usual | ({"anthropic-beta": betas} if betas else {})
        headers |= {"anthropic-version": version} if version else {}
        turns = [user(m) if isinstance(m, str) else m for m in messages]
        body = {"model": MODEL, "messages": turns, **fields}
        return self.send("POST", path, {k: v for k, v in body.items() if v is not ...}, headers=headers)

    def reply(self, *messages: Any, **fields: Any) -> Json:
        answer = self.ask(*messages, **fields)
        assert answer.status == 200, answer.data
        return answer.json

    def usage(self, *messages: Any, **fields: Any) -> Json:
        return self.reply(*messages, **fields)["usage"]

    def read_write_plain(self, *messages: Any, **fields: Any) -> tuple[int, int, int]:
        """What was read, written, and neither; checks that the three make up the count."""
        usage = self.usage(*messages, **fields)
        parts = usage["cache_creation"]
        written = usage["cache_creation_input_tokens"]
        assert parts["ephemeral_5m_input_tokens"] + parts["ephemeral_1h_input_tokens"] == written
        return usage["cache_read_input_tokens"], written, usage["input_tokens"]

    def refused(self, *messages: Any, **fields: Any) -> str:
        """The words of a 400 invalid_request_error."""
        answer = self.ask(*messages, **fields)
        assert answer.status == 400, answer.data
        assert answer.error["type"] == "invalid_request_error"
        return answer.error["message"]

    def control(self, path: str, body: Json) -> Json:
        answer = self.send("POST", f"/twin/{path}", body)
        assert answer.status == 200, answer.data
        return answer.json

    def advance(self, seconds: float) -> None:
        self.control("clock", {"advance_s": seconds})

    def script(self, *replies: Any) -> None:
        self.control("script", {"replies": list(replies)})

    def fault(self, kind: str, **fields: Any) -> None:
        self.control("faults", {"faults": [{"kind": kind, **fields}]})

    def ledger(self) -> list[Json]:
        return self.send("GET", "/twin/ledger").json
