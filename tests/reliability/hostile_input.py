"""Trials with input made against us: commands, paths, settings, transcripts, streams, terminal text."""

import json
import random
import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from reliability.score import Counts
from small_session import reading

from everturn.adapters.claude_code.settings.edit_entries import (
    add_entries,
    find_empty_containers,
    remove_entries,
)
from everturn.adapters.claude_code.settings.entries import InstallOptions, check_settings
from everturn.chat.permission import PermissionDenied, Permissions
from everturn.chat.screen.wrapping import StreamWrapper
from everturn.chat.tools.command_scope import FAMILIES, find_family
from everturn.chat.tools.files.read import read_tool
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import ToolError
from everturn.dashboard.layout import plain
from everturn.decide.effects import ReadFiles
from everturn.errors import InputError, UsageError
from everturn.session.config.sources import TomlFile, from_toml
from everturn.session.files import read_files, resolve_roots
from everturn.session.memory_files.confined import ReadScope, allow_all, read_confined
from everturn.terminal_text import printable, visible
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.sse import SseReader

CANARY: Final = "CANARY-FROM-OUTSIDE"
_ODD: Final = (
    "\0", "\x1b[2J", "\x9b", "\x07", "\r", "\n", "\t", " ", "\u00a0", "\u2003", "\u2028", "\u202e",
    "\ufeff", "\ud800", "é",
    "\\", "'", '"', "`", "$(x)", "${x}", ";", "&&", "|", ">", "<", "*", "?", "[", "]", "{", "}", "#", "!",
    "~", "=", "..",
)  # fmt: skip
_WORDS: Final = (
    "git", "status", "log", "diff", "show", "grep", "-O", "--output=x", "-p", "--stat", "-5", "pytest",
    "-q", "-k", "ls", "-la",
    "echo", "cargo", "test", "go", "./...", "src/a.py", "../x", "/etc/passwd", ".env", "HEAD:x", "sed",
    "1e", "python3", "nice",
)  # fmt: skip


def _odd(chance: random.Random, pieces: tuple[str, ...], most: int) -> str:
    return "".join(chance.choices((*pieces, *_ODD), k=chance.randint(0, most)))


def commands(seed: int) -> Counts:
    """What is covered by "always" is split by a shell as we split it, and runs nothing but the program."""
    chance = random.Random(seed)
    words = [
        *chance.choice([*FAMILIES, ()]),
        *(chance.choice((*_WORDS, *_ODD)) for _ in range(chance.randint(0, 4))),
    ]
    command = chance.choice((" ", " ", " ", "", "\u00a0", "\t", "\n")).join(words)
    family = find_family(command)
    if not family:
        return Counter(asked=1)
    assert command.isascii()
    assert shlex.split(command) == [word for word in command.split(" ") if word]
    shell = shutil.which("bash") or "/bin/sh"
    script = f'set -- {command}; printf "%s\\n" "$@"'
    told = subprocess.run([shell, "-c", script], capture_output=True, text=True, cwd="/", check=True).stdout
    assert told.split("\n")[:-1] == command.split()
    assert family in FAMILIES
    # `pytest -p` loads a plugin, `git log -p` runs the repository's diff drivers; `mypy -p` names a package.
    refused = {"-O", "--output=x", *(() if family == ("mypy",) else ("-p",))}
    # Words that are only printed or compared may be anything.
    refused |= {"../x", "/etc/passwd", ".env"} if FAMILIES[family].operands == "paths" else set()
    assert not refused.intersection(command.split())
    return Counter(covered=1)


def paths(seed: int) -> Counts:
    """No path leads out of the folder, with any reader."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as base:
        root, outside = Path(base, "root"), Path(base, "outside")
        (root / "sub").mkdir(parents=True)
        outside.mkdir()
        for folder in (outside, root / "sub", root):
            (folder / "plain.md").write_text("plain" if folder != outside else CANARY)
        (root / "out").symlink_to(outside)
        (root / "file").symlink_to(outside / "plain.md")
        (root / "sub" / "up").symlink_to("../../outside")
        parts = (
            "..",
            ".",
            "sub",
            "out",
            "file",
            "up",
            "plain.md",
            "",
            str(outside),
            "~",
            "root",
            "outside",
            *_ODD,
        )
        tried = 0
        for _ in range(20):
            path = "/".join(chance.choices(parts, k=chance.randint(1, 5)))
            (restored,) = read_files(ReadFiles((path,), 1_000), resolve_roots([root]))
            scope = ReadScope(roots=(root,), may_read=allow_all)
            remembered = getattr(read_confined(root / path, scope), "text", "")
            asked: list[object] = []
            permissions = Permissions(lambda request, asked=asked: asked.append(request) or "no")  # type: ignore[arg-type, return-value]
            try:
                said = str(read_tool(Workspace(root), permissions).run({"file_path": path}))  # type: ignore[misc]
            except (ToolError, PermissionDenied) as problem:
                said = str(problem)
            assert CANARY not in restored.text + remembered + said
            tried += 1
    return Counter(paths=tried)


def settings(seed: int) -> Counts:
    """Settings are refused in a sentence, or changed and changed back to the same text."""
    chance = random.Random(seed)
    pieces = (
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"hooks"',
        '"statusLine"',
        '"mcpServers"',
        '"a"',
        "null",
        "1e400",
        "{}",
        "[]",
        "true",
    )
    _project_settings(chance)
    text = _mutated(chance, '{\n  "hooks": {"PreCompact": []},\n  "x": 1\n}\n', pieces)
    done = Counter(texts=1)
    try:
        check_settings(text, "settings.json")
        change = add_entries(text, InstallOptions(server=True), replace=True)
    except (InputError, UsageError):
        return done
    check_settings(change.text, "settings.json")
    empty = find_empty_containers(text)
    undone = remove_entries(change.text, replaced=change.replaced, empty_before=empty)
    check_settings(undone.text, "settings.json")
    assert json.loads(undone.text or "{}") == json.loads(text.removeprefix("\ufeff") or "{}")
    return done


def _project_settings(chance: random.Random) -> None:
    """No text of a project's file sets where the key is sent, or which programs run."""
    chosen = chance.choice(("", 'provider.base_url = "http://x"\n', 'provider.api_key = "x"\n'))
    toml = _mutated(
        chance,
        chosen + 'model = "x"\n[compact]\nfailures = 3\n',
        ("=", "[", "]", '"', "'''", "provider.api_key", "9" * 30),
    )
    found = from_toml(TomlFile(toml, "everturn.toml", "project"))
    assert not {"provider.base_url", "provider.api_key", "hooks.files"}.intersection(found.values)


def transcripts(seed: int) -> Counts:
    """A damaged transcript is read, and no line of it is lost."""
    chance = random.Random(seed)
    data = bytearray(reading().to_bytes())
    for _ in range(chance.randint(1, 30)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 200)]
            case 2:
                data[at:at] = _odd(chance, ('"', "{", "}", '{"type":"user"}\n'), 6).encode(
                    "utf-8", "surrogatepass"
                )
            case _:
                data[at:at] = data[: chance.randint(1, 500)]
        data = data or bytearray(b"x")
    found = parse_session_file(bytes(data))
    assert found.to_bytes() == bytes(data)
    assert len(found.lines) >= len(found.records)
    return Counter(records=len(found.records))


_STREAM: Final = (
    b'event: message_start\ndata: {"type":"message_start"}\n\n'
    b": ping\n\nevent: content_block_delta\ndata: {\ndata: }\n\nid: 1\nretry: x\ndata: last\n\n"
)


def streams(seed: int) -> Counts:
    """A stream gives the same events however it is cut, and no bytes stop the reader."""
    chance = random.Random(seed)
    data = _mutated(
        chance, _STREAM.decode(), ("data:", "event:", "\r", "\n\n", "\r\n", ":", "\ufeff")
    ).encode("utf-8", "replace")
    whole = SseReader()
    at_once = [*whole.feed(data)]
    cut, found, at = SseReader(), [], 0
    while at < len(data):
        size = chance.randint(1, 9)
        found += cut.feed(data[at : at + size])
        at += size
    assert found == at_once
    return Counter(events=len(found))


def terminal(seed: int) -> Counts:
    """Whatever is printed holds only letters and line breaks."""
    chance = random.Random(seed)
    text = _odd(
        chance, ("word ", "\x1b]0;x\x07", chr(chance.randrange(0x110000)), chr(chance.randrange(256))), 40
    )
    wrapper = StreamWrapper(chance.choice((0, 10, 80)))
    streamed = "".join(wrapper.feed(part) for part in (text[:7], text[7:])) + wrapper.finish()
    for said in (printable(text), printable(text, keeps_lines=True), streamed, plain(text, ascii_only=False)):
        assert all(letter == "\n" or letter.isprintable() for letter in said)
    assert all(letter in "\n\t" or letter.isprintable() for letter in visible(text))
    assert printable(text).count("\n") == 0
    return Counter(letters=len(text))


def _mutated(chance: random.Random, text: str, pieces: tuple[str, ...]) -> str:
    for _ in range(chance.randint(0, 8)):
        at = chance.randint(0, len(text))
        text = text[:at] + chance.choice((*pieces, *_ODD)) + text[at + chance.choice((0, 0, 1, 5)) :]
    return text.encode("utf-8", "replace").decode()


# How many trials of each kind `make test` runs; a deliberate bug is found by these.
DEFAULT_TRIALS: Final = {
    "hostile-commands": 300,
    "hostile-paths": 20,
    "hostile-settings": 300,
    "hostile-transcripts": 60,
    "hostile-streams": 300,
    "hostile-terminal": 300,
}
