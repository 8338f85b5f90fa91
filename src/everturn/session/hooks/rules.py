"""What a hook of each event may say, and how what it said is read (HK-1 to HK-3).

One row per event: nothing else in this room knows one event from another. Fields are spelled as Claude Code
spells them; what an event has no use for is reported, not silently dropped.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from everturn.decide.effects import HookEvent, HookOutcome

# Where words that a hook prints without a name for them go.
Goes = Literal["instructions", "context", "nowhere"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    # The field of the payload that a matcher is compared with; empty where every hook of the event runs.
    matches: str = ""
    can_block: bool = False
    words: Goes = "nowhere"
    # Seconds, where the hook sets no limit of its own (ecosystem 2.3).
    seconds: float = 600


RULES: Final[Mapping[HookEvent, Rule]] = {
    "PreCompact": Rule(matches="trigger", can_block=True, words="instructions"),
    "PostCompact": Rule(matches="trigger", words="context"),
    "SessionStart": Rule(matches="source", words="context"),
    "SessionEnd": Rule(matches="reason", seconds=1.5),
    "UserPromptSubmit": Rule(can_block=True, words="context", seconds=30),
    "PreToolUse": Rule(matches="tool_name", can_block=True),
    "PostToolUse": Rule(matches="tool_name", can_block=True, words="context"),
    "Stop": Rule(can_block=True),
}

# Longer texts are cut; what a hook says is read by a model that pays for every word (ecosystem 2.3).
MOST_CHARACTERS: Final = 10_000
# How a hook names what it wants to be done with its words.
_NAMED: Final[Mapping[str, Goes]] = {"customInstructions": "instructions", "additionalContext": "context"}


class Said(msgspec.Struct, frozen=True):
    """What one hook said, whichever way it ran."""

    output: str | Mapping[str, Any] = ""
    # Set where a command ended with the code that blocks: what it wrote to standard error.
    blocks: str | None = None
    problems: tuple[str, ...] = ()


def outcome(event: HookEvent, name: str, said: Said) -> HookOutcome:
    """One hook's words as an outcome. `name` is how its problems are told apart from others'."""
    rule, found = RULES[event], _Found(name)
    found.problems.extend(said.problems)
    if isinstance(said.output, str):
        found.add(rule.words, said.output, rule)
    else:
        _read(event, rule, said.output, found)
    if said.blocks is not None:
        found.block(rule, said.blocks)
    return HookOutcome(
        instructions=tuple(found.texts["instructions"]),
        context=tuple(found.texts["context"]),
        messages=tuple(found.messages),
        problems=tuple(f"hook {name}: {problem}" for problem in found.problems),
        blocked=found.blocked,
    )


def together(outcomes: list[HookOutcome]) -> HookOutcome:
    """All hooks of an event, in the order in which they stand; the first reason to block is the reason."""
    return HookOutcome(
        instructions=tuple(text for each in outcomes for text in each.instructions),
        context=tuple(text for each in outcomes for text in each.context),
        messages=tuple(text for each in outcomes for text in each.messages),
        problems=tuple(text for each in outcomes for text in each.problems),
        blocked=next((each.blocked for each in outcomes if each.blocked), ""),
    )


class _Found:
    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: dict[Goes, list[str]] = {"instructions": [], "context": [], "nowhere": []}
        self.messages: list[str] = []
        self.problems: list[str] = []
        self.blocked = ""

    def add(self, goes: Goes, text: str, rule: Rule) -> None:
        if not text.strip():
            return
        # A hook that prints something though nobody asked for it is not broken: shells are talkative.
        if goes == rule.words:
            self.texts[goes].append(self.short(text.strip()))
        else:
            self.problems.append(f"words for {goes} are not used here; they were left out")

    def block(self, rule: Rule, why: str) -> None:
        if not rule.can_block:
            self.problems.append("it cannot block here; what it asked for was done all the same")
            return
        self.blocked = self.short(why.strip()) or f"blocked by hook {self.name}, which gave no reason"

    def short(self, text: str) -> str:
        if len(text) <= MOST_CHARACTERS:
            return text
        self.problems.append(f"{len(text):,} characters were cut to {MOST_CHARACTERS:,}")
        return text[:MOST_CHARACTERS]


def _read(event: HookEvent, rule: Rule, output: Mapping[str, Any], found: _Found) -> None:
    specific = output.get("hookSpecificOutput") or {}
    if not isinstance(specific, Mapping):
        found.problems.append(f"hookSpecificOutput is {_kind(specific)}, not an object")
        specific = {}
    named = specific.get("hookEventName", event)
    if named != event:
        found.problems.append(f"it answered for {named!r}, but {event} was asked; that part was left out")
        specific = {}
    for field, goes in _NAMED.items():
        found.add(goes, _text(specific, field, found), rule)
    if message := _text(output, "systemMessage", found).strip():
        found.messages.append(found.short(message))
    _read_decision(rule, output, specific, found)


def _read_decision(rule: Rule, output: Mapping[str, Any], specific: Mapping[str, Any], found: _Found) -> None:
    if output.get("decision") in ("block", "deny"):
        found.block(rule, _text(output, "reason", found))
    elif specific.get("permissionDecision") == "deny":
        found.block(rule, _text(specific, "permissionDecisionReason", found))
    elif output.get("continue") is False:
        found.block(rule, _text(output, "stopReason", found))


def _text(fields: Mapping[str, Any], name: str, found: _Found) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    found.problems.append(f"{name} is {_kind(value)}, not a text; it was left out")
    return ""


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"
