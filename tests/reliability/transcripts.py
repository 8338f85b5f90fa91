"""Session files by chance, sound and broken, as bytes: what agents, crashes and other tools leave behind.

Equal seeds give equal bytes. `said` holds the bytes of every block on a line that was written whole: whoever
reads the file, and whatever is decided afterwards, each of them must stay findable (`hidden.py`).
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

Fields = dict[str, Any]

_encode = msgspec.json.Encoder().encode
WORDS = (
    "parse",
    "the",
    "größer",
    "解析器",
    "🚀",
    "\\n",
    '"quoted"',
    "\u2028",
    "a/b.py",
    "8080",
    "naïve",
    "done",
)
TOOLS = ("Read", "Edit", "Bash", "Grep")
# A picture of one pixel; what it shows does not matter, only that it is one.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DAMAGES = ("torn", "glued", "comment", "hole", "surrogate", "number", "latin", "blank")


@dataclass
class Written:
    """A session file, and the blocks of what it says."""

    lines: list[bytes] = field(default_factory=list)
    said: set[bytes] = field(default_factory=set)

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)


class Scribe:
    """Writes one session file. `rng` decides everything; broken ones repeat themselves and break off."""

    def __init__(self, rng: random.Random, *, is_broken: bool) -> None:
        self.rng = rng
        self.is_broken = is_broken
        self.made = Written()
        self._count = 0
        self._names: list[str] = []
        self._open_calls: list[str] = []
        self._calls: list[str] = []
        self._message = 0

    def write(self, turns: int) -> Written:
        for _ in range(turns):
            self._prompt()
            for _ in range(self.rng.randrange(3)):
                self._response()
                self._answers()
            if self.rng.random() < 0.15:
                self._compaction()
            if self.is_broken and self.rng.random() < 0.6:
                self.rng.choice(self._accidents())()
        if self.rng.random() < 0.7:
            self._response()
        if self.is_broken and self.made.lines and self.rng.random() < 0.2:
            # The writer died within its next line.
            self.made.lines.append(self._torn(self.made.lines[-1]))
        return self.made

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _line(self, kind: str, more: Fields, blocks: list[Fields], **own: Any) -> None:
        self._count += 1
        uuid = own.pop("uuid", "") or f"u{self._count:04d}"
        parent = own.pop("parent", None) or (self._names[-1] if self._names else None)
        if self.is_broken and self.rng.random() < 0.06:
            parent = self.rng.choice(["nowhere", uuid, *self._names])
        stamp = f"2026-11-14T10:{self._count // 60 % 60:02d}:{self._count % 60:02d}.000Z"
        fields = {"parentUuid": parent, "isSidechain": False, "type": kind, "uuid": uuid, "timestamp": stamp}
        self._put(_encode({**fields, **more, **own}), [_encode(block) for block in blocks])
        if not own.get("isSidechain"):
            self._names.append(uuid)

    def _put(self, line: bytes, blocks: list[bytes]) -> None:
        self.made.lines.append(line + b"\n")
        self.made.said.update(blocks)

    def _torn(self, line: bytes) -> bytes:
        return line[: self.rng.randrange(1, len(line))]

    def _user(self, blocks: list[Fields], **own: Any) -> None:
        self._line("user", {"message": {"role": "user", "content": blocks}}, blocks, **own)

    def _assistant(self, blocks: list[Fields], name: str = "", **own: Any) -> None:
        message = {
            "id": name or f"msg_{self._message}",
            "model": "claude-opus-4-6",
            "type": "message",
            "role": "assistant",
            "content": blocks,
            "stop_reason": None,
            "usage": self._usage(),
        }
        self._line("assistant", {"message": message}, blocks, **own)

    def _usage(self) -> Fields | None:
        if self.rng.random() < 0.3:
            return None
        read = self.rng.randrange(9_000)
        return {
            "input_tokens": 3,
            "cache_creation_input_tokens": 40,
            "cache_read_input_tokens": read,
            "output_tokens": 9,
        }

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────

    def words(self, most: int = 14) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randrange(1, most))) + f" #{self._count}"

    def _text(self) -> Fields:
        return {"type": "text", "text": self.words()}

    def _thinking(self) -> Fields:
        if self.rng.random() < 0.2:
            return {"type": "redacted_thinking", "data": f"sealed{self._count}"}
        return {"type": "thinking", "thinking": self.words(), "signature": f"sig{self._count}"}

    def _call(self) -> Fields:
        name = f"toolu_{len(self._calls):03d}"
        if self.is_broken and self._calls and self.rng.random() < 0.12:
            name = self.rng.choice([*self._calls, ""])
        self._calls.append(name)
        self._open_calls.append(name)
        given = {"file_path": f"src/{self.rng.choice(WORDS[:3])}.py", "note": self.words(5)}
        return {"type": "tool_use", "id": name, "name": self.rng.choice(TOOLS), "input": given}

    def _result(self, call: str) -> Fields:
        size = 1_400 if self.rng.random() < 0.1 else 20
        content: Any = self.words(size)
        if self.rng.random() < 0.2:
            content = [{"type": "text", "text": content}, self._picture()]
        return {"type": "tool_result", "tool_use_id": call, "content": content}

    def _picture(self) -> Fields:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}

    def _anything(self) -> Fields:
        """A block that may stand where it should not."""
        made: list[Callable[[], Fields]] = [
            self._text,
            self._thinking,
            self._picture,
            lambda: {"type": "text", "text": self.rng.choice(("", " ", "\n\t"))},
            lambda: {"type": "from_the_future", "text": self.words()},
            lambda: self._result(self.rng.choice([*self._calls, "toolu_nobody"])),
            lambda: {"type": "tool_use", "id": f"toolu_stray{self._count}", "name": "Read", "input": {}},
        ]
        return self.rng.choice(made)()

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def _prompt(self) -> None:
        blocks = [self._text()]
        if self.rng.random() < 0.12:
            blocks.append(self._picture())
        if self.rng.random() < 0.1:
            # An interrupted tool loop: the person speaks before the tools did.
            self._open_calls = self._open_calls if self.is_broken else []
        self._user(blocks)
        if self.rng.random() < 0.1:
            note = {"type": "hook_additional_context", "content": self.words()}
            self._line("attachment", {"attachment": note}, [])

    def _response(self) -> None:
        self._message += 1
        blocks = [self._thinking()] if self.rng.random() < 0.4 else []
        blocks += [self._text()] if self.rng.random() < 0.7 else []
        blocks += [self._call() for _ in range(self.rng.choice((0, 1, 1, 2, 3)))]
        blocks = blocks or [self._text()]
        if self.rng.random() < 0.5:
            self._assistant(blocks)
            return
        for block in blocks:
            self._assistant([block])

    def _answers(self) -> None:
        calls, self._open_calls = self._open_calls, []
        if self.is_broken and self.rng.random() < 0.3:
            calls = self.rng.sample(calls, self.rng.randrange(len(calls) + 1))
        if not calls:
            return
        if self.rng.random() < 0.5:
            self._user([self._result(call) for call in calls])
            return
        for call in calls:
            self._user([self._result(call)])

    def _compaction(self) -> None:
        last, kept = self._names[-1], self.rng.random() < 0.4
        name = f"b{self._count}"
        facts: Fields = {"trigger": "auto", "preTokens": 90_000}
        if kept:
            segment = (self.rng.choice(self._names[-4:]), f"s{name}", last)
            facts["preservedSegment"] = dict(
                zip(("headUuid", "anchorUuid", "tailUuid"), segment, strict=True)
            )
        more = {"subtype": "compact_boundary", "content": "Conversation compacted", "compactMetadata": facts}
        self._line("system", {**more, "logicalParentUuid": last, "level": "info"}, [], uuid=name)
        if self.is_broken and self.rng.random() < 0.4:
            return
        flags = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        self._user([{"type": "text", "text": f"In short: {self.words()}"}], uuid=f"s{name}", **flags)

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────────

    def _accidents(self) -> list[Callable[[], None]]:
        return [
            self._fork, self._sidechain, self._damaged_line, self._damaged_line, self._repeated_line,
            self._repeated_name, self._odd_message, self._odd_message, self._error_reply, self._edit,
        ]  # fmt: skip

    def _fork(self) -> None:
        """A rewind: the conversation goes on from an earlier record."""
        self._user([self._text()], parent=self.rng.choice(self._names))

    def _sidechain(self) -> None:
        agent = f"agent{self._count}"
        more = {"isSidechain": True, "agentId": agent}
        self._user([self._text()], **more)
        self._assistant([self._text()], f"msg_{agent}", parent=f"u{self._count:04d}", **more)

    def _damaged_line(self) -> None:
        line = self.made.lines[-1].rstrip(b"\n")
        broken = {
            "torn": lambda: self._torn(line),
            "glued": lambda: (
                line.replace(b'"uuid":"', b'"uuid":"g') + line.replace(b'"uuid":"', b'"uuid":"h')
            ),
            "comment": lambda: b"// left by hand",
            "hole": lambda: b"\0" * self.rng.randrange(1, 40) + line.replace(b'"uuid":"', b'"uuid":"z'),
            "surrogate": lambda: self._raw_user(r"half \ud83d here"),
            "number": lambda: self._raw_user("x", b',"took":NaN'),
            "latin": lambda: self._raw_user("x").replace(b"said: x", b"said: \xff\xfe"),
            "blank": lambda: b"  ",
        }
        self.made.lines.append(broken[self.rng.choice(DAMAGES)]() + b"\n")

    def _raw_user(self, text: str, more: bytes = b"") -> bytes:
        self._count += 1
        name, parent = f"u{self._count:04d}", json.dumps(self._names[-1] if self._names else None)
        self._names.append(name)
        words = f'{{"parentUuid":{parent},"type":"user","uuid":"{name}","message":{{"role":"user","content":'
        return words.encode() + f'"said: {text}"}}'.encode() + more + b"}"

    def _repeated_line(self) -> None:
        self.made.lines.append(self.rng.choice(self.made.lines))

    def _repeated_name(self) -> None:
        self._user([self._text()], uuid=self.rng.choice(self._names))

    def _odd_message(self) -> None:
        blocks = [self._anything() for _ in range(self.rng.randrange(4))]
        if self.rng.random() < 0.5:
            self._user(blocks)
        else:
            self._message += self.rng.random() < 0.5
            self._assistant(blocks)

    def _error_reply(self) -> None:
        self._assistant([{"type": "text", "text": "API Error: 529"}], "msg_error", isApiErrorMessage=True)

    def _edit(self) -> None:
        some = self.rng.choice(self._names)
        edits: list[Fields] = [
            {"type": "Undone", "boundary": some},
            {"type": "Pinned", "text": self.words()},
            {"type": "ThinkingDropped", "since": some},
            {"type": "Trimmed", "before": some},
        ]
        edit = self.rng.choice(edits)
        self._line("system", {"subtype": f"everturn_{edit['type'].lower()}", "everturn": edit}, [])


def written(seed: int) -> Written:
    """The file of a seed: every third one is sound."""
    rng = random.Random(f"file {seed}")
    return Scribe(rng, is_broken=bool(seed % 3)).write(rng.randrange(5))
