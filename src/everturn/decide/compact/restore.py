"""What comes back beside the summary, found in the records alone (CP-13 to CP-17).

Only what the summary takes out of sight is brought back: what is still in the kept messages stays where it
is. What was restored by an earlier compaction is found in its attachments and restored again. Which todos,
plan and agents there are: `work.py`; how it is worded: `view/fragments/restored.py`.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from everturn.decide.compact.calls import Called, attached, by_name, called, is_one_of, strings, text
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Restoring
from everturn.decide.compact.work import agents_at_work, is_planning, plan_made, todo_list
from everturn.history.blocks import fields_of, parts_of, text_of
from everturn.history.edits import Compacted
from everturn.history.records import Record
from everturn.measure.accounting import path_read

FILE, SKILL, TOOLS, LISTING = "restored_file", "restored_skill", "restored_tools", "restored_listing"

# Announcements made as differences: attachment type, what was added and removed, the words for each, and the
# title under which all that holds is announced again.
_DELTAS: Final = (
    ("agent_listing_delta", "addedTypes", "removedTypes", "addedLines", "Agent types that can be started"),
    ("mcp_instructions_delta", "addedNames", "removedNames", "addedBlocks", "Instructions of MCP servers"),
)


def restoring(
    summarized: Sequence[Record],
    kept: Sequence[Record],
    settings: CompactSettings,
    *,
    hidden: Mapping[str, object] | None = None,
) -> Restoring:
    """`hidden` are the calls whose results the model no longer sees: their files are not visible."""
    read = _newest_first(summarized)
    files, skipped = _files(read, summarized, kept, settings, hidden or {})
    return Restoring(
        files=files,
        skipped=skipped,
        todos="" if todo_list(kept, settings) else todo_list((*summarized, *kept), settings),
        plan="" if plan_made(kept) else plan_made(summarized),
        skills=_skills(summarized, kept, settings),
        agents=agents_at_work((*summarized, *kept), settings),
        tools=_tools(summarized, kept),
        plan_mode=is_planning((*summarized, *kept)),
        listings=_listings(summarized, kept),
        discovered=_discovered((*summarized, *kept)),
        read=read,
    )


def _files(
    read: Sequence[str],
    summarized: Sequence[Record],
    kept: Sequence[Record],
    settings: CompactSettings,
    hidden: Mapping[str, object],
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The files to read again, most recently read first; and those that are not, with the reason."""
    visible = {_path(each) for each in _reads(kept) if each.call not in hidden}
    plan_file = {text(each.given.get("planFilePath")) for each in called(summarized, by_name("ExitPlanMode"))}
    chosen: list[str] = []
    skipped: list[tuple[str, str]] = []
    for path in read:
        if why := _not_restored(path, visible, plan_file, settings):
            skipped.append((path, why))
        elif len(chosen) < settings.files:
            chosen.append(path)
    return tuple(chosen), tuple(skipped)


def _newest_first(records: Sequence[Record]) -> tuple[str, ...]:
    before = [(each.at, text(each.payload.get("path"))) for each in attached(records, FILE)]
    reads = [(each.at, _path(each)) for each in _reads(records)]
    # An earlier compaction restored the most recent file first; calls of one message come in order.
    newest = [path for _, path in reversed(reads)] + [path for _, path in before]
    return tuple(dict.fromkeys(path for path in newest if path))


def _reads(records: Sequence[Record]) -> tuple[Called, ...]:
    """Reads that gave something: a file that could not be read then is not worth a try now."""
    reads = called(records, lambda block: bool(path_read(block)))
    return tuple(read for read in reads if read.result is not None and not read.failed)


def _path(read: Called) -> str:
    return next(
        (found for name in ("file_path", "path", "notebook_path") if (found := text(read.given.get(name)))),
        "",
    )


def _not_restored(path: str, visible: set[str], plan_file: set[str], settings: CompactSettings) -> str:
    name = path.replace("\\", "/").rpartition("/")[2]
    if any(fnmatchcase(name, pattern) for pattern in settings.memory_files):
        return "a memory file: it is in the system prompt"
    if path in plan_file or is_one_of(path, settings.plan_files):
        return "a plan file: the plan is restored whole"
    return "still visible in the kept messages" if path in visible else ""


class _Skill(msgspec.Struct, frozen=True):
    at: int
    name: str
    body: str


def _skills(
    summarized: Sequence[Record], kept: Sequence[Record], settings: CompactSettings
) -> tuple[tuple[str, str], ...]:
    """Invoked skills with their instructions, most recent first (CP-15)."""
    visible = {each.name for each in _invoked(kept, settings)}
    newest: dict[str, str] = {}
    for each in sorted(_invoked(summarized, settings), key=lambda skill: -skill.at):
        newest.setdefault(each.name, each.body)
    return tuple((name, body) for name, body in newest.items() if name not in visible)


def _invoked(records: Sequence[Record], settings: CompactSettings) -> list[_Skill]:
    found: list[_Skill] = []
    for number, each in enumerate(attached(records, SKILL)):
        # Restored most recent first: the order among them is the reverse of their places.
        found.append(_Skill(each.at - 2 * number, text(each.payload.get("name")), each.parts[-1]))
    for each in called(records, by_name(*settings.skill_tools)):
        name = text(each.given.get("skill")) or text(each.given.get("command"))
        if name and (body := _body_after(records, each)):
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


def _tools(summarized: Sequence[Record], kept: Sequence[Record]) -> tuple[str, ...]:
    """Deferred tools that were announced and are no longer: a difference to the kept messages (CP-17)."""
    announced = _announced_tools(summarized)
    said_again = _announced_tools(kept)
    gone = {
        name
        for each in attached(kept, "deferred_tools_delta")
        for name in strings(each.payload.get("removedNames"))
    }
    return tuple(name for name in announced if name not in said_again and name not in gone)


def _announced_tools(records: Sequence[Record]) -> dict[str, None]:
    names: dict[str, None] = {}
    for each in attached(records, "deferred_tools_delta", TOOLS):
        for name in strings(each.payload.get("addedNames")):
            names[name] = None
        for name in strings(each.payload.get("removedNames")):
            names.pop(name, None)
    return names


def _listings(
    summarized: Sequence[Record], kept: Sequence[Record]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for type_, added, removed, words, title in _DELTAS:
        lines: dict[str, str] = {}
        for each in attached(summarized, LISTING):
            if text(each.payload.get("title")) == title:
                lines |= {line: line for line in each.parts[1:]}
        for each in attached(summarized, type_):
            lines |= dict(
                zip(strings(each.payload.get(added)), strings(each.payload.get(words)), strict=False)
            )
            for name in strings(each.payload.get(removed)):
                lines.pop(name, None)
        said_again = {line for each in attached(kept, type_) for line in strings(each.payload.get(words))}
        if left := tuple(line for line in lines.values() if line not in said_again):
            found.append((title, left))
    return tuple(found)


def _discovered(records: Sequence[Record]) -> tuple[str, ...]:
    """Tools that a search has loaded: the request must go on defining them (TR-4)."""
    names: dict[str, None] = {}
    for record in records:
        if isinstance(record.edit, Compacted):
            names |= dict.fromkeys(record.edit.discovered_tools)
        for block in record.blocks:
            if block.is_result and b"tool_reference" in block.raw:
                named = (fields_of(part) for part in parts_of(block) if part.kind == "tool_reference")
                names |= dict.fromkeys(text(each.get("tool_name")) for each in named)
    return tuple(name for name in names if name)
