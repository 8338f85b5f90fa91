"""Choose the model's reply: from the script, else a recording, else the rule-based agent (TW-8).

The script of the workspace comes before the shared one. A scripted reply is used once. Replies without `when`
are used in order; a reply with `when` is used when its text occurs in the last user message. Only valid
requests whose response arrives use up replies. count_tokens does not, and compactions ask for a `summary`
instead. So does an ordinary request with a client's prompt for a summary, unless a reply was scripted for it:
one with `<summary>` in its text, or with `when` text that occurs in that prompt. The service signs the
thinking and counts the tokens.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, Protocol

from everturn.history.blocks import THINKING
from everturn.twin.agent import RuleBasedAgent
from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.playback import Playback
from everturn.twin.request_text import last_user_text, new_id
from everturn.twin.summarizer import summarize, summarize_briefly
from everturn.twin.summary_requests import find_summary_prompt
from everturn.twin.values import ModelOutput, ParsedRequest

# Fewer than the characters per token of any model in the table, so that the text always fits.
_MIN_CHARS_PER_TOKEN: Final = 2
_SUMMARY_TAG_CHARS: Final = len("<summary></summary> [...]")
# The thinking of a scripted or recorded tool call that has none, where the API would have sent some.
REQUIRED_THINKING: Final = "I will use a tool."
REFUSED_SUMMARY: Final = "I can't help with summarizing this conversation."


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One scripted reply. If `output.stop_reason` is empty, it is derived from the content."""

    output: ModelOutput
    when: str | None = None


def script_reply(
    content: str | Sequence[dict[str, Any]], stop_reason: str = "", *, when: str | None = None
) -> ScriptedReply:
    """Make a scripted reply from text or from content blocks."""
    blocks = ({"type": "text", "text": content},) if isinstance(content, str) else tuple(content)
    return ScriptedReply(ModelOutput(blocks, stop_reason), when)


GiveBack = Callable[[], None]


class SpokenReply(NamedTuple):
    """A reply, and how to put it back into its script or recording if it does not arrive."""

    output: ModelOutput
    # None if it was not taken from there, or stays there anyway.
    give_back: GiveBack | None = None


class Agent(Protocol):
    """Replies to requests without a scripted or recorded reply."""

    def say(self, request: ParsedRequest, *, rng: random.Random) -> ModelOutput: ...


class Speaker:
    """Generates the replies of the twin's model."""

    def __init__(
        self,
        script: Iterable[ScriptedReply] = (),
        *,
        playback: Iterable[ModelOutput] = (),
        faults: FaultInjector | None = None,
        agent: Agent | None = None,
        scripted_summaries: Literal["marked", "in_order"] = "marked",
        seed: int = 0,
    ) -> None:
        self._is_in_order = scripted_summaries == "in_order"
        self._initial = tuple(script)
        self._playback = Playback(playback)
        self._faults = faults
        self._agent: Agent = agent or RuleBasedAgent(seed)
        self.reset()

    def reset(self) -> None:
        """Restore the script and the recording that the twin was started with."""
        self._scripts: dict[str | None, list[ScriptedReply]] = {None: list(self._initial)}
        self._playback.reset()

    def add(self, replies: Iterable[ScriptedReply], *, workspace: str | None = None) -> None:
        """Queue replies for one workspace, or for all."""
        self._scripts.setdefault(workspace, []).extend(replies)

    def clear(self, *, workspace: str | None = None) -> None:
        self._scripts.pop(workspace, None)

    def pending(self, workspace: str | None = None) -> int:
        return len(self._scripts.get(workspace, ()))

    def say(self, request: ParsedRequest, *, rng: random.Random, is_broken_off: bool = False) -> SpokenReply:
        """The model's reply. `rng` creates ids.

        If the response is broken off, its scripted or recorded reply stays for the client's next attempt.
        """
        output, give_back = self._scripted(request, keeps=is_broken_off)
        if output is None and find_summary_prompt(request) is not None:
            # A client that does its own compaction, with an ordinary request (BY-5).
            output = self.summary(request)
        elif output is None:
            output, give_back = self._played_back(request, keeps=is_broken_off)
        said = _complete(output or self._agent.say(request, rng=rng), request, rng)
        return SpokenReply(said, give_back)

    def _played_back(
        self, request: ParsedRequest, *, keeps: bool
    ) -> tuple[ModelOutput | None, GiveBack | None]:
        output = self._playback.next(request.workspace, keeps=keeps)
        if output is None or keeps:
            return output, None
        return output, lambda: self._playback.give_back(request.workspace)

    def summary(self, request: ParsedRequest, instructions: str | None = None) -> ModelOutput:
        """The model's summary in a compaction by the API. Output without text means that it failed."""
        fault = self._faults.take_summary_fault(request.workspace) if self._faults else None
        return _faulty_summary(fault, request) or ModelOutput(
            _text(_summary_that_fits(request, instructions)), "end_turn"
        )

    def _scripted(self, request: ParsedRequest, *, keeps: bool) -> tuple[ModelOutput | None, GiveBack | None]:
        prompt = find_summary_prompt(request)
        user_text = last_user_text(request) if prompt is None else prompt
        for owner in (request.workspace, None):
            script = self._scripts.get(owner, [])
            for index, candidate in enumerate(script):
                if candidate.when is not None:
                    is_meant = candidate.when in user_text
                else:
                    is_meant = prompt is None or self._is_in_order or _is_summary(candidate.output)
                if is_meant:
                    output = replace(candidate.output, is_verbatim=bool(candidate.output.stop_reason))
                    return output, None if keeps else self._use_up(owner, script, index)
        return None, None

    def _use_up(self, owner: str | None, script: list[ScriptedReply], index: int) -> GiveBack:
        used = script.pop(index)

        def give_back() -> None:
            # A script that was cleared or replaced in the meantime stays as it is.
            if self._scripts.get(owner) is script:
                script.insert(index, used)

        return give_back


def _is_summary(output: ModelOutput) -> bool:
    return any("<summary>" in str(block.get("text", "")) for block in output.content)


def _text(text: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": text},)


def _summary_that_fits(request: ParsedRequest, instructions: str | None) -> str:
    """The full summary, or a short one if max_tokens is too small, so that it is not truncated."""
    full = summarize(request.messages, instructions)
    max_chars = int(request.body.get("max_tokens") or 0) * _MIN_CHARS_PER_TOKEN
    return (
        full
        if len(full) <= max_chars
        else summarize_briefly(request.messages, max_chars - _SUMMARY_TAG_CHARS)
    )


def _faulty_summary(fault: InjectedFault | None, request: ParsedRequest) -> ModelOutput | None:
    if fault is None:
        return None
    if fault.kind == "empty_summary":
        return ModelOutput((), "end_turn")
    if fault.kind == "refusing_summary":
        plain = _text(fault.message or REFUSED_SUMMARY)
        return ModelOutput(plain if find_summary_prompt(request) is not None else (), "refusal")
    name = request.tools[0].body.get("name", "bash") if request.tools else "bash"
    return ModelOutput(({"type": "tool_use", "name": name, "input": {}},), "tool_use")


# ── completing a reply ───────────────────────────────────────────────────────────────────────────


def _complete(output: ModelOutput, request: ParsedRequest, rng: random.Random) -> ModelOutput:
    content = tuple(_with_id(block, rng) for block in output.content)
    calls = any(block.get("type") == "tool_use" for block in content)
    if calls and _must_start_with_thinking(content, request):
        content = ({"type": "thinking", "thinking": REQUIRED_THINKING}, *content)
    if output.stop_reason:
        return replace(output, content=content)
    return _apply_stop_sequences(
        replace(output, content=content, stop_reason="tool_use" if calls else "end_turn"), request
    )


def _must_start_with_thinking(content: tuple[dict[str, Any], ...], request: ParsedRequest) -> bool:
    """With `enabled`, the first reply of a tool loop starts with thinking, or the next request is refused."""
    if request.get_object("thinking").get("type") != "enabled" or content[0].get("type") in THINKING:
        return False
    for message in reversed(request.messages):
        if message.role == "assistant":
            return False
        if message.role == "user" and any(block.kind != "tool_result" for block in message.blocks):
            return True
    return True


def _with_id(block: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    if block.get("type") != "tool_use":
        return block
    return {"type": "tool_use", "id": block.get("id") or new_id("toolu_", rng)} | {
        "name": block["name"],
        "input": block.get("input", {}),
    }


def _apply_stop_sequences(output: ModelOutput, request: ParsedRequest) -> ModelOutput:
    """Cut the reply at the first stop sequence of the request."""
    stops = [stop for stop in request.body.get("stop_sequences") or () if isinstance(stop, str) and stop]
    for index, block in enumerate(output.content):
        found = [
            (block["text"].index(s), s) for s in stops if block.get("type") == "text" and s in block["text"]
        ]
        if found:
            at, stop = min(found)
            kept = [*output.content[:index], *([block | {"text": block["text"][:at]}] if at else [])]
            return replace(output, content=tuple(kept), stop_reason="stop_sequence", stop_sequence=stop)
    return output
