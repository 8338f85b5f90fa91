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

from everturn.twin.agent import Agent
from everturn.twin.faults import Fault, Faults
from everturn.twin.playback import Playback
from everturn.twin.reading import asks_for_summary, last_user_text, new_id
from everturn.twin.summarizer import summarize, summarize_briefly
from everturn.twin.values import Request, Said

# Fewer than any tokenizer in the table needs, so that what was meant to fit does.
_SAFE_CHARS_A_TOKEN: Final = 2
_AROUND_A_SUMMARY: Final = len("<summary></summary> [...]")
REFUSED_SUMMARY: Final = "I can't help with summarizing this conversation."


@dataclass(frozen=True, slots=True)
class Line:
    """One scripted reply. `said.stop_reason` may be empty: then the content decides it."""

    said: Said
    when: str | None = None


def line(content: str | Sequence[dict[str, Any]], stop_reason: str = "", *, when: str | None = None) -> Line:
    """A scripted reply from plain text or from blocks."""
    blocks = ({"type": "text", "text": content},) if isinstance(content, str) else tuple(content)
    return Line(Said(blocks, stop_reason), when)


class Speaker:
    def __init__(
        self,
        lines: Iterable[Line] = (),
        *,
        playback: Iterable[Said] = (),
        faults: Faults | None = None,
        seed: int = 0,
    ) -> None:
        self._initial = tuple(lines)
        self._playback = Playback(playback)
        self._faults = faults
        self._agent = Agent(seed)
        self.reset()

    def reset(self) -> None:
        """Back to what the twin was started with."""
        self._scripts: dict[str | None, list[Line]] = {None: list(self._initial)}
        self._playback.reset()

    def add(self, lines: Iterable[Line], *, workspace: str | None = None) -> None:
        """More lines, for one workspace or for all."""
        self._scripts.setdefault(workspace, []).extend(lines)

    def clear(self, *, workspace: str | None = None) -> None:
        self._scripts.pop(workspace, None)

    def waiting(self, workspace: str | None = None) -> int:
        return len(self._scripts.get(workspace, ()))

    def say(self, request: Request, *, rng: random.Random, now: datetime) -> Said:
        """What the model answers. `now` is for speakers that tell the time; the agent does not."""
        said = (
            self._scripted(request)
            or self._summary_in_plain(request)
            or self._playback.next(request.workspace)
        )
        return _finished(said or self._agent.say(request, rng=rng), request, rng)

    def summary(self, request: Request, instructions: str | None = None) -> Said:
        """What the model answers when the API has it summarize. No text in it means: no summary."""
        fault = self._faults.take_summary(request.workspace) if self._faults else None
        return _spoiled_summary(fault, request) or Said(_text(_fitting(request, instructions)), "end_turn")

    def _scripted(self, request: Request) -> Said | None:
        heard = last_user_text(request)
        for owner in (request.workspace, None):
            script = self._scripts.get(owner, [])
            for index, candidate in enumerate(script):
                if candidate.when is None or candidate.when in heard:
                    said = script.pop(index).said
                    return replace(said, as_given=bool(said.stop_reason))
        return None

    def _summary_in_plain(self, request: Request) -> Said | None:
        """Clients that compact by themselves ask for the summary in an ordinary message (BY-5)."""
        return self.summary(request) if asks_for_summary(request) else None


def _text(words: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": words},)


def _fitting(request: Request, instructions: str | None) -> str:
    """A model that may say little says the most important: the summary shrinks before it is cut."""
    whole = summarize(request.messages, instructions)
    room = int(request.body.get("max_tokens") or 0) * _SAFE_CHARS_A_TOKEN
    return whole if len(whole) <= room else summarize_briefly(request.messages, room - _AROUND_A_SUMMARY)


def _spoiled_summary(fault: Fault | None, request: Request) -> Said | None:
    if fault is None:
        return None
    if fault.kind == "empty_summary":
        return Said((), "end_turn")
    if fault.kind == "refusing_summary":
        plain = _text(fault.message or REFUSED_SUMMARY)
        return Said(plain if asks_for_summary(request) else (), "refusal")
    name = request.tools[0].body.get("name", "bash") if request.tools else "bash"
    return Said(({"type": "tool_use", "name": name, "input": {}},), "tool_use")


# ── what a script may leave out ──────────────────────────────────────────────────────────────────


def _finished(said: Said, request: Request, rng: random.Random) -> Said:
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


def _stopped_at_sequence(said: Said, request: Request) -> Said:
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
