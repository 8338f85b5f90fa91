"""The rules of each hook event: which output a hook may return, and how it is read (HK-1 to HK-3).

`HOOK_RULES` has one row per event; no other module here treats events differently. Fields have the names of
Claude Code. Output that an event does not use is reported, not silently dropped.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from everturn.decide.effects import HookEvent, HookOutcome, HookPermission
from everturn.session.valid_text import make_encodable, replace_lone_surrogates
from everturn.wire.json_values import as_mapping

# What plain text output of a hook is used for.
OutputTarget = Literal["instructions", "context", "nowhere"]


class HookRule(msgspec.Struct, frozen=True, kw_only=True):
    # The payload field that a matcher is compared with; empty if the event has no matchers.
    matches: str = ""
    can_block: bool = False
    # Fields of `hookSpecificOutput` that this event uses, of those in `_ONLY_SOME`.
    takes: tuple[str, ...] = ()
    # Whether "continue": false ends the tool loop; otherwise it blocks the action.
    ends: bool = False
    words: OutputTarget = "nowhere"
    # Default timeout in seconds (ecosystem 2.3).
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
    # Only the chat runs these (HK-4): a session alone has no sub-agents and no permission requests, and does
    # not report memory files.
    "SubagentStart": HookRule(matches="agent_type", words="context"),
    "SubagentStop": HookRule(matches="agent_type", can_block=True, ends=True),
    "PermissionRequest": HookRule(matches="tool_name", can_block=True, takes=("decision",)),
    "InstructionsLoaded": HookRule(matches="load_reason"),
}

# Longer texts are cut, because they become part of the context (ecosystem 2.3).
MAX_CHARACTERS: Final = 10_000
# Output fields with a text, and what the text is used for.
_NAMED: Final[Mapping[str, OutputTarget]] = {
    "customInstructions": "instructions",
    "additionalContext": "context",
}


_STRICTEST_FIRST: Final[tuple[HookPermission, ...]] = ("deny", "ask", "allow")
_ONLY_SOME: Final = ("permissionDecision", "updatedInput", "updatedToolOutput", "decision")


class HookOutput(msgspec.Struct, frozen=True):
    """The output of one hook, from a command or a callback."""

    output: str | Mapping[str, Any] = ""
    # Set if a command exited with the blocking code: its standard error.
    blocks: str | None = None
    problems: tuple[str, ...] = ()


def read_outcome(event: HookEvent, name: str, returned: HookOutput) -> HookOutcome:
    """The outcome of one hook's output. `name` identifies the hook in its problems."""
    rule, found = HOOK_RULES[event], _OutcomeBuilder(name)
    found.problems.extend(returned.problems)
    output: str | Mapping[str, Any] = make_encodable(returned.output)
    if isinstance(output, str):
        found.add(rule.words, output, rule)
    else:
        _read(event, rule, output, found)
    if returned.blocks is not None:
        found.block(rule, replace_lone_surrogates(returned.blocks))
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
    """Merge the outcomes of an event's hooks, in their order. The first reason and the first updated input or
    output win: hooks run in parallel, so none sees another's result. The strictest permission wins."""
    given = {each.permission for each in outcomes}
    permissions: list[HookPermission] = [each for each in _STRICTEST_FIRST if each in given]
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

    def add(self, target: OutputTarget, text: str, rule: HookRule) -> None:
        if not text.strip():
            return
        # Plain output has the target of the rule, so unused output ("nowhere") is not a problem.
        if target == rule.words:
            self.texts[target].append(self.short(text.strip()))
        else:
            self.problems.append(f"text for {target} is not used by this event; it was ignored")

    def block(self, rule: HookRule, why: str) -> None:
        if not rule.can_block:
            self.problems.append("this event cannot be blocked; the request to block was ignored")
            return
        self.blocked = self.short(why.strip()) or f"blocked by hook {self.name}, which gave no reason"

    def short(self, text: str) -> str:
        if len(text) <= MAX_CHARACTERS:
            return text
        self.problems.append(f"{len(text):,} characters were cut to {MAX_CHARACTERS:,}")
        return text[:MAX_CHARACTERS]


def _read(event: HookEvent, rule: HookRule, output: Mapping[str, Any], found: _OutcomeBuilder) -> None:
    given = output.get("hookSpecificOutput")
    specific: Mapping[str, Any] = as_mapping(given) or {}
    if given and not isinstance(given, Mapping):
        found.problems.append(f"hookSpecificOutput is {_kind(given)}, not an object")
    named = specific.get("hookEventName", event)
    if named != event:
        found.problems.append(f"hookEventName is {named!r}, but the event is {event}; that part was ignored")
        specific = {}
    for field, target in _NAMED.items():
        found.add(target, _text(specific, field, found), rule)
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
            found.problems.append(f"{field} is not used by this event; it was ignored")
    if "permissionDecision" in rule.takes:
        _read_permission(rule, specific, found)
    if "decision" in rule.takes and specific.get("decision") is not None:
        _read_request_decision(rule, specific["decision"], found)
    if "updatedToolOutput" in rule.takes:
        found.updated_output = specific.get("updatedToolOutput")


def _read_permission(rule: HookRule, specific: Mapping[str, Any], found: _OutcomeBuilder) -> None:
    decision, why = specific.get("permissionDecision"), _text(specific, "permissionDecisionReason", found)
    if decision is not None and decision not in _STRICTEST_FIRST:
        allowed = ", ".join(_STRICTEST_FIRST)
        found.problems.append(f"permissionDecision is {decision!r}; allowed are {allowed}")
        decision = None
    if decision == "deny":
        found.block(rule, why)
    if decision == "ask":
        found.asks = found.short(why) or f"hook {found.name} requires a person to confirm this call"
    found.permission = decision or ""
    given = specific.get("updatedInput")
    if given is not None and not isinstance(given, Mapping):
        found.problems.append(f"updatedInput is {_kind(given)}, not an object; it was ignored")
        given = None
    found.updated_input = given


def _read_request_decision(rule: HookRule, decision: object, found: _OutcomeBuilder) -> None:
    """Read the decision of a PermissionRequest hook: `{"behavior": "allow"}`, or "deny" with a `message`."""
    fields = as_mapping(decision) or {}
    match fields.get("behavior"):
        case "allow":
            found.permission = "allow"
        case "deny":
            found.permission = "deny"
            found.block(rule, _text(fields, "message", found))
        case other:
            found.problems.append(f"decision.behavior is {other!r}; allowed are allow, deny")


def _text(fields: Mapping[str, Any], name: str, found: _OutcomeBuilder) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    found.problems.append(f"{name} is {_kind(value)}, not a text; it was ignored")
    return ""


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"
