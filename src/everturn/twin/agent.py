"""A small agent that follows rules: it looks, changes, checks, and then says what it did (TW-8).

What it does next depends on the request alone: the tools on offer, and how many steps it has taken since a
person last spoke. So the same conversation goes the same way each time, and every turn ends. It understands
nothing; it behaves enough like an agent to fill a context the way agents do. Where it is offered the tools of
a coding agent, which answer about a real folder, `coding_agent.py` decides instead.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from everturn.twin import coding_agent as coder
from everturn.twin.request_text import extract_user_text, find_recent_paths, find_turn_start, new_id
from everturn.twin.tool_input import InputHints, built_in_input, generate_input
from everturn.twin.values import ModelOutput, ParsedBlock, ParsedMessage, ParsedRequest

ToolPurpose = Literal["look", "change", "check", "other"]

# Parts of a tool's name that tell what it is for; the first row that fits decides.
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
    seed: int = 0

    def say(self, request: ParsedRequest, *, rng: random.Random) -> ModelOutput:
        """The next step. `rng` makes ids; what is said is drawn from the request and the seed."""
        scene = _scene(request, self.seed)
        content = [*_thinking(request, scene)]
        if coder.can_handle(request):
            return _coded(coder.plan_next_step(request), content, rng)
        calls = _calls(request, scene)
        if calls:
            if scene.rng.random() < PREFACE_CHANCE:
                content.append({"type": "text", "text": scene.fill(scene.rng.choice(_preface(scene)))})
            content += [call | {"id": new_id("toolu_", rng)} for call in calls]
            return ModelOutput(tuple(content), "tool_use")
        content.append({"type": "text", "text": _answer(request, scene)})
        return ModelOutput(tuple(content), "")


def _coded(move: coder.PlannedStep | str, content: list[dict[str, Any]], rng: random.Random) -> ModelOutput:
    """What the coder does, as the API spells it."""
    said = move if isinstance(move, str) else move.preface
    content += [{"type": "text", "text": said}] if said else []
    if isinstance(move, str):
        return ModelOutput(tuple(content), "")
    for act in move.acts:
        content.append(
            {"type": "tool_use", "id": new_id("toolu_", rng), "name": act.tool, "input": act.input}
        )
    return ModelOutput(tuple(content), "tool_use")


@dataclass(frozen=True, slots=True)
class _Scene:
    """Where the turn stands, and the dice for its next step."""

    step: int
    plan: tuple[ToolPurpose, ...]
    tools: dict[ToolPurpose, list[ParsedBlock]]
    seen: InputHints
    rng: random.Random

    def fill(self, template: str) -> str:
        path = self.rng.choice(list(self.seen.paths)[-5:]) if self.seen.paths else "the project"
        word = self.rng.choice(list(self.seen.words)) if self.seen.words else "the request"
        return template.format(path=path, word=word)


def _scene(request: ParsedRequest, seed: int) -> _Scene:
    start = find_turn_start(request.messages)
    turn = request.messages[start:]
    asked = extract_user_text(turn[0]) if turn else ""
    steps = sum(1 for message in turn if any(block.kind == "tool_use" for block in message.blocks))
    tools = _by_purpose(request.tools)
    # Two generators: the plan must be the same at every step of a turn, the dice must not.
    dice = f"{seed}:{_digest(turn[:1])}"
    plan = _plan(tools, random.Random(dice))
    words = [word for word in _WORD.findall(asked[:4000]) if word.lower() not in _FILLER]
    seen = InputHints(find_recent_paths(request.messages), words[:40])
    return _Scene(steps, plan, tools, seen, random.Random(f"{dice}:{start}:{steps}"))


def _digest(messages: Sequence[ParsedMessage]) -> str:
    """What stands for a message as a seed: seeding from its whole text would cost more than answering it."""
    return "".join(block.digest.hex() for message in messages for block in message.blocks)


def _by_purpose(tools: Sequence[ParsedBlock]) -> dict[ToolPurpose, list[ParsedBlock]]:
    found: dict[ToolPurpose, list[ParsedBlock]] = {}
    for tool in tools:
        if _is_callable(tool):
            found.setdefault(_purpose(str(tool.body.get("name", ""))), []).append(tool)
    return found


def _is_callable(tool: ParsedBlock) -> bool:
    """Tools that the client runs. Server tools would need results that only the API has."""
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


def _calls(request: ParsedRequest, scene: _Scene) -> list[dict[str, Any]]:
    choice = request.body.get("tool_choice") or {}
    forced = choice.get("type")
    if forced == "none" or not scene.tools:
        return []
    if forced == "tool":
        return [_call(tool, scene) for tool in request.tools if tool.body.get("name") == choice.get("name")][
            :1
        ]
    if scene.step < len(scene.plan):
        return _step_calls(
            scene, scene.plan[scene.step], may_be_parallel=not choice.get("disable_parallel_tool_use")
        )
    if forced == "any":
        return _step_calls(scene, next(iter(scene.tools)), may_be_parallel=False)
    return []


def _step_calls(scene: _Scene, purpose: ToolPurpose, *, may_be_parallel: bool) -> list[dict[str, Any]]:
    tools = scene.tools[purpose]
    parallel = may_be_parallel and purpose == "look" and scene.rng.random() < PARALLEL_CHANCE
    count = scene.rng.randint(2, MAX_PARALLEL) if parallel else 1
    return [_call(scene.rng.choice(tools), scene) for _ in range(count)]


def _call(tool: ParsedBlock, scene: _Scene) -> dict[str, Any]:
    kind = str(tool.body.get("type") or "custom")
    made = built_in_input(kind) if kind != "custom" else None
    if made is None:
        made = generate_input(tool.body.get("input_schema") or {}, scene.seen, scene.rng)
    return {"type": "tool_use", "name": tool.body.get("name", ""), "input": made}


# ── words ────────────────────────────────────────────────────────────────────────────────────────


def _preface(scene: _Scene) -> tuple[str, ...]:
    purpose = scene.plan[scene.step] if scene.step < len(scene.plan) else "other"
    return {"change": _CHANGES, "check": _CHECKS}.get(purpose, _OPENERS)


def _answer(request: ParsedRequest, scene: _Scene) -> str:
    wanted = (
        (request.body.get("output_config") or {}).get("format") or request.body.get("output_format") or {}
    )
    if isinstance(wanted, dict) and isinstance(wanted.get("schema"), dict):
        return msgspec.json.encode(generate_input(wanted["schema"], scene.seen, scene.rng)).decode()
    count = scene.rng.randint(3, len(_SENTENCES))
    return " ".join(scene.fill(sentence) for sentence in scene.rng.sample(_SENTENCES, count))


def _thinking(request: ParsedRequest, scene: _Scene) -> list[dict[str, Any]]:
    if not thinks(request) or (scene.step > 0 and scene.rng.random() >= RETHINK_CHANCE):
        return []
    count = scene.rng.randint(2, len(_THOUGHTS))
    words = " ".join(scene.fill(thought) for thought in scene.rng.sample(_THOUGHTS, count))
    return [{"type": "thinking", "thinking": words}]


def thinks(request: ParsedRequest) -> bool:
    """Whether this request gets thinking: it asks for it, or its model thinks unless told not to."""
    asked = request.body.get("thinking")
    kind = asked.get("type") if isinstance(asked, dict) else None
    return (
        request.model.thinks_by_default if kind is None else kind in ("enabled", "adaptive", "between_tools")
    )
