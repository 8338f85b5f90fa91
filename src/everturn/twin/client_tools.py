"""The tools that a client offers over a folder, and calls of them (TW-8).

What a tool does is in `measure/tool_table.py`. Files are found and searched with Glob and Grep if the client
has them, otherwise with shell commands. Every command that is made here only reads.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolPurpose, ToolRow
from everturn.twin.values import ParsedBlock
from everturn.wire.json_values import as_object

# Limits for the output of shell commands.
_MAX_FOUND: Final = 200
_MAX_MATCHES: Final = 20
_MAX_LINES: Final = 2_000
# Lines of a result that are not paths: notes of clients, and errors of find and grep.
_NOTES: Final = ("[", "(", "find: ", "grep: ", "No file", "Nothing matches", "Found ", "No matches")
_NUMBERED_LINE: Final = re.compile(r"^ *(\d+)[\t→](.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlannedToolCall:
    """One tool call to make."""

    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObservedResult:
    """The result of a tool call."""

    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool whose purpose and inputs are known: its name, its row, and the field for the path."""

    name: str
    row: ToolRow
    path: str = ""


@dataclass(frozen=True, slots=True)
class ClientTools:
    """The offered tools by what they are used for; None if the client has no such tool."""

    names: frozenset[str]
    # The inputs of Grep: not every client's has all of them.
    grep_inputs: frozenset[str] = frozenset()
    reader: OfferedTool | None = None
    runner: OfferedTool | None = None
    editor: OfferedTool | None = None
    writer: OfferedTool | None = None

    @property
    def can_look(self) -> bool:
        """Whether files can be found, searched and read."""
        return self.runner is not None or (self.reader is not None and {"Glob", "Grep"} <= self.names)

    def read(self, path: str) -> PlannedToolCall:
        if self.reader is not None:
            return PlannedToolCall(self.reader.name, {self.reader.path: path})
        return self.run(f"cat -n -- {shlex.quote(path)} | head -n {_MAX_LINES}")

    def find(self, pattern: str = "**/*") -> PlannedToolCall:
        """Find files by a path or a name: `**/*`, `**/name` or `folder/name`."""
        if "Glob" in self.names:
            return PlannedToolCall("Glob", {"pattern": pattern})
        name = pattern.removeprefix("**/")
        wanted = "" if name == "*" else f" -path {shlex.quote(f'*/{name}')}"
        return self.run(f"find . -type f -not -path '*/.*'{wanted} | head -n {_MAX_FOUND}")

    def find_at_root(self, names: Sequence[str]) -> PlannedToolCall:
        """Which of these files are in the folder itself."""
        if "Glob" in self.names:
            return PlannedToolCall("Glob", {"pattern": "{" + ",".join(names) + "}"})
        wanted = " -o ".join(f"-name {shlex.quote(name)}" for name in names)
        return self.run(f"find . -maxdepth 1 -type f \\( {wanted} \\)")

    def search(self, text: str, *, ignores_case: bool = False) -> PlannedToolCall:
        """The files that contain a text."""
        if "Grep" in self.names:
            limits = (
                {"-i": True, "head_limit": _MAX_MATCHES} if ignores_case else {"head_limit": _MAX_MATCHES}
            )
            known = {name: value for name, value in limits.items() if name in self.grep_inputs}
            return PlannedToolCall("Grep", {"pattern": re.escape(text)} | known)
        options = "-rIlFi" if ignores_case else "-rIlF"
        skipped = "--exclude-dir='.?*' --exclude-dir=node_modules"
        return self.run(f"grep {options} {skipped} -e {shlex.quote(text)} . | head -n {_MAX_MATCHES}")

    def run(self, command: str) -> PlannedToolCall:
        assert self.runner is not None
        return PlannedToolCall(self.runner.name, {"command": command})

    def edit(self, path: str, old: str, new: str, *, every: bool = False) -> PlannedToolCall:
        assert self.editor is not None
        assert self.editor.row.replaces is not None
        fields = self.editor.row.replaces
        all_of_them = {fields.all: True} if every and fields.all else {}
        return PlannedToolCall(
            self.editor.name, {self.editor.path: path, fields.old: old, fields.new: new} | all_of_them
        )

    def write(self, path: str, content: str) -> PlannedToolCall:
        assert self.writer is not None
        return PlannedToolCall(self.writer.name, {self.writer.path: path, "content": content})


def find_client_tools(tools: Sequence[ParsedBlock]) -> ClientTools:
    """The tools of a request with known names and inputs."""
    return ClientTools(
        names=frozenset(str(tool.body.get("name")) for tool in tools),
        grep_inputs=frozenset[str]().union(
            *(_input_fields(tool) for tool in tools if tool.body.get("name") == "Grep")
        ),
        reader=_first(tools, "reads"),
        runner=_first(tools, "runs", needs=("command",), has_path=False),
        editor=_first(tools, "edits"),
        writer=_first(tools, "writes", needs=("content",)),
    )


def _first(
    tools: Sequence[ParsedBlock], does: ToolPurpose, *, needs: Sequence[str] = (), has_path: bool = True
) -> OfferedTool | None:
    """The first tool with this purpose whose inputs are those of the table."""
    for tool in tools:
        name = str(tool.body.get("name"))
        row = DEFAULT_TOOL_TABLE.find(name)
        fields = _input_fields(tool)
        replaced = (row.replaces.old, row.replaces.new) if row.replaces and does == "edits" else ()
        if row.does != does or (does == "edits" and not replaced):
            continue
        path = next((field for field in row.path if field in fields), "")
        if (path or not has_path) and fields.issuperset((*needs, *replaced)):
            return OfferedTool(name, row, path)
    return None


def _input_fields(tool: ParsedBlock) -> frozenset[str]:
    if str(tool.body.get("type") or "custom").startswith("bash_"):
        return frozenset(("command",))
    properties = as_object(as_object(tool.body.get("input_schema")).get("properties"))
    # Some agents run a list of words instead of a command line.
    return frozenset(name for name, schema in properties.items() if as_object(schema).get("type") != "array")


def parse_file_list(seen: ObservedResult) -> list[str]:
    """The paths in a result, one per line.

    A file name can hold a line break and then look like several paths. find and grep print "./" before each
    path, so lines without it are not paths of theirs; and nothing that they find lies above the folder.
    """
    if seen.failed:
        return []
    lines = [line.strip() for line in seen.text.split("\n")]
    paths = [line for line in lines if line and not line.startswith(_NOTES)]
    if any(path.startswith("./") for path in paths):
        paths = [path.removeprefix("./") for path in paths if path.startswith("./")]
    return [path for path in paths if ".." not in path.split("/")]


def parse_numbered_lines(shown: ObservedResult) -> list[tuple[str, str]]:
    """The lines of a file with their numbers. Some clients number an empty line after the last one."""
    found: list[tuple[str, str]] = _NUMBERED_LINE.findall(shown.text)
    return found[:-1] if len(found) > 1 and not found[-1][1] else found
