"""A rule-based agent that calls the offered tools and then reports (TW-8).

It reads, changes, checks, and ends the turn. The next step depends only on the request: the tools, and the
number of steps since the last user prompt. So equal conversations give equal replies, and every turn ends. It
does not understand the request; it fills a context in the way that agents do. If the request offers the tools
of a coding agent over a real folder, `coding_agent.py` decides instead.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from everturn.twin import coding_agent
from everturn.twin.json_values import as_object, is_object
from everturn.twin.request_text import extract_user_text, find_recent_paths, find_turn_start, new_id
from everturn.twin.tool_input import InputHints, built_in_input, generate_input
from everturn.twin.validate.model_rules import has_thinking_enabled
from everturn.twin.values import ModelOutput, ParsedBlock, ParsedMessage, ParsedRequest

ToolPurpose = Literal["look", "change", "check", "other"]

# Parts of a tool's name that show its purpose; the first row that matches decides.
_PURPOSES: Final[tuple[tuple[ToolPurpose, tuple[str, ...]], ...]] = (
    ("change", ("edit", "write", "replace", "patch", "apply", "create", "update", "insert", "delete")),
    ("check", ("test", "bash", "shell", "run", "exec", "command", "terminal", "build", "lint")),
    (
        "look",
        (
            "read",
            "search",
            "grep",
            "glob",
            "find",
            "list",
            "ls",
            "view",
            "get",
            "fetch",
            "open",
            "cat",
            "query",
        ),
    ),
)
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
_CHANGES: Final = (
    "The cause is in {path}; I'll change how {word} is treated there.",
    "Now I'll update {path}.",
)
_CHECKS: Final = ("Let me run the tests to see whether this holds.", "Now I'll verify the change.")
_SENTENCES: Final = (
    "I went through {path} and followed {word} to where it is used.",
    "The part that matters is in {path}, and the rest can stay as it is.",
    "The handling of {word} is now in one place, so callers do not need to know about it.",
    "Nothing else in the project depends on the old behaviour, as far as the results show.",
    "If {word} is empty, the result is empty too; that case was not covered before.",
    "I kept the change small and left the names alone.",
    "The remaining question is whether {path} should also check {word} on the way in.",
    "You can see the effect by running the checks again.",
)
_THOUGHTS: Final = (
    "The request is about {word}.",
    "I should find out where {word} is defined before changing anything.",
    "{path} is the most likely place.",
    "If that is not it, a search over the whole tree will show the other uses.",
    "A small change is better than a rewrite here.",
    "The result so far fits what was asked.",
    "I need to be careful not to break the callers of {word}.",
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
        calls = _calls(request, state)
        if calls:
            if state.rng.random() < PREFACE_CHANCE:
                content.append({"type": "text", "text": state.fill(state.rng.choice(_preface(state)))})
            content += [call | {"id": new_id("toolu_", rng)} for call in calls]
            return ModelOutput(tuple(content), "tool_use")
        content.append({"type": "text", "text": _final_text(request, state)})
        return ModelOutput(tuple(content), "")


def _coding_output(
    step: coding_agent.PlannedStep | str, content: list[dict[str, Any]], rng: random.Random
) -> ModelOutput:
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
    plan: tuple[ToolPurpose, ...]
    tools: dict[ToolPurpose, list[ParsedBlock]]
    hints: InputHints
    rng: random.Random

    def fill(self, template: str) -> str:
        path = self.rng.choice(list(self.hints.paths)[-5:]) if self.hints.paths else "the project"
        word = self.rng.choice(list(self.hints.words)) if self.hints.words else "the request"
        return template.format(path=path, word=word)


def _turn_state(request: ParsedRequest, seed: int) -> _TurnState:
    start = find_turn_start(request.messages)
    turn = request.messages[start:]
    asked = extract_user_text(turn[0]) if turn else ""
    steps = sum(1 for message in turn if any(block.kind == "tool_use" for block in message.blocks))
    tools = _by_purpose(request.tools)
    # Two generators: the plan must be equal at every step of a turn, the other choices must not.
    seeds = f"{seed}:{_digest(turn[:1])}"
    plan = _plan(tools, random.Random(seeds))
    words = [word for word in _WORD.findall(asked[:4000]) if word.lower() not in _FILLER]
    hints = InputHints(find_recent_paths(request.messages), words[:40])
    return _TurnState(steps, plan, tools, hints, random.Random(f"{seeds}:{start}:{steps}"))


def _digest(messages: Sequence[ParsedMessage]) -> str:
    """A seed for these messages; their full text would be slow to seed from."""
    return "".join(block.digest.hex() for message in messages for block in message.blocks)


def _by_purpose(tools: Sequence[ParsedBlock]) -> dict[ToolPurpose, list[ParsedBlock]]:
    found: dict[ToolPurpose, list[ParsedBlock]] = {}
    for tool in tools:
        if _is_callable(tool):
            found.setdefault(_purpose(str(tool.body.get("name", ""))), []).append(tool)
    return found


def _is_callable(tool: ParsedBlock) -> bool:
    """Whether the client runs the tool. Server tools would need results that only the API has."""
    if tool.body.get("defer_loading"):
        return False
    kind = tool.body.get("type") or "custom"
    return kind == "custom" or built_in_input(str(kind)) is not None


def _purpose(name: str) -> ToolPurpose:
    low = name.lower()
    for purpose, parts in _PURPOSES:
        if any(part in low for part in parts):
            return purpose
    return "other"


def _plan(tools: dict[ToolPurpose, list[ParsedBlock]], rng: random.Random) -> tuple[ToolPurpose, ...]:
    looks: list[ToolPurpose] = ["look"] * rng.randint(1, MAX_LOOKS) if "look" in tools else []
    rest: list[ToolPurpose] = [purpose for purpose in ("other", "change", "check") if purpose in tools]
    return (*looks, *rest)


# ── calls ────────────────────────────────────────────────────────────────────────────────────────


def _calls(request: ParsedRequest, state: _TurnState) -> list[dict[str, Any]]:
    choice = request.get_object("tool_choice")
    forced = choice.get("type")
    if forced == "none" or not state.tools:
        return []
    if forced == "tool":
        named = [tool for tool in request.tools if tool.body.get("name") == choice.get("name")]
        return [_call(tool, state) for tool in named[:1]]
    if state.step < len(state.plan):
        return _step_calls(
            state, state.plan[state.step], may_be_parallel=not choice.get("disable_parallel_tool_use")
        )
    if forced == "any":
        return _step_calls(state, next(iter(state.tools)), may_be_parallel=False)
    return []


def _step_calls(state: _TurnState, purpose: ToolPurpose, *, may_be_parallel: bool) -> list[dict[str, Any]]:
    tools = state.tools[purpose]
    parallel = may_be_parallel and purpose == "look" and state.rng.random() < PARALLEL_CHANCE
    count = state.rng.randint(2, MAX_PARALLEL) if parallel else 1
    return [_call(state.rng.choice(tools), state) for _ in range(count)]


def _call(tool: ParsedBlock, state: _TurnState) -> dict[str, Any]:
    kind = str(tool.body.get("type") or "custom")
    made = built_in_input(kind) if kind != "custom" else None
    if made is None:
        made = generate_input(tool.body.get("input_schema") or {}, state.hints, state.rng)
    return {"type": "tool_use", "name": tool.body.get("name", ""), "input": made}


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def _preface(state: _TurnState) -> tuple[str, ...]:
    purpose = state.plan[state.step] if state.step < len(state.plan) else "other"
    return {"change": _CHANGES, "check": _CHECKS}.get(purpose, _OPENERS)


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
