"""Inputs and results of the tools, consistent with the files of the project.

A `SyntheticToolCall` is one call with its result. Making an Edit or Write changes the project at once, so
calls are made in the order in which they run. How a call becomes lines: `../transcript_writer.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from string import Template
from typing import Any

from everturn.replay.synthetic.workspace.images import Picture
from everturn.replay.synthetic.workspace.project import (
    CASES,
    AppliedEdit,
    FunctionLocation,
    Project,
    language_of,
    path_of_test,
)

CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class SyntheticReply:
    """One reply of the model: its thinking, text and tool calls. Several calls run in parallel."""

    thinking: str = ""
    text: str = ""
    steps: tuple["SyntheticToolCall", ...] = ()


@dataclass(frozen=True, slots=True)
class SyntheticToolCall:
    """One tool call with its result. `display` is the terminal's copy (`toolUseResult`), which the model
    never sees.
    """

    tool: str
    input: dict[str, Any]
    content: str | list[dict[str, Any]]
    display: Any
    is_error: bool = False
    seconds: float = 0.4
    path: str = ""
    agent: tuple[SyntheticReply, ...] = ()


def read(project: Project, path: str, *, lines: int) -> SyntheticToolCall:
    """The first `lines` lines of a file, numbered as in Claude Code."""
    every = project.files[path].splitlines()
    shown = every[:lines]
    asked: dict[str, Any] = {"file_path": path}
    if len(shown) < len(every):
        asked |= {"limit": len(shown)}
    numbered = "\n".join(f"{number:>6}→{line}" for number, line in enumerate(shown, start=1))
    file = {"filePath": path, "content": "\n".join(shown), "numLines": len(shown)}
    display = {"type": "text", "file": file | {"startLine": 1, "totalLines": len(every)}}
    return SyntheticToolCall("Read", asked, numbered, display, path=path)


def edit(project: Project, path: str, *, shown: int) -> SyntheticToolCall:
    change = project.change(path, shown=shown)
    asked = {"replace_all": False, "file_path": path, "old_string": change.old, "new_string": change.new}
    display = {
        "filePath": path, "oldString": change.old, "newString": change.new, "originalFile": change.before,
        "structuredPatch": [_patch(change)], "userModified": False, "replaceAll": False,
    }  # fmt: skip
    return SyntheticToolCall(
        "Edit", asked, f"The file {path} has been updated successfully.", display, path=path
    )


def edit_that_misses(project: Project, path: str) -> SyntheticToolCall:
    """A failing edit: the text it looks for is not in the file, and nothing changes."""
    place = project.rng.choice(project.places(path))
    sign = language_of(path).comment
    old = f"{project.files[path].splitlines()[place.line - 1]}  {sign} as I remember it"
    asked = {"replace_all": False, "file_path": path, "old_string": old, "new_string": f"{old}\n"}
    problem = f"String to replace not found in file.\nString: {old}"
    content = f"<tool_use_error>{problem}</tool_use_error>"
    return SyntheticToolCall("Edit", asked, content, f"Error: {problem}", is_error=True, path=path)


def write(project: Project, path: str, text: str) -> SyntheticToolCall:
    before = project.files.get(path)
    project.add(path, text)
    kind, answer = ("create", "File created") if before is None else ("update", "File replaced")
    display: dict[str, Any] = {
        "type": kind,
        "filePath": path,
        "content": text,
        "structuredPatch": [],
        "originalFile": before,
    }
    asked = {"file_path": path, "content": text}
    return SyntheticToolCall("Write", asked, f"{answer} successfully at: {path}", display, path=path)


def grep(project: Project, word: str) -> SyntheticToolCall:
    """Every line with the word, as `path:line:text`."""
    matches = [
        f"{project.relative(path)}:{number}:{line}"
        for path, text in project.files.items()
        if word in text
        for number, line in enumerate(text.splitlines(), start=1)
        if word in line
    ][:20]
    content = "\n".join(matches) or "No matches found"
    display: dict[str, Any] = {
        "mode": "content",
        "numFiles": 0,
        "filenames": [],
        "content": content,
        "numLines": len(matches),
    }
    asked = {"pattern": word, "path": project.root, "output_mode": "content", "-n": True}
    return SyntheticToolCall("Grep", asked, content, display)


def glob(project: Project, extension: str) -> SyntheticToolCall:
    names = [path for path in project.files if path.endswith(f".{extension}")][:40]
    display = {"filenames": names, "durationMs": 11, "numFiles": len(names), "truncated": False}
    return SyntheticToolCall(
        "Glob", {"pattern": f"**/*.{extension}"}, "\n".join(names) or "No files found", display
    )


def bash(command: str, description: str, stdout: str, *, seconds: float = 0.8) -> SyntheticToolCall:
    asked = {"command": command, "description": description}
    display = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    return SyntheticToolCall("Bash", asked, stdout, display, seconds=seconds)


def failing_test(project: Project, path: str) -> SyntheticToolCall:
    """A failing test run that quotes the line of the failure."""
    rng, language, place = project.rng, language_of(path), project.rng.choice(project.places(path))
    lines = project.files[path].splitlines()
    at = min(place.line + language.head + 1, len(lines))
    case = rng.choice(CASES)
    output = language.failure.substitute(
        _numbers(rng), name=place.name, case=case, Case=case.capitalize(), source=lines[at - 1].strip(),
        source_line=at, source_path=project.relative(path), test_path=project.relative(path_of_test(path)),
        test_line=rng.randint(8, 90),
    )  # fmt: skip
    asked = {"command": _test_command(project, path), "description": "Run the tests of this module"}
    return SyntheticToolCall(
        "Bash", asked, output, f"Error: {output}", is_error=True, seconds=rng.uniform(2, 9), path=path
    )


def passing_test(project: Project, path: str) -> SyntheticToolCall:
    rng = project.rng
    tested = project.relative(path_of_test(path))
    output = language_of(path).success.substitute(_numbers(rng), path=tested)
    return bash(_test_command(project, path), "Run the tests again", output, seconds=rng.uniform(2, 9))


def todos(before: Sequence[dict[str, str]], after: Sequence[dict[str, str]]) -> SyntheticToolCall:
    content = "Todos have been modified successfully. Go on with the current one."
    return SyntheticToolCall(
        "TodoWrite", {"todos": list(after)}, content, {"oldTodos": list(before), "newTodos": list(after)}
    )


def fetch(url: str, question: str, answer: str) -> SyntheticToolCall:
    display = {
        "bytes": len(answer) * 7,
        "code": 200,
        "codeText": "OK",
        "result": answer,
        "durationMs": 2310,
        "url": url,
    }
    return SyntheticToolCall("WebFetch", {"url": url, "prompt": question}, answer, display, seconds=2.5)


def look(path: str, picture: Picture) -> SyntheticToolCall:
    """Read of an image: the result is an image block."""
    block = picture.block()
    size = {"originalWidth": picture.width, "originalHeight": picture.height}
    file = {"base64": picture.base64, "type": "image/png", "originalSize": picture.size, "dimensions": size}
    return SyntheticToolCall("Read", {"file_path": path}, [block], {"type": "image", "file": file})


def task(
    description: str, prompt: str, replies: tuple[SyntheticReply, ...], *, agent_type: str
) -> SyntheticToolCall:
    """A task for a sub-agent. Its last text is the result that the main thread sees."""
    asked = {"description": description, "prompt": prompt, "subagent_type": agent_type}
    content = [{"type": "text", "text": replies[-1].text}]
    calls = sum(len(reply.steps) for reply in replies)
    display = {"status": "completed", "prompt": prompt, "content": content, "totalToolUseCount": calls}
    return SyntheticToolCall("Task", asked, content, display, seconds=1.0, agent=replies)


def place_in(project: Project, path: str) -> FunctionLocation:
    return project.rng.choice(project.places(path))


def _test_command(project: Project, path: str) -> str:
    return Template(language_of(path).command).substitute(path=project.relative(path_of_test(path)))


def _numbers(rng: Random) -> dict[str, str | int]:
    passed = rng.randint(4, 60)
    return {"n1": rng.randint(2, 40), "n2": rng.randint(10, 99), "n3": passed, "dots": "." * passed}


def _patch(change: AppliedEdit) -> dict[str, Any]:
    """One hunk of a diff, as the terminal shows it."""
    lines = change.before.splitlines()
    old, new = change.old.splitlines(), change.new.splitlines()
    first = change.line - 1
    above = lines[max(0, first - CONTEXT_LINES) : first]
    below = lines[first + len(old) : first + len(old) + CONTEXT_LINES]
    around = len(above) + len(below)
    start = change.line - len(above)
    body = [*_marked(" ", above), *_marked("-", old), *_marked("+", new), *_marked(" ", below)]
    return {
        "oldStart": start, "oldLines": around + len(old), "newStart": start, "newLines": around + len(new),
        "lines": body,
    }  # fmt: skip


def _marked(sign: str, lines: Sequence[str]) -> list[str]:
    return [sign + re.sub(r"^\t+", lambda tabs: "  " * len(tabs[0]), line) for line in lines]
