"""Send requests to a twin in this process: a request as keyword arguments, the response body as a dict."""

import json
from typing import Any

from everturn.twin.clock import VirtualClock
from everturn.twin.faults import InjectedFault
from everturn.twin.options import TwinOptions
from everturn.twin.service import Twin
from everturn.twin.speaker import script_reply

FIVE = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
EDITING = "context-management-2025-06-27"
COMPACT_AT = "compact-2026-01-12"
COMPACT_NOW = "compact-2026-09-04"


def text(words: str, marker: dict[str, str] | None = None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": words}
    return block if marker is None else {**block, "cache_control": marker}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(c) if isinstance(c, str) else c for c in content]}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [text(c) if isinstance(c, str) else c for c in content]}


def call(id: str, name: str = "look", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, words: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": words, **more}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "d" * 40, "input_schema": {"type": "object"}, **more}


class Desk:
    """A twin with a virtual clock and, unless options are given, no minimum size for the cache."""

    def __init__(self, options: TwinOptions | None = None, *, model: str = "claude-opus-5"):
        self.clock = VirtualClock()
        self.twin = Twin(clock=self.clock, options=options or TwinOptions(min_cache={model: 0}))
        self.model = model

    def send(self, *, key: str = "k", betas: str = "", endpoint: str = "messages", **body: Any):
        headers = {"x-api-key": key, "anthropic-version": "2026-10-21", "anthropic-beta": betas}
        whole = {"model": self.model, **({"max_tokens": 1000} if endpoint == "messages" else {}), **body}
        sent = json.dumps(whole).encode()
        return (
            self.twin.messages(headers, sent)
            if endpoint == "messages"
            else self.twin.count_tokens(headers, sent)
        )

    def ask(self, **body: Any) -> dict[str, Any]:
        """The body of a response that must not be an error."""
        answer = self.send(**body)
        told = json.loads(answer.body)
        assert answer.status == 200, told
        return told

    def refused(self, **body: Any) -> str:
        answer = self.send(**body)
        assert answer.status >= 400
        return json.loads(answer.body)["error"]["message"]

    def usage(self, **body: Any) -> tuple[int, int, int, int]:
        """Read, 1h write, 5m write, plain input."""
        return parts(self.ask(**body)["usage"])

    def script(self, *replies: Any) -> None:
        self.twin.speaker.add([script_reply(reply) for reply in replies])

    def break_with(self, fault: InjectedFault) -> None:
        self.twin.faults.add([fault])

    def last(self) -> dict[str, Any]:
        return self.twin.ledger()[-1]


def parts(usage: dict[str, Any]) -> tuple[int, int, int, int]:
    created = usage["cache_creation"]
    assert usage["cache_creation_input_tokens"] == sum(created.values())
    return (
        usage["cache_read_input_tokens"],
        created["ephemeral_1h_input_tokens"],
        created["ephemeral_5m_input_tokens"],
        usage["input_tokens"],
    )
