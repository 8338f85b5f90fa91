"""Writes the lines of a synthetic session, with clock, ids, parent links and usage.

What is said and done is decided in `generator.py` and `episodes.py`; the format of a line in `lines.py`.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from everturn.replay.synthetic import lines
from everturn.replay.synthetic.usage_model import (
    AGENT_OVERHEAD,
    CLEARED_NOTE,
    UsageModel,
    tokens_of_block,
    tokens_of_blocks,
    tokens_of_text,
)
from everturn.replay.synthetic.workspace.tools import SyntheticReply, SyntheticToolCall

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
STREAMED = 0.68  # share of replies whose last line has an incomplete output count
RECENT_RESULTS = 3  # not cleared by a microcompaction
TRACKED_FILES = 5  # in a file snapshot

_encode = msgspec.json.Encoder().encode
Json = dict[str, Any]


@dataclass(slots=True)
class SyntheticThread:
    """One conversation: the main thread, or that of a sub-agent."""

    usage_model: UsageModel
    model: str
    parent: str | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class ResultInContext:
    """A tool result that is still in the main context, `at` tokens from its start."""

    call: str
    tokens: int
    at: int


@dataclass(frozen=True, slots=True)
class RewindPoint:
    """A point of the main thread that a rewind can return to."""

    parent: str | None
    context: int
    results: tuple[ResultInContext, ...]


@dataclass(frozen=True, slots=True)
class ReplyLines:
    """What the lines of one reply share."""

    message_id: str
    request: str
    usage: Json


@dataclass(slots=True)
class TranscriptWriter:
    rng: Random
    cwd: str
    main: SyntheticThread
    now_ms: int
    lifetime: str
    short_copies: bool
    session: str = ""
    slug: str = ""
    prompt_id: str = ""
    flow: int = 0
    results: list[ResultInContext] = field(default_factory=list[ResultInContext])
    backups: dict[str, Json] = field(default_factory=dict[str, Json])
    written: list[bytes] = field(default_factory=list[bytes])

    def drain(self) -> list[bytes]:
        """The lines since the last call."""
        out, self.written = self.written, []
        return out

    def wait(self, seconds: float) -> None:
        self.now_ms += max(1, round(seconds * 1000))

    def uuid(self) -> str:
        h = f"{self.rng.getrandbits(128):032x}"
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{'89ab'[int(h[16], 16) % 4]}{h[17:20]}-{h[20:]}"

    # ---- what the model sees ----

    def prompt(self, content: str | list[Json]) -> None:
        """A user prompt, with the file snapshot before it."""
        self.wait(self.rng.uniform(4, 90))
        self.prompt_id = self.uuid()
        self._put(lines.snapshot(self.prompt_id, self.prompt_id, {}, self._stamp(), updates=False))
        extra: Json = {
            "thinkingMetadata": {"maxThinkingTokens": 31999},
            "todos": [],
            "permissionMode": "default",
        }
        self._user(self.main, content, uuid=self.prompt_id, extra=extra)
        size = tokens_of_text(content) if isinstance(content, str) else tokens_of_blocks(content)
        self._count(self.main, size)

    def reply(self, thread: SyntheticThread, move: SyntheticReply) -> None:
        """One reply, one line per block, with its results between or after the calls."""
        self.wait(self.rng.uniform(1.5, 6))
        spoken = self._spoken(move)
        calls = [self._call(step) for step in move.steps]
        reply = self._begin_reply(thread, [*spoken, *calls])
        for block in spoken:
            self._assistant(thread, reply, block, is_last=not calls and block is spoken[-1])
        if len(calls) > 1 and self.rng.random() < 0.5:
            self._behind_each_other(thread, reply, move.steps, calls)
        else:
            self._side_by_side(thread, reply, move.steps, calls)

    def compact(self, summary: str, *, trigger: str) -> None:
        self.wait(self.rng.uniform(20, 50))
        before = self.main.usage_model.context + self.rng.randint(0, 900)
        self._system("compact_boundary", lines.compaction(trigger=trigger, tokens=before), root=True)
        flags = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        self._user(self.main, summary, uuid=self.uuid(), extra=flags)
        self.main.usage_model.go_back(self.main.usage_model.overhead)
        self.results.clear()
        self._count(self.main, tokens_of_text(summary))

    def microcompact(self) -> None:
        """Clears the older results. The file keeps them; only the boundary says that they are cleared."""
        old = [kept for kept in self.results[:-RECENT_RESULTS] if kept.tokens > CLEARED_NOTE]
        if not old:
            return
        usage_model = self.main.usage_model
        saved = sum(kept.tokens - CLEARED_NOTE for kept in old)
        calls = [kept.call for kept in old]
        said = lines.microcompaction(tokens=usage_model.context, saved=saved, calls=calls)
        self._system("microcompact_boundary", said)
        usage_model.forget_after(old[0].at)
        usage_model.context -= saved
        self.results = [replace(kept, at=kept.at - saved) for kept in self.results[-RECENT_RESULTS:]]

    def rewind_point(self) -> RewindPoint:
        return RewindPoint(self.main.parent, self.main.usage_model.context, tuple(self.results))

    def rewind(self, mark: RewindPoint) -> None:
        """Rewinds to the point: the next line is a second child of its parent."""
        self.main.parent = mark.parent
        self.main.usage_model.go_back(mark.context)
        self.results = list(mark.results)

    # ---- what only the terminal shows ----

    def opening(self, titles: Sequence[str]) -> None:
        """Titles of earlier conversations, and the output of the start hook."""
        for title in titles:
            self._put({"type": "summary", "summary": title, "leafUuid": self.uuid()})
        uuid = self.uuid()
        said = lines.start_hook(self.uuid())
        line = {"parentUuid": None, "isSidechain": False, "attachment": said, "type": "attachment"}
        self._put(line | {"uuid": uuid, "timestamp": self._stamp()} | self._envelope(self.main, None))
        self.main.parent = uuid

    def end_turn(self, started_ms: int) -> None:
        if self.rng.random() < 0.5:
            self._system("stop_hook_summary", lines.stop_hook(self.uuid()))
        self._system("turn_duration", {"durationMs": self.now_ms - started_ms, "isMeta": False})

    # ---- one reply ----

    def _spoken(self, move: SyntheticReply) -> list[Json]:
        blocks: list[Json] = []
        if move.thinking:
            signature = "E" + b64encode(self.rng.randbytes(self.rng.randint(240, 560))).decode()
            blocks.append({"type": "thinking", "thinking": move.thinking, "signature": signature})
        if move.text:
            blocks.append({"type": "text", "text": move.text})
        return blocks

    def _call(self, step: SyntheticToolCall) -> Json:
        return {
            "type": "tool_use",
            "id": self._identifier("toolu_01", 22),
            "name": step.tool,
            "input": step.input,
        }

    def _begin_reply(self, thread: SyntheticThread, blocks: Sequence[Json]) -> ReplyLines:
        """The call is made now: its usage is fixed, and its content joins the context."""
        seen = thread.usage_model.call(now_ms=self.now_ms, model=thread.model, fresh=self.rng.randint(1, 9))
        size = tokens_of_blocks(blocks)
        self._count(thread, size)
        used = lines.usage(seen, lifetime=self.lifetime, output=size)
        return ReplyLines(self._identifier("msg_01", 22), self._identifier("req_011C", 20), used)

    def _side_by_side(
        self,
        thread: SyntheticThread,
        reply: ReplyLines,
        steps: Sequence[SyntheticToolCall],
        calls: Sequence[Json],
    ) -> None:
        """All calls, then all results: the parent of each result is its call."""
        uuids = [self._assistant(thread, reply, call, is_last=call is calls[-1]) for call in calls]
        for step, call, uuid in zip(steps, calls, uuids, strict=True):
            self._answer(thread, step, call["id"], uuid)

    def _behind_each_other(
        self,
        thread: SyntheticThread,
        reply: ReplyLines,
        steps: Sequence[SyntheticToolCall],
        calls: Sequence[Json],
    ) -> None:
        """Call, result, call, result: the file is linear although the API saw two messages."""
        for step, call in zip(steps, calls, strict=True):
            uuid = self._assistant(thread, reply, call, is_last=call is calls[-1])
            self._answer(thread, step, call["id"], uuid)

    def _assistant(self, thread: SyntheticThread, reply: ReplyLines, block: Json, *, is_last: bool) -> str:
        used = reply.usage
        if not is_last or self.rng.random() < STREAMED:
            used = used | {"output_tokens": self.rng.randint(1, 10)}
        said = lines.message(thread.model, reply.message_id, block, used)
        uuid = self.uuid()
        line = self._envelope(thread, thread.parent) | {"message": said, "requestId": reply.request}
        self._put(line | {"type": "assistant", "uuid": uuid, "timestamp": self._stamp()})
        thread.parent = uuid
        self.wait(self.rng.uniform(0.3, 1.8))
        return uuid

    # ---- one tool result ----

    def _answer(self, thread: SyntheticThread, step: SyntheticToolCall, call: str, uuid: str) -> None:
        if step.agent:
            step = self._run_agent(thread, step)
        thread.parent = uuid
        self._meanwhile(thread, step, call)
        if step.tool in ("Edit", "Write") and not step.is_error:
            self._back_up(step.path, uuid)
        block = lines.result_block(step, call, reminds=self.rng.random() < 0.1)
        self._keep(thread, call, tokens_of_block(block))
        thread.parent = uuid
        self._user(thread, [block], uuid=self.uuid(), extra=self._copies(thread, step, uuid))
        if self.rng.random() < 0.2:
            self._progress(thread, call, lines.hook_progress(step.tool))

    def _meanwhile(self, thread: SyntheticThread, step: SyntheticToolCall, call: str) -> None:
        """Time passes until the result; a slow command reports progress."""
        if step.tool != "Bash":
            self.wait(step.seconds)
            return
        for second in range(2, int(step.seconds), 2):
            self.wait(2)
            self._progress(thread, call, lines.bash_progress(second))
        self.wait(step.seconds % 2)

    def _keep(self, thread: SyntheticThread, call: str, tokens: int) -> None:
        if not thread.agent:
            self.results.append(ResultInContext(call, tokens, thread.usage_model.context))
        self._count(thread, tokens)

    def _copies(self, thread: SyntheticThread, step: SyntheticToolCall, uuid: str) -> Json:
        """The copy for the terminal; sub-agents have none."""
        source = {"sourceToolAssistantUUID": uuid}
        if thread.agent:
            return source
        return {
            "toolUseResult": lines.shortened(step.display) if self.short_copies else step.display
        } | source

    def _run_agent(self, thread: SyntheticThread, step: SyntheticToolCall) -> SyntheticToolCall:
        """The lines of a sub-agent are in the same file, on a separate thread."""
        started = self.now_ms
        name = f"a{self.rng.getrandbits(24):06x}"
        inner = SyntheticThread(
            UsageModel(AGENT_OVERHEAD, thread.usage_model.lifetime_ms), thread.model, agent=name
        )
        self._user(inner, step.input["prompt"], uuid=self.uuid(), extra={})
        inner.usage_model.add(tokens_of_text(step.input["prompt"]))
        for move in step.agent:
            self.reply(inner, move)
        spent = {"totalDurationMs": self.now_ms - started, "totalTokens": inner.usage_model.context}
        return replace(step, display=step.display | {"agentId": name} | spent)

    def _back_up(self, path: str, uuid: str) -> None:
        name = path.removeprefix(f"{self.cwd}/")
        version = self.backups.pop(name, {}).get("version", 0) + 1
        stored = f"{self.rng.getrandbits(64):016x}@v{version}"
        self.backups[name] = {"backupFileName": stored, "version": version, "backupTime": self._stamp()}
        recent = dict(list(self.backups.items())[-TRACKED_FILES:])
        self._put(lines.snapshot(uuid, self.prompt_id, recent, self._stamp(), updates=True))

    # ---- one line ----

    def _user(self, thread: SyntheticThread, content: Any, *, uuid: str, extra: Json) -> None:
        said = {"type": "user", "message": {"role": "user", "content": content}}
        line = self._envelope(thread, thread.parent) | said
        self._put(line | {"uuid": uuid, "timestamp": self._stamp()} | extra)
        thread.parent = uuid

    def _progress(self, thread: SyntheticThread, call: str, data: Json) -> None:
        uuid = self.uuid()
        name = data["type"].replace("_", "-")
        line = self._envelope(thread, thread.parent) | {"type": "progress", "data": data}
        identity = {"toolUseID": f"{name}-{len(self.results)}", "parentToolUseID": call, "uuid": uuid}
        self._put(line | identity | {"timestamp": self._stamp()})
        thread.parent = uuid

    def _system(self, subtype: str, fields: Json, *, root: bool = False) -> None:
        """A bookkeeping line. A root has no parent; a second link names where it came from."""
        uuid = self.uuid()
        before = self.main.parent
        line = self._envelope(self.main, None if root else before)
        if root:
            line = {"parentUuid": None, "logicalParentUuid": before} | line
        named = {"type": "system", "subtype": subtype}
        self._put(line | named | fields | {"timestamp": self._stamp(), "uuid": uuid})
        self.main.parent = uuid

    def _envelope(self, thread: SyntheticThread, parent: str | None) -> Json:
        return lines.envelope(
            parent=parent, agent=thread.agent, cwd=self.cwd, session=self.session, slug=self.slug
        )

    def _put(self, line: Json) -> None:
        self.written.append(_encode(line))

    def _stamp(self) -> str:
        return lines.stamp_of(self.now_ms)

    def _identifier(self, start: str, length: int) -> str:
        return start + "".join(self.rng.choices(ALPHABET, k=length))

    def _count(self, thread: SyntheticThread, tokens: int) -> None:
        thread.usage_model.add(tokens)
        if not thread.agent:
            self.flow += tokens
