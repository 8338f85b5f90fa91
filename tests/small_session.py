"""Session files by hand: a few lines in the format of Claude Code, with usage that one can add up."""

import json
from typing import Any

MODEL = "claude-opus-4-5-20251101"


class SmallSession:
    """Lines appended one after the other, each continuing the one before."""

    def __init__(self, model: str = MODEL, agent: str = "") -> None:
        self.model = model
        self.agent = agent
        self.lines: list[dict[str, Any]] = []

    def _add(self, kind: str, **fields: Any) -> "SmallSession":
        number = len(self.lines)
        line = {
            "type": kind,
            "uuid": f"{self.agent}u{number}",
            "parentUuid": self.lines[-1]["uuid"] if self.lines else None,
            "timestamp": f"2026-01-05T10:{number % 60:02d}:00Z",
            "sessionId": "s1",
            "isSidechain": bool(self.agent),
        }
        self.lines.append(line | ({"agentId": self.agent} if self.agent else {}) | fields)
        return self

    def human(self, text: str, **fields: Any) -> "SmallSession":
        return self._add("user", message={"role": "user", "content": text}, **fields)

    def result(self, call: str, text: str) -> "SmallSession":
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        return self._add("user", message={"role": "user", "content": [block]})

    def reply(
        self,
        message_id: str,
        *blocks: dict[str, Any],
        plain: int = 0,
        read: int = 0,
        written: int = 0,
        out: int = 0,
    ) -> "SmallSession":
        usage = {
            "input_tokens": plain,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": out,
        }
        message = {
            "id": message_id,
            "model": self.model,
            "role": "assistant",
            "content": list(blocks),
            "usage": usage,
        }
        return self._add("assistant", message=message)

    def boundary(self, before: int, trigger: str = "auto") -> "SmallSession":
        parent = self.lines[-1]["uuid"] if self.lines else None
        metadata = {"trigger": trigger, "preTokens": before}
        return self._add(
            "system",
            subtype="compact_boundary",
            compactMetadata=metadata,
            parentUuid=None,
            logicalParentUuid=parent,
        )

    def summary(self, text: str) -> "SmallSession":
        return self.human(text, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def cleared(self, *calls: str, before: int, saved: int) -> "SmallSession":
        metadata = {
            "trigger": "auto",
            "preTokens": before,
            "tokensSaved": saved,
            "compactedToolIds": list(calls),
        }
        return self._add("system", subtype="microcompact_boundary", microcompactMetadata=metadata)

    def to_bytes(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "x"}


def call(id: str, tool: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": tool, "input": given}


def reading() -> SmallSession:
    """A question, the same file read twice, one long command: 40,100 tokens reported at the end."""
    return (
        SmallSession()
        .human("Why does the parser fail? " * 20)
        .reply("m1", thinking("I should look at it. " * 40), plain=10, written=20_000, out=300)
        .reply("m1", call("c1", "Read", file_path="/home/me/parser.py"), plain=10, written=20_000, out=340)
        .result("c1", "def parse(): ...\n" * 1000)
        .reply(
            "m2",
            call("c2", "Bash", command="pytest -q\n\ttests"),
            plain=5,
            read=20_010,
            written=9_985,
            out=40,
        )
        .result("c2", "E assert 1 == 2\n" * 400)
        .reply("m3", call("c3", "Read", file_path="/home/me/parser.py"), read=30_000, written=4_000, out=40)
        .result("c3", "def parse(): ...\n" * 1000)
        .reply(
            "m4",
            text("It fails because the loop ends early. " * 10),
            plain=100,
            read=34_000,
            written=5_900,
            out=100,
        )
    )


def compacted() -> SmallSession:
    """Two views: the first ended by itself at 160,000 tokens, the second has one call and a question."""
    session = SmallSession()
    session.human("Build it.").reply("m1", text("Done. " * 100), written=150_000, out=100)
    session.human("Now test it.").reply("m2", call("c1", "Bash", command="make"), read=150_000, written=9_000)
    session.result("c1", "ok\n" * 2000).boundary(160_000).summary("We built it and tested it. " * 40)
    session.human("Go on.").reply("m3", text("Going on. " * 30), read=1_000, written=30_000, out=60)
    return session.human("And now? " * 100)
