"""What comes back beside the summary, found in the records alone (CP-13 to CP-17).

Only what the summary takes out of sight is brought back: what is still in the kept messages stays where it
is. What was restored by an earlier compaction is found in its attachments and restored again. Which todos,
plan and agents there are: `work.py`; how it is worded: `view/fragments/restored.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from everturn.decide.compact.call_index import (
    Called,
    CallIndex,
    index_calls,
    is_one_of,
    parts_inside,
    strings,
    text,
)
from everturn.decide.compact.exchanges import choose_exchanges
from everturn.decide.compact.outline import FileOutline, outline_files
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import RestorationPlan, RestoredExchange
from everturn.decide.compact.work import agents_at_work, is_planning, plan_made, todo_list
from everturn.decide.economy.keeping import KeepRule
from everturn.history.blocks import fields_of, text_of
from everturn.history.edits import Compacted
from everturn.history.records import Record
from everturn.measure.accounting import is_unchanged_note
from everturn.measure.tokens import ROUGH
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable

FILE, SKILL, TOOLS, LISTING = "restored_file", "restored_skill", "restored_tools", "restored_listing"

# Announcements made as differences: attachment type, what was added and removed, the words for each, and the
# title under which all that holds is announced again.
_DELTAS: Final = (
    ("agent_listing_delta", "addedTypes", "removedTypes", "addedLines", "Agent types that can be started"),
    ("mcp_instructions_delta", "addedNames", "removedNames", "addedBlocks", "Instructions of MCP servers"),
)


def plan_restoration(
    summarized: Sequence[Record],
    kept: Sequence[Record],
    settings: CompactSettings,
    *,
    hidden: Mapping[str, object] | None = None,
    transcript: str = "",
    tools: ToolTable = DEFAULT_TOOL_TABLE,
    keep: KeepRule | None = None,
    estimate: Callable[[str], int] = ROUGH.text,
) -> RestorationPlan:
    """`hidden` are the calls whose results the model no longer sees: their files are not visible. The
    transcript, and files beside it that begin with its name, are what was just summarized."""
    tools = settings.add_tools(tools)
    gone, stays = index_calls(summarized, tools), index_calls(kept, tools)
    every = index_calls((*summarized, *kept), tools) if kept else gone
    read = _newest_first(gone)
    files, skipped = _files(read, gone, stays, settings, hidden or {}, transcript)
    exchanges: tuple[RestoredExchange, ...] = ()
    outline = FileOutline()
    if keep is not None:
        files, exchanges = (), choose_exchanges(gone, keep, estimate, hidden or {})
        outline = outline_files(gone, estimate, keep.outline)
    return RestorationPlan(
        files=files,
        skipped=skipped,
        todos="" if todo_list(stays) else todo_list(every),
        plan="" if plan_made(stays) else plan_made(gone),
        skills=_skills(gone, stays),
        agents=agents_at_work(every),
        tools=_tools(gone, stays),
        plan_mode=is_planning(every),
        listings=_listings(gone, stays),
        discovered=_discovered(every),
        read=read,
        exchanges=exchanges,
        outline=outline,
    )


def _files(
    read: Sequence[str],
    gone: CallIndex,
    stays: CallIndex,
    settings: CompactSettings,
    hidden: Mapping[str, object],
    transcript: str,
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The files to read again, most recently read first; and those that are not, with the reason."""
    visible = {
        path for path, each in stays.file_reads() if each.block.call not in hidden and _gave_file(each)
    }
    plan_file = {text(each.given.get("planFilePath")) for each in gone.called("presents_plan")}
    chosen: list[str] = []
    skipped: list[tuple[str, str]] = []
    for path in read:
        if why := _not_restored(path, visible, plan_file, settings) or _own(path, transcript):
            skipped.append((path, why))
        elif len(chosen) < settings.files:
            chosen.append(path)
    return tuple(chosen), tuple(skipped)


def _newest_first(gone: CallIndex) -> tuple[str, ...]:
    newest: dict[str, None] = {}
    # Calls of one message come in order.
    for path, each in reversed(gone.file_reads()):
        # Looking for an error costs the length of the result: only where the path is not known yet.
        if path not in newest and _gave_file(each):
            newest[path] = None
    # An earlier compaction restored the most recent file first.
    before = (text(each.payload.get("path")) for each in gone.attached(FILE))
    return tuple(newest | dict.fromkeys(path for path in before if path))


def _gave_file(read: Called) -> bool:
    """A file that could not be read then is not worth a try now, and a note that it has not changed since an
    earlier read does not show it (MC-18)."""
    result = read.result
    return result is not None and not read.failed and not is_unchanged_note(result)


def _not_restored(path: str, visible: set[str], plan_file: set[str], settings: CompactSettings) -> str:
    name = path.replace("\\", "/").rpartition("/")[2]
    if any(fnmatchcase(name, pattern) for pattern in settings.memory_files):
        return "a memory file: it is in the system prompt"
    if path in plan_file or is_one_of(path, settings.plan_files):
        return "a plan file: the plan is restored whole"
    return "still visible in the kept messages" if path in visible else ""


def _own(path: str, transcript: str) -> str:
    is_own = bool(transcript) and (
        path == transcript or path.startswith((f"{transcript}.", f"{transcript}/"))
    )
    return "the session's own: a recall finds what is in it" if is_own else ""


class _Skill(msgspec.Struct, frozen=True):
    at: int
    name: str
    body: str


def _skills(gone: CallIndex, stays: CallIndex) -> tuple[tuple[str, str], ...]:
    """Invoked skills with their instructions, most recent first (CP-15)."""
    visible = {each.name for each in _invoked(stays)}
    newest: dict[str, str] = {}
    for each in sorted(_invoked(gone), key=lambda skill: -skill.at):
        newest.setdefault(each.name, each.body)
    return tuple((name, body) for name, body in newest.items() if name not in visible)


def _invoked(seen: CallIndex) -> list[_Skill]:
    found: list[_Skill] = []
    for number, each in enumerate(seen.attached(SKILL)):
        # Restored most recent first: the order among them is the reverse of their places.
        found.append(_Skill(each.at - 2 * number, text(each.payload.get("name")), each.parts[-1]))
    for each in seen.called("uses_skill"):
        name = text(each.given.get("skill")) or text(each.given.get("command"))
        if name and (body := _body_after(seen.records, each)):
            found.append(_Skill(each.at, name, body))
    return found


def _body_after(records: Sequence[Record], invoked: Called) -> str:
    """A skill's instructions: what the program put behind the call, before anyone spoke again."""
    for record in records[invoked.at + 1 :]:
        if record.kind == "assistant" or (record.kind == "user" and not record.meta and _words(record)):
            return ""
        if record.kind == "user" and record.meta and (words := _words(record)):
            return words
    return ""


def _words(record: Record) -> str:
    return "\n".join(text_of(block) for block in record.blocks if block.kind == "text").strip()


def _tools(gone: CallIndex, stays: CallIndex) -> tuple[str, ...]:
    """Deferred tools that were announced and are no longer: a difference to the kept messages (CP-17)."""
    announced = _announced_tools(gone)
    said_again = _announced_tools(stays)
    removed = {
        name
        for each in stays.attached("deferred_tools_delta")
        for name in strings(each.payload.get("removedNames"))
    }
    return tuple(name for name in announced if name not in said_again and name not in removed)


def _announced_tools(seen: CallIndex) -> dict[str, None]:
    names: dict[str, None] = {}
    for each in seen.attached("deferred_tools_delta", TOOLS):
        for name in strings(each.payload.get("addedNames")):
            names[name] = None
        for name in strings(each.payload.get("removedNames")):
            names.pop(name, None)
    return names


def _listings(gone: CallIndex, stays: CallIndex) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for type_, added, removed, words, title in _DELTAS:
        lines: dict[str, str] = {}
        for each in gone.attached(LISTING):
            if text(each.payload.get("title")) == title:
                lines |= {line: line for line in each.parts[1:]}
        for each in gone.attached(type_):
            lines |= dict(
                zip(strings(each.payload.get(added)), strings(each.payload.get(words)), strict=False)
            )
            for name in strings(each.payload.get(removed)):
                lines.pop(name, None)
        said_again = {line for each in stays.attached(type_) for line in strings(each.payload.get(words))}
        if left := tuple(line for line in lines.values() if line not in said_again):
            found.append((title, left))
    return tuple(found)


def _discovered(seen: CallIndex) -> tuple[str, ...]:
    """Tools that a search has loaded: the request must go on defining them (TR-4)."""
    names: dict[str, None] = {}
    for each in seen.loaders:
        if isinstance(each, Compacted):
            names |= dict.fromkeys(each.discovered_tools)
        else:
            found = parts_inside(each, "tool_reference")
            names |= dict.fromkeys(text(fields_of(part).get("tool_name")) for part in found)
    return tuple(name for name in names if name)
