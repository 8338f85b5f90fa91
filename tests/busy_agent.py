"""An agent for tests that fills a context as real ones do: it reads, changes, checks, and then reports.

The twin's own agent changes nothing unasked. This one calls every tool that it is offered, with made-up
inputs, so it must only be used with tools that a test answers itself.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from everturn.twin.request_text import extract_user_text, find_recent_paths, new_id
from everturn.twin.tool_input import InputHints, built_in_input, generate_input
from everturn.twin.validate.model_rules import has_thinking_enabled
from everturn.twin.values import ModelOutput, ParsedBlock, ParsedMessage, ParsedRequest

PURPOSES = (
    ("change", ("edit", "write", "replace", "patch", "apply", "create", "update", "insert", "delete")),
    ("check", ("test", "bash", "shell", "run", "exec", "command", "terminal", "build", "lint")),
    ("look", ("read", "search", "grep", "glob", "find", "list", "ls", "view", "get", "fetch", "open")),
)
MAX_LOOKS = 3
MAX_PARALLEL = 3
SENTENCES = (
    "I went through {path} and followed {word} to where it is used.",
    "The part that matters is in {path}, and the rest can stay as it is.",
    "The handling of {word} is now in one place, so callers do not need to know about it.",
    "Nothing else in the project depends on the old behaviour, as far as the results show.",
    "If {word} is empty, the result is empty too; that case was not covered before.",
    "I kept the change small and left the names alone.",
    "The remaining question is whether {path} should also check {word} on the way in.",
    "You can see the effect by running the checks again.",
)


@dataclass(frozen=True)
class BusyAgent:
    """Replies for requests without a script; the same ones for the same request and seed."""

    seed: int = 0

    def say(self, request: ParsedRequest, *, rng: random.Random) -> ModelOutput:
        start = _turn_start(request.messages)
        turn = request.messages[start:]
        step = sum(1 for message in turn if any(block.kind == "tool_use" for block in message.blocks))
        seeds = (
            f"{self.seed}:{''.join(block.digest.hex() for message in turn[:1] for block in message.blocks)}"
        )
        choices = random.Random(f"{seeds}:{start}:{step}")
        words = [word for word in extract_user_text(turn[0])[:4000].split() if word.isalpha()] if turn else []
        hints = InputHints(find_recent_paths(request.messages), words[:40])
        content: list[dict[str, Any]] = []
        if has_thinking_enabled(request) and (step == 0 or choices.random() < 0.5):
            content.append({"type": "thinking", "thinking": _sentences(hints, choices, 3)})
        tools = _by_purpose(request.tools)
        plan = _plan(tools, random.Random(seeds))
        if step >= len(plan):
            content.append({"type": "text", "text": _sentences(hints, choices, choices.randint(3, 8))})
            return ModelOutput(tuple(content), "")
        if choices.random() < 0.6:
            content.append({"type": "text", "text": _sentences(hints, choices, 1)})
        offered = tools[plan[step]]
        parallel = plan[step] == "look" and choices.random() < 0.35
        for _ in range(choices.randint(2, MAX_PARALLEL) if parallel else 1):
            content.append(_call(choices.choice(offered), hints, choices) | {"id": new_id("toolu_", rng)})
        return ModelOutput(tuple(content), "tool_use")


def _turn_start(messages: Sequence[ParsedMessage]) -> int:
    prompts = (at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user")
    return next((at for at in prompts if extract_user_text(messages[at])), 0)


def _by_purpose(tools: Sequence[ParsedBlock]) -> dict[str, list[ParsedBlock]]:
    found: dict[str, list[ParsedBlock]] = {}
    for tool in tools:
        if not tool.body.get("defer_loading"):
            name = str(tool.body.get("name", "")).lower()
            fits = (purpose for purpose, parts in PURPOSES if any(part in name for part in parts))
            found.setdefault(next(fits, "other"), []).append(tool)
    return found


def _plan(tools: dict[str, list[ParsedBlock]], rng: random.Random) -> list[str]:
    looks = ["look"] * rng.randint(1, MAX_LOOKS) if "look" in tools else []
    return [*looks, *(purpose for purpose in ("other", "change", "check") if purpose in tools)]


def _call(tool: ParsedBlock, hints: InputHints, rng: random.Random) -> dict[str, Any]:
    kind = str(tool.body.get("type") or "custom")
    made = built_in_input(kind) if kind != "custom" else None
    made = generate_input(tool.body.get("input_schema") or {}, hints, rng) if made is None else made
    return {"type": "tool_use", "name": tool.body.get("name", ""), "input": made}


def _sentences(hints: InputHints, rng: random.Random, count: int) -> str:
    path = rng.choice(list(hints.paths)[-5:]) if hints.paths else "the project"
    word = rng.choice(list(hints.words)) if hints.words else "the request"
    return " ".join(each.format(path=path, word=word) for each in rng.sample(SENTENCES, count))
