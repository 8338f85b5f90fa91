"""The chat in a real terminal, typed into as people do (tmux); and the terminal by itself."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from everturn.chat.screen.terminal import Terminal, detect_terminal_kind

from .tmux import DEADLINE, TMUX, Tmux

STAGE = Path(__file__).parent / "stage.py"
Open = Callable[..., Tmux]


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        (self.project / "src").mkdir(parents=True)
        (folder / "home").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_DATA_HOME": str(folder / "data"),
            "LANG": "C.UTF-8",
        }

    def write(self, *names: str, functions: int = 60) -> None:
        for name in names:
            body = (f"def {name}_{n}(value):\n    return take(value, {n})\n" for n in range(functions))
            (self.project / "src" / f"{name}.py").write_text("\n".join(body))

    @property
    def transcript(self) -> Path:
        (found,) = (self.folder / "data").rglob("*.jsonl")
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def chat(place: Place) -> Iterator[Open]:
    if TMUX is None:
        pytest.skip("tmux is not installed: apt-get install tmux brings it")
    opened: list[Tmux] = []

    def open_(
        *options: str,
        script: list[Any] | None = None,
        speed: str = "at once",
        columns: int = 80,
        **more: str,
    ) -> Tmux:
        command = [sys.executable, "-m", "everturn", "chat", *options]
        if script is not None:
            file = place.folder / "script.json"
            file.write_text(json.dumps({"replies": script}))
            command = [sys.executable, str(STAGE), speed, str(file), *options]
        opened.append(Tmux(command, place.environment | more, place.project, columns=columns))
        opened[-1].wait_for("/help lists the commands.")
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": tool, "input": given}]}


def test_a_long_task_goes_through_two_compactions_and_an_undo(chat: Open, place: Place):
    names = ("app", "auth", "cache", "form", "page", "store", "token", "view")
    terminal = chat("--window", "32000", "--permission-mode", "all")
    assert "No API key found. This is practice with the twin" in terminal.text
    answers = 0
    while terminal.text.count("Compacted: ") < 2:
        answers += 1
        assert answers < 12, terminal.text
        # Unchanged files would be answered with a note, and never fill the context.
        place.write(*names, functions=60 + answers)
        terminal.type("Read all files")
        terminal.wait_for_prompt(answers + 1)
    assert "recallable" in terminal.text
    terminal.type("/undo")
    terminal.wait_for("no longer holds")
    terminal.type("/context")
    terminal.wait_for("Compaction buffer")
    terminal.type("/quit")
    terminal.wait_for("ended: 0")
    said = [json.loads(line) for line in place.transcript.read_bytes().splitlines()]
    # The last question may have led to two.
    assert sum(each.get("subtype") == "compact_boundary" for each in said) in (2, 3)
    assert sum(each.get("subtype") == "everturn_undone" for each in said) == 1


def test_a_wish_is_shown_with_its_diff_and_answered_by_a_letter(chat: Open, place: Place):
    edit = call("Write", file_path="new.py", content="x = 1\n")
    terminal = chat(script=[edit, "Then not.", edit, "It is there."])
    terminal.type("Write it")
    shown = terminal.wait_for("Allow?")
    assert "  +x = 1" in shown
    terminal.type("n")
    terminal.wait_for("Then not.")
    assert not (place.project / "new.py").exists()
    terminal.type("Do write it")
    terminal.wait_for("Allow?", times=2)
    terminal.type("y")
    terminal.wait_for("It is there.")
    assert (place.project / "new.py").read_text() == "x = 1\n"


def test_everything_fits_into_forty_columns(chat: Open, place: Place):
    place.write("app")
    words = "The handling of the value is in one place now, so callers need not know about it."
    terminal = chat(columns=40, script=[call("Read", file_path="src/app.py"), words, words])
    terminal.type("Look at it")
    terminal.wait_for("about it.")
    terminal.wait_for("ctx 1%")
    for number, command in enumerate(
        ("/help", "/context", "/cost", "/compact --dry-run", "/resume"), start=1
    ):
        terminal.type(command)
        terminal.wait_for(f"› {command}")
        terminal.wait_for("\n›", times=number + 2)
    lines = terminal.whole_lines
    assert "● Read src/app.py  179 lines" in lines
    # A word is never broken: what the model said stands on lines of whole words.
    at = lines.index("The handling of the value is in one")
    assert lines[at + 1] == "place now, so callers need not know"
    assert [line for line in lines if len(line) > 40] == []


def test_after_a_kill_in_the_middle_of_a_tool_the_conversation_goes_on(chat: Open, place: Place):
    terminal = chat("--permission-mode", "all", script=["Noted.", call("Bash", command="sleep 60")])
    terminal.type("The word is pineapple.")
    terminal.wait_for("Noted.")
    terminal.type("Wait a minute")
    terminal.wait_for("Bash sleep 60 1s")
    terminal.kill()
    again = chat("--resume", script=["It was pineapple."])
    shown = again.text
    assert "Resuming " in shown
    assert "  you Wait a minute" in shown
    assert "1 open call got a result" in shown
    again.type("Which word was it?")
    again.wait_for("It was pineapple.")
    said = [json.loads(line) for line in place.transcript.read_bytes().splitlines()]
    people = [each["message"]["content"] for each in said if each["type"] == "user"]
    texts = [part["text"] for content in people for part in content if part["type"] == "text"]
    assert texts == ["The word is pineapple.", "Wait a minute", "Which word was it?"]


def test_an_interrupt_ends_a_tool_and_two_at_the_prompt_leave(chat: Open):
    terminal = chat("--permission-mode", "all", script=[call("Bash", command="sleep 60"), "All right."])
    terminal.type("Wait a minute")
    terminal.wait_for("Bash sleep 60 1s")
    terminal.press("C-c")
    terminal.wait_for("Stopped.")
    terminal.type("Never mind")
    terminal.wait_for("All right.")
    terminal.press("C-c")
    terminal.wait_for("Ctrl-C again")
    terminal.press("C-c")
    assert "Traceback" not in terminal.wait_for("ended: 0")
    assert "● Bash sleep 60  stopped" in terminal.lines


def test_an_interrupt_stops_an_answer_and_what_was_said_stays(chat: Open, place: Place):
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    terminal = chat(script=[words], speed="slowly")
    terminal.type("Count")
    terminal.wait_for("working 1s  Ctrl-C stops")
    terminal.wait_for("one")
    terminal.press("C-c")
    shown = terminal.wait_for("Stopped.")
    assert "fifteen" not in shown
    terminal.type("Go on")
    # A scripted reply that was not read to its end is given again.
    terminal.wait_for("fifteen")
    assert (
        b"[The user stopped your last answer. What it had said so far:]\\none"
        in place.transcript.read_bytes()
    )


def test_many_lines_are_one_message_pasted_or_typed(chat: Open, place: Place):
    terminal = chat(script=["I see both.", "And again."])
    # Before its prompt is there, the program has not asked for the marks of a paste.
    terminal.wait_for("\n›")
    terminal.paste("first line\nsecond line")
    terminal.press("Enter")
    terminal.wait_for("I see both.")
    terminal.type("third line\\")
    terminal.type("fourth line")
    terminal.wait_for("And again.")
    assert b'"first line\\nsecond line"' in place.transcript.read_bytes()
    assert b'"third line\\nfourth line"' in place.transcript.read_bytes()


@pytest.mark.parametrize(
    "chosen",
    [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"LANG": "C", "LC_ALL": "C"}],
    ids=lambda each: next(iter(each)),
)
def test_a_terminal_that_can_do_less_gets_less(chat: Open, chosen: dict[str, str]):
    terminal = chat(script=["Thät “is” all…"], **chosen)
    terminal.type("Hello")
    terminal.wait_for(" all")
    shown = terminal.wait_for("claude-opus-5", times=2)
    assert ("> Hello" if "LC_ALL" in chosen else "› Hello") in shown
    assert ("Th?t ?is? all?" if "LC_ALL" in chosen else "Thät “is” all…") in shown


def test_keys_that_are_pressed_meanwhile_show_at_the_next_prompt(chat: Open):
    terminal = chat("--permission-mode", "all", script=[call("Bash", command="sleep 2"), "Done.", "Hello."])
    terminal.type("Wait a second")
    terminal.wait_for("Bash sleep 2 ")
    terminal.type("Good morning")
    shown = terminal.wait_for("Hello.")
    assert shown.count("Good morning") == 1
    assert shown.index("Done.") < shown.index("› Good morning") < shown.index("Hello.")


def test_what_was_typed_before_a_question_neither_answers_it_nor_is_sent(chat: Open, place: Place):
    # The first command runs until what follows has been typed.
    wait = "while [ ! -e typed ]; do sleep 0.1; done; sleep 0.2"
    terminal = chat(script=[call("Bash", command=wait), call("Bash", command="touch b"), "Done."])
    # At once with the message, so that the line editor has read it; then while the agent works.
    terminal.write("Go\ry\r")
    terminal.wait_for("Typed before this question, and not used: y")
    terminal.type("y")
    terminal.write("y\ry")
    (place.project / "typed").touch()
    terminal.wait_for("Typed before this question, and not used: y y")
    terminal.type("n")
    shown = terminal.wait_for_prompt(2)
    assert not (place.project / "b").exists()
    assert [line.strip() for line in shown.splitlines() if line.startswith("›")] == ["› Go", "›"]


@pytest.mark.spec("CP-36")
def test_esc_twice_at_an_empty_prompt_opens_rewind(chat: Open, place: Place):
    terminal = chat(script=["The first answer.", "The second answer.", "The third answer."])
    for at, number in enumerate(("first", "second")):
        terminal.type(f"The {number} question")
        terminal.wait_for_prompt(at + 2)
    terminal.write("half a line")
    terminal.press("Escape", "Escape")
    terminal.type(": the third question")
    terminal.wait_for("The third answer.")
    assert "goes back to before that message" not in terminal.text
    terminal.wait_for_prompt(4)
    terminal.press("Escape", "Escape")
    shown = terminal.wait_for("› /rewind")
    assert "  1  half a line: the third question" in shown
    assert "  3  The first question" in shown
    terminal.type("2")
    assert "The second question" in terminal.wait_for("4 messages left behind.")
    terminal.type("/rewind b1")
    terminal.wait_for("Back on the branch")


def test_at_the_prompt_the_time_that_the_cache_has_left_counts_down(chat: Open):
    terminal = chat(script=["Good morning."])
    terminal.type("Hello")
    terminal.wait_for_prompt(2)
    first = terminal.wait_for("warm 4:5").splitlines()[-1]
    until = time.monotonic() + DEADLINE
    while (last := terminal.lines[-1]) == first and time.monotonic() < until:
        time.sleep(0.1)
    parts = [
        re.fullmatch(r"context <1%  cache 0%  warm 4:(\d\d)  practice, .*", each) for each in (first, last)
    ]
    seconds = [int(part[1]) for part in parts if part]
    assert len(seconds) == 2
    assert seconds[1] < seconds[0]


def test_a_chosen_model_is_kept_and_leaving_says_how_to_go_on(chat: Open, place: Place):
    terminal = chat(script=["Good morning."])
    terminal.type("Hello")
    terminal.wait_for_prompt(2)
    terminal.type("/model claude-sonnet-4-5")
    terminal.wait_for("Model set to")
    terminal.type("/quit")
    lines = terminal.wait_for("ended: 0").splitlines()
    assert lines[-3:] == [
        "Practice: nothing was billed. To go on with this conversation:",
        f"  everturn chat --resume {place.transcript.stem}",
        "ended: 0",
    ]
    again = chat("--resume", place.transcript.stem, script=["And again."])
    assert again.lines[0] == "everturn chat  practice as claude-sonnet-4-5"
    named = chat("--session", str(place.folder / "other.jsonl"), "--model", "claude-haiku-4-5", script=[])
    assert named.lines[0] == "everturn chat  practice as claude-haiku-4-5"


def test_commands_of_the_agent_end_with_it_when_the_terminal_is_closed_or_it_is_killed(place: Place):
    started: list[tuple[subprocess.Popen[bytes], Path, signal.Signals]] = []
    for number in (signal.SIGHUP, signal.SIGKILL):
        file, script = place.project / f"{number.name}.pid", place.folder / f"{number.name}.json"
        command = f"sleep 61 & echo $$ > {file.name}; sleep 62"
        script.write_text(json.dumps({"replies": [call("Bash", command=command)]}))
        chat = [sys.executable, str(STAGE), "at once", str(script), "--permission-mode", "all", "-p", "Wait"]
        started.append((subprocess.Popen(chat, cwd=place.project, env=place.environment), file, number))
    until = time.monotonic() + DEADLINE
    for process, file, number in started:
        while not (file.exists() and file.read_text().strip()):
            assert time.monotonic() < until
            time.sleep(0.05)
        group = int(file.read_text())
        assert len(running_in(group)) == 2
        process.send_signal(number)
        assert process.wait(DEADLINE) == -number
        while running_in(group) and time.monotonic() < until:
            time.sleep(0.05)
        assert running_in(group) == []


def running_in(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = each.read_text().rpartition(")")[2].split()[:3]
            found += [each.parent.name] if int(of) == group and state != "Z" else []
    return found


# ── by itself ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def in_front() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal; this process sits in front of it. No fixture: pytest has streams of its own
    for each phase of a test."""
    ours, theirs = pty.openpty()
    with (
        open(theirs, closefd=False) as stdin,
        open(theirs, "w", closefd=False) as stdout,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("sys.stdin", stdin)
        patch.setattr("sys.stdout", stdout)
        patch.setenv("TERM", "xterm")
        yield ours, theirs
    os.close(ours)
    os.close(theirs)


def echoes(terminal: int) -> bool:
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def test_keys_are_echoed_again_however_the_work_ended():
    with in_front() as (_, screen):
        terminal = Terminal()
        heard: list[bool] = [echoes(screen)]
        with suppress(KeyboardInterrupt), terminal.working():
            heard.append(echoes(screen))
            raise KeyboardInterrupt
        heard.append(echoes(screen))
    assert (terminal.kind, heard) == ("live", [True, False, True])


def test_what_was_painted_while_waiting_is_gone_before_anything_is_said():
    painted = threading.Event()

    def told(seconds: float) -> str:
        painted.set()
        return "working"

    with in_front() as (person, _):
        terminal = Terminal()
        terminal.show_waiting(told)
        assert painted.wait(5)
        terminal.say("Done.")
        shown = ""
        # A terminal gives what it has, which may be less than was written.
        while "Done.\r\n" not in shown:
            shown += os.read(person, 1000).decode()
    assert shown.endswith("working\r\x1b[KDone.\r\n")


def test_what_a_terminal_can_do_is_told_by_its_name_and_its_ends():
    with in_front():
        known = {term: detect_terminal_kind(sys.stdin, sys.stdout, term) for term in ("xterm", "dumb", "")}
        piped = (
            detect_terminal_kind(io.StringIO(), sys.stdout, "xterm"),
            detect_terminal_kind(sys.stdin, io.StringIO(), "xterm"),
        )
    assert known == {"xterm": "live", "dumb": "plain", "": "plain"}
    assert piped == ("pipe", "pipe")
