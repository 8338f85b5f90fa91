"""Who speaks: the script of the workspace, else the shared script, else a recording, else the agent (TW-8).

A line of a script is used once. Lines without `when` are used in order; a line with `when` waits until its
words stand in the last user message. The speaker is asked only for requests that were accepted, so a refused
request uses up nothing; count_tokens never asks, and compaction requests ask for a `summary` instead.
Signatures of thinking and the count of tokens are the service's to add.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from everturn.twin.agent import RuleBasedAgent
from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.playback import Playback
from everturn.twin.request_text import is_summary_request, last_user_text, new_id
from everturn.twin.summarizer import summarize, summarize_briefly
from everturn.twin.values import ModelOutput, ParsedRequest

# Fewer than any tokenizer in the table needs, so that what was meant to fit does.
_SAFE_CHARS_A_TOKEN: Final = 2
_AROUND_A_SUMMARY: Final = len("<summary></summary> [...]")
REFUSED_SUMMARY: Final = "I can't help with summarizing this conversation."


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One scripted reply. `said.stop_reason` may be empty: then the content decides it."""

    said: ModelOutput
    when: str | None = None


def script_reply(
    content: str | Sequence[dict[str, Any]], stop_reason: str = "", *, when: str | None = None
) -> ScriptedReply:
    """A scripted reply from plain text or from blocks."""
    blocks = ({"type": "text", "text": content},) if isinstance(content, str) else tuple(content)
    return ScriptedReply(ModelOutput(blocks, stop_reason), when)


class Speaker:
    def __init__(
        self,
        lines: Iterable[ScriptedReply] = (),
        *,
        playback: Iterable[ModelOutput] = (),
        faults: FaultInjector | None = None,
        seed: int = 0,
    ) -> None:
        self._initial = tuple(lines)
        self._playback = Playback(playback)
        self._faults = faults
        self._agent = RuleBasedAgent(seed)
        self.reset()

    def reset(self) -> None:
        """Back to what the twin was started with."""
        self._scripts: dict[str | None, list[ScriptedReply]] = {None: list(self._initial)}
        self._playback.reset()

    def add(self, lines: Iterable[ScriptedReply], *, workspace: str | None = None) -> None:
        """More lines, for one workspace or for all."""
        self._scripts.setdefault(workspace, []).extend(lines)

    def clear(self, *, workspace: str | None = None) -> None:
        self._scripts.pop(workspace, None)

    def waiting(self, workspace: str | None = None) -> int:
        return len(self._scripts.get(workspace, ()))

    def say(self, request: ParsedRequest, *, rng: random.Random, now: datetime) -> ModelOutput:
        """What the model answers. `now` is for speakers that tell the time; the agent does not."""
        said = (
            self._scripted(request)
            or self._summary_in_plain(request)
            or self._playback.next(request.workspace)
        )
        return _finished(said or self._agent.say(request, rng=rng), request, rng)

    def summary(self, request: ParsedRequest, instructions: str | None = None) -> ModelOutput:
        """What the model answers when the API has it summarize. No text in it means: no summary."""
        fault = self._faults.take_summary_fault(request.workspace) if self._faults else None
        return _spoiled_summary(fault, request) or ModelOutput(
            _text(_fitting(request, instructions)), "end_turn"
        )

    def _scripted(self, request: ParsedRequest) -> ModelOutput | None:
        heard = last_user_text(request)
        for owner in (request.workspace, None):
            script = self._scripts.get(owner, [])
            for index, candidate in enumerate(script):
                if candidate.when is None or candidate.when in heard:
                    said = script.pop(index).said
                    return replace(said, is_verbatim=bool(said.stop_reason))
        return None

    def _summary_in_plain(self, request: ParsedRequest) -> ModelOutput | None:
        """Clients that compact by themselves ask for the summary in an ordinary message (BY-5)."""
        return self.summary(request) if is_summary_request(request) else None


def _text(words: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": words},)


def _fitting(request: ParsedRequest, instructions: str | None) -> str:
    """A model that may say little says the most important: the summary shrinks before it is cut."""
    whole = summarize(request.messages, instructions)
    room = int(request.body.get("max_tokens") or 0) * _SAFE_CHARS_A_TOKEN
    return whole if len(whole) <= room else summarize_briefly(request.messages, room - _AROUND_A_SUMMARY)


def _spoiled_summary(fault: InjectedFault | None, request: ParsedRequest) -> ModelOutput | None:
    if fault is None:
        return None
    if fault.kind == "empty_summary":
        return ModelOutput((), "end_turn")
    if fault.kind == "refusing_summary":
        plain = _text(fault.message or REFUSED_SUMMARY)
        return ModelOutput(plain if is_summary_request(request) else (), "refusal")
    name = request.tools[0].body.get("name", "bash") if request.tools else "bash"
    return ModelOutput(({"type": "tool_use", "name": name, "input": {}},), "tool_use")


# ── what a script may leave out ──────────────────────────────────────────────────────────────────


def _finished(said: ModelOutput, request: ParsedRequest, rng: random.Random) -> ModelOutput:
    content = tuple(_with_id(block, rng) for block in said.content)
    if said.stop_reason:
        return replace(said, content=content)
    calls = any(block.get("type") == "tool_use" for block in content)
    return _stopped_at_sequence(
        replace(said, content=content, stop_reason="tool_use" if calls else "end_turn"), request
    )


def _with_id(block: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    if block.get("type") != "tool_use":
        return block
    return {"type": "tool_use", "id": block.get("id") or new_id("toolu_", rng)} | {
        "name": block["name"],
        "input": block.get("input", {}),
    }


def _stopped_at_sequence(said: ModelOutput, request: ParsedRequest) -> ModelOutput:
    """Cut the answer where one of the request's stop sequences begins; what follows was never said."""
    stops = [stop for stop in request.body.get("stop_sequences") or () if isinstance(stop, str) and stop]
    for index, block in enumerate(said.content):
        found = [
            (block["text"].index(s), s) for s in stops if block.get("type") == "text" and s in block["text"]
        ]
        if found:
            at, stop = min(found)
            kept = [*said.content[:index], *([block | {"text": block["text"][:at]}] if at else [])]
            return replace(said, content=tuple(kept), stop_reason="stop_sequence", stop_sequence=stop)
    return said
