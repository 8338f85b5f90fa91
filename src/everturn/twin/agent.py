"""A rule-based agent that calls the offered tools and then reports (TW-8).

It looks a few times and ends the turn. Unasked it calls only tools that read (`read_only_tools.py`): it never
changes, fetches, schedules or sends anything, unless the request forces a tool or the user asks for it by
name. The next step depends only on the request: the tools, and the number of steps since the last user
prompt. So equal conversations give equal replies, and every turn ends. It does not understand the request; it
fills a context in the way that agents do. If the request offers the tools of a coding agent over a real
folder, `coding_agent.py` decides instead.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from everturn.twin import coding_agent
from everturn.twin.coding_jobs import PlannedStep
from everturn.twin.parse import make_block
from everturn.twin.read_only_tools import is_asked_for, only_reads
from everturn.twin.request_text import find_recent_paths, new_id
from everturn.twin.tool_input import InputHints, built_in_input, generate_input
from everturn.twin.tool_loading import find_loaded_tools, search_tools
from everturn.twin.user_prompts import find_prompt
from everturn.twin.validate.model_rules import has_thinking_enabled
from everturn.twin.values import ModelOutput, ParsedBlock, ParsedMessage, ParsedRequest
from everturn.wire.json_values import as_object, is_object

MAX_LOOKS: Final = 3
MAX_PARALLEL: Final = 3
PARALLEL_CHANCE: Final = 0.35
PREFACE_CHANCE: Final = 0.6
RETHINK_CHANCE: Final = 0.5

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z_]{3,30}")
_FILLER: Final = frozenset(
    ("this", "that", "with", "from", "have", "what", "when", "where", "which", "there", "would", "should")
)

_OPENERS: Final = (
    "I'll start by looking at how {word} is handled.",
    "Let me look at {path} first.",
    "I'll check where {word} comes from.",
    "Let me see what {path} does with {word}.",
)
_SENTENCES: Final = (
    "I went through {path} and followed {word} to where it is used.",
    "The part that matters is in {path}, and the rest has nothing to do with it.",
    "{word} is handled in one place, so callers do not need to know about it.",
    "Nothing else in the project depends on it, as far as the results show.",
    "If {word} is empty, the result is empty too.",
    "I only looked, and left everything as it is.",
    "The remaining question is whether {path} should also check {word} on the way in.",
    "You can see the same by reading {path}.",
)
_THOUGHTS: Final = (
    "The request is about {word}.",
    "I should find out where {word} is defined first.",
    "{path} is the most likely place.",
    "If that is not it, a search over the whole tree will show the other uses.",
    "A short report is better than a long one here.",
    "The result so far fits what was asked.",
    "The callers of {word} matter too.",
    "One more look at {path} would settle it.",
)


@dataclass(frozen=True, slots=True)
class RuleBasedAgent:
    """The speaker for requests without a scripted or recorded reply."""

    seed: int = 0

    def say(self, request: ParsedRequest, *, rng: random.Random) -> ModelOutput:
        """The next step. `rng` creates ids; the content depends only on the request and the seed."""
        state = _turn_state(request, self.seed)
        content = [*_thinking(request, state)]
        if coding_agent.can_handle(request):
            return _coding_output(coding_agent.plan_next_step(request), content, rng)
        searched = _search(request, state, rng)
        if searched:
            return _found_output(request, searched, content, self.seed, rng)
        calls = _calls(request, state)
        if calls:
            if state.rng.random() < PREFACE_CHANCE:
                content.append({"type": "text", "text": state.fill(state.rng.choice(_OPENERS))})
            content += [call | {"id": new_id("toolu_", rng)} for call in calls]
            return ModelOutput(tuple(content), "tool_use")
        content.append({"type": "text", "text": _final_text(request, state)})
        return ModelOutput(tuple(content), "")


def _coding_output(step: PlannedStep | str, content: list[dict[str, Any]], rng: random.Random) -> ModelOutput:
    """The step of the coding agent, in the API's format."""
    text = step if isinstance(step, str) else step.preface
    content += [{"type": "text", "text": text}] if text else []
    if isinstance(step, str):
        return ModelOutput(tuple(content), "")
    for call in step.calls:
        content.append(
            {"type": "tool_use", "id": new_id("toolu_", rng), "name": call.tool, "input": call.input}
        )
    return ModelOutput(tuple(content), "tool_use")


@dataclass(frozen=True, slots=True)
class _TurnState:
    """The state of the turn, and the random numbers for its next step."""

    step: int
    max_steps: int
    # The tools that may be called unasked.
    tools: list[ParsedBlock]
    hints: InputHints
    prompt: str
    rng: random.Random

    def fill(self, template: str) -> str:
        path = self.rng.choice(list(self.hints.paths)[-5:]) if self.hints.paths else "the project"
        word = self.rng.choice(list(self.hints.words)) if self.hints.words else "the request"
        return template.format(path=path, word=word)


def _turn_state(request: ParsedRequest, seed: int) -> _TurnState:
    prompt = find_prompt(request.messages)
    turn = request.messages[prompt.at :]
    steps = sum("tool_use" in message.kinds for message in turn)
    tools = [tool for tool in find_loaded_tools(request) if _may_be_called(tool, prompt.text)]
    # Two generators: the number of steps must be equal at every step of a turn, the other choices must not.
    seeds = f"{seed}:{_digest(turn[:1])}"
    max_steps = random.Random(seeds).randint(1, MAX_LOOKS)
    words = [word for word in _WORD.findall(prompt.text[:4000]) if word.lower() not in _FILLER]
    hints = InputHints(find_recent_paths(request.messages), words[:40])
    rng = random.Random(f"{seeds}:{prompt.at}:{steps}")
    return _TurnState(steps, max_steps, tools, hints, prompt.text, rng)


def _digest(messages: Sequence[ParsedMessage]) -> str:
    """A seed for these messages; their full text would be slow to seed from."""
    return "".join(block.digest.hex() for message in messages for block in message.blocks)


def _may_be_called(tool: ParsedBlock, prompt: str) -> bool:
    if not _is_run_by_client(tool):
        return False
    return only_reads(tool) or is_asked_for(tool, prompt)


def _is_run_by_client(tool: ParsedBlock) -> bool:
    """Whether the client runs the tool. Server tools would need results that only the API has."""
    kind = tool.body.get("type") or "custom"
    return kind == "custom" or built_in_input(str(kind)) is not None


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


def _calls(request: ParsedRequest, state: _TurnState) -> list[dict[str, Any]]:
    choice = request.get_object("tool_choice")
    forced = choice.get("type")
    if forced == "tool":
        named = [tool for tool in find_loaded_tools(request) if tool.body.get("name") == choice.get("name")]
        return [_call(tool, state) for tool in named[:1] if _is_run_by_client(tool)]
    if forced == "any":
        # The request asks for some tool: preferably one that only reads. Frameworks for structured output end
        # a turn with a tool of their own, so after some steps it is the turn of the others.
        every = [tool for tool in find_loaded_tools(request) if _is_run_by_client(tool)]
        others = [tool for tool in every if tool not in state.tools]
        tools = (state.tools if state.step < state.max_steps else others) or every
        return [_call(state.rng.choice(tools), state)] if tools else []
    if forced == "none" or not state.tools or state.step >= state.max_steps:
        return []
    parallel = not choice.get("disable_parallel_tool_use") and state.rng.random() < PARALLEL_CHANCE
    count = state.rng.randint(2, MAX_PARALLEL) if parallel else 1
    return [_call(state.rng.choice(state.tools), state) for _ in range(count)]


def _call(tool: ParsedBlock, state: _TurnState) -> dict[str, Any]:
    kind = str(tool.body.get("type") or "custom")
    made = built_in_input(kind) if kind != "custom" else None
    if made is None:
        made = generate_input(tool.body.get("input_schema") or {}, state.hints, state.rng)
    return {"type": "tool_use", "name": tool.body.get("name", ""), "input": made}


# ── deferred tools ───────────────────────────────────────────────────────────────────────────────


def _search(request: ParsedRequest, state: _TurnState, rng: random.Random) -> tuple[dict[str, Any], ...]:
    """A search for deferred tools at the start of a turn, if there are some that only read."""
    loaded = {id(tool) for tool in find_loaded_tools(request)}
    hidden = [tool for tool in request.tools if id(tool) not in loaded and _may_be_called(tool, state.prompt)]
    if state.step > 0 or request.get_object("tool_choice").get("type", "auto") != "auto":
        return ()
    return search_tools(request, hidden, state.prompt, rng=rng)


def _found_output(
    request: ParsedRequest,
    searched: tuple[dict[str, Any], ...],
    content: list[dict[str, Any]],
    seed: int,
    rng: random.Random,
) -> ModelOutput:
    """The search, then a call of a tool that it found: the API continues after its own tools."""
    found = ParsedMessage("assistant", tuple(make_block(block) for block in searched))
    after = replace(request, messages=(*request.messages, found))
    calls = _calls(after, _turn_state(after, seed))
    made = [call | {"id": new_id("toolu_", rng)} for call in calls]
    return ModelOutput((*content, *searched, *made), "tool_use" if made else "")


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def _final_text(request: ParsedRequest, state: _TurnState) -> str:
    wanted = as_object(request.get_object("output_config").get("format") or request.body.get("output_format"))
    if is_object(schema := wanted.get("schema")):
        return msgspec.json.encode(generate_input(schema, state.hints, state.rng)).decode()
    count = state.rng.randint(3, len(_SENTENCES))
    return " ".join(state.fill(sentence) for sentence in state.rng.sample(_SENTENCES, count))


def _thinking(request: ParsedRequest, state: _TurnState) -> list[dict[str, Any]]:
    if not has_thinking_enabled(request) or (state.step > 0 and state.rng.random() >= RETHINK_CHANCE):
        return []
    count = state.rng.randint(2, len(_THOUGHTS))
    text = " ".join(state.fill(thought) for thought in state.rng.sample(_THOUGHTS, count))
    return [{"type": "thinking", "thinking": text}]
