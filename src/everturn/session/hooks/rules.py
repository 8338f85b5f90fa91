"""What a hook of each event may say, and how what it said is read (HK-1 to HK-3).

One row per event: nothing else in this room knows one event from another. Fields are spelled as Claude Code
spells them; what an event has no use for is reported, not silently dropped.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from everturn.decide.effects import HookEvent, HookOutcome, HookPermission

# Where words that a hook prints without a name for them go.
OutputTarget = Literal["instructions", "context", "nowhere"]


class HookRule(msgspec.Struct, frozen=True, kw_only=True):
    # The field of the payload that a matcher is compared with; empty where every hook of the event runs.
    matches: str = ""
    can_block: bool = False
    # Fields of `hookSpecificOutput` that only some events have a use for.
    takes: tuple[str, ...] = ()
    # Whether "continue": false ends the loop, instead of what is about to happen.
    ends: bool = False
    words: OutputTarget = "nowhere"
    # Seconds, where the hook sets no limit of its own (ecosystem 2.3).
    seconds: float = 600


HOOK_RULES: Final[Mapping[HookEvent, HookRule]] = {
    "PreCompact": HookRule(matches="trigger", can_block=True, words="instructions"),
    "PostCompact": HookRule(matches="trigger", words="context"),
    "SessionStart": HookRule(matches="source", words="context"),
    "SessionEnd": HookRule(matches="reason", seconds=1.5),
    "UserPromptSubmit": HookRule(can_block=True, words="context", seconds=30),
    "PreToolUse": HookRule(
        matches="tool_name", can_block=True, takes=("permissionDecision", "updatedInput"), ends=True
    ),
    "PostToolUse": HookRule(
        matches="tool_name", can_block=True, words="context", takes=("updatedToolOutput",), ends=True
    ),
    "Stop": HookRule(can_block=True, ends=True),
}

# Longer texts are cut; what a hook says is read by a model that pays for every word (ecosystem 2.3).
MAX_CHARACTERS: Final = 10_000
# How a hook names what it wants to be done with its words.
_NAMED: Final[Mapping[str, OutputTarget]] = {
    "customInstructions": "instructions",
    "additionalContext": "context",
}


_STRICTEST_FIRST: Final[tuple[HookPermission, ...]] = ("deny", "ask", "allow")
_ONLY_SOME: Final = ("permissionDecision", "updatedInput", "updatedToolOutput")


class HookOutput(msgspec.Struct, frozen=True):
    """What one hook said, whichever way it ran."""

    output: str | Mapping[str, Any] = ""
    # Set where a command ended with the code that blocks: what it wrote to standard error.
    blocks: str | None = None
    problems: tuple[str, ...] = ()


def read_outcome(event: HookEvent, name: str, said: HookOutput) -> HookOutcome:
    """One hook's words as an outcome. `name` is how its problems are told apart from others'."""
    rule, found = HOOK_RULES[event], _OutcomeBuilder(name)
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
        permission=found.permission,
        asks=found.asks,
        updated_input=found.updated_input,
        updated_output=found.updated_output,
        ended=found.ended,
    )


def merge_outcomes(outcomes: list[HookOutcome]) -> HookOutcome:
    """All hooks of an event, in the order in which they stand. The first reason is the reason, and the first
    new input or output is the one: they ran side by side, so none has seen another's. Of permissions the
    strictest counts."""
    said = {each.permission for each in outcomes}
    permissions: list[HookPermission] = [each for each in _STRICTEST_FIRST if each in said]
    return HookOutcome(
        instructions=tuple(text for each in outcomes for text in each.instructions),
        context=tuple(text for each in outcomes for text in each.context),
        messages=tuple(text for each in outcomes for text in each.messages),
        problems=tuple(text for each in outcomes for text in each.problems),
        blocked=next((each.blocked for each in outcomes if each.blocked), ""),
        permission=permissions[0] if permissions else "",
        asks=next((each.asks for each in outcomes if each.asks), ""),
        updated_input=next((each.updated_input for each in outcomes if each.updated_input is not None), None),
        updated_output=next((o.updated_output for o in outcomes if o.updated_output is not None), None),
        ended=next((each.ended for each in outcomes if each.ended), ""),
    )


class _OutcomeBuilder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: dict[OutputTarget, list[str]] = {"instructions": [], "context": [], "nowhere": []}
        self.messages: list[str] = []
        self.problems: list[str] = []
        self.blocked = ""
        self.permission: HookPermission = ""
        self.asks = ""
        self.updated_input: Mapping[str, Any] | None = None
        self.updated_output: Any = None
        self.ended = ""

    def add(self, goes: OutputTarget, text: str, rule: HookRule) -> None:
        if not text.strip():
            return
        # A hook that prints something though nobody asked for it is not broken: shells are talkative.
        if goes == rule.words:
            self.texts[goes].append(self.short(text.strip()))
        else:
            self.problems.append(f"words for {goes} are not used here; they were left out")

    def block(self, rule: HookRule, why: str) -> None:
        if not rule.can_block:
            self.problems.append("it cannot block here; what it asked for was done all the same")
            return
        self.blocked = self.short(why.strip()) or f"blocked by hook {self.name}, which gave no reason"

    def short(self, text: str) -> str:
        if len(text) <= MAX_CHARACTERS:
            return text
        self.problems.append(f"{len(text):,} characters were cut to {MAX_CHARACTERS:,}")
        return text[:MAX_CHARACTERS]


def _read(event: HookEvent, rule: HookRule, output: Mapping[str, Any], found: _OutcomeBuilder) -> None:
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


def _read_decision(
    rule: HookRule, output: Mapping[str, Any], specific: Mapping[str, Any], found: _OutcomeBuilder
) -> None:
    if output.get("decision") in ("block", "deny"):
        found.block(rule, _text(output, "reason", found))
    elif output.get("continue") is False and rule.ends:
        found.ended = found.short(_text(output, "stopReason", found)) or f"ended by hook {found.name}"
    elif output.get("continue") is False:
        found.block(rule, _text(output, "stopReason", found))
    for field in _ONLY_SOME:
        if field in specific and field not in rule.takes:
            found.problems.append(f"{field} is not used here; it was left out")
    if "permissionDecision" in rule.takes:
        _read_permission(rule, specific, found)
    if "updatedToolOutput" in rule.takes:
        found.updated_output = specific.get("updatedToolOutput")


def _read_permission(rule: HookRule, specific: Mapping[str, Any], found: _OutcomeBuilder) -> None:
    said, why = specific.get("permissionDecision"), _text(specific, "permissionDecisionReason", found)
    if said is not None and said not in _STRICTEST_FIRST:
        found.problems.append(f"permissionDecision is {said!r}; allowed are {', '.join(_STRICTEST_FIRST)}")
        said = None
    if said == "deny":
        found.block(rule, why)
    if said == "ask":
        found.asks = found.short(why) or f"hook {found.name} wants a person to decide"
    found.permission = said or ""
    given = specific.get("updatedInput")
    if given is not None and not isinstance(given, Mapping):
        found.problems.append(f"updatedInput is {_kind(given)}, not an object; it was left out")
        given = None
    found.updated_input = given


def _text(fields: Mapping[str, Any], name: str, found: _OutcomeBuilder) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    found.problems.append(f"{name} is {_kind(value)}, not a text; it was left out")
    return ""


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"
