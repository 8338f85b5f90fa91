import os
import signal
import time
from pathlib import Path

import pytest

from everturn.chat.tools.bash import MAX_CHARACTERS


def is_gone(pid):
    """Ended; one that nobody has collected yet counts."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(*pids):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if all(map(is_gone, pids)):
            return True
    return False


def pids_in(folder):
    return [int(word) for word in (folder / "pids").read_text().split()]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo hello", "hello"),
        ("echo out; echo err >&2", "out\nerr"),
        ("true", "[no output]"),
        ("echo why; exit 3", "Exit code 3\nwhy"),
        ("false", "Exit code 1"),
        ("kill -9 $$", "Ended by signal 9"),
        ("cat", "[no output]"),
        ("printf 'caf\\351'", "caf\ufffd"),
        ("no-such-program-here 2>/dev/null", "Exit code 127"),
    ],
)
def test_what_a_command_says_and_how_it_ended(hands, command, said):
    assert hands.do("Bash", command=command) == said


def test_it_runs_in_the_workspace_without_the_keys_of_the_api(hands):
    hands.workspace.environment |= {"ANTHROPIC_API_KEY": "secret", "PLAIN": "seen"}
    assert hands.do("Bash", command='pwd; echo "$PLAIN:$ANTHROPIC_API_KEY:$PAGER"') == (
        f"{hands.root}\nseen::cat"
    )


def test_of_a_long_output_the_middle_is_left_out(hands):
    said = hands.do("Bash", command="seq 1000000")
    assert said.startswith("1\n2\n3\n")
    assert said.endswith("\n999999\n1000000")
    assert "characters left out …]" in said
    assert len(said) < MAX_CHARACTERS + 100
    exact = hands.do("Bash", command=f"head -c {MAX_CHARACTERS} /dev/zero | tr '\\0' x")
    assert exact == "x" * MAX_CHARACTERS


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(hands):
    command = "echo $$ > pids; sleep 300 & echo $! >> pids; trap '' TERM; echo begun; wait; sleep 300"
    said = hands.do("Bash", command=command, timeout=300)
    assert said == "begun\n[Not finished: killed after 0.3 s. Set a longer `timeout` if needed.]"
    assert wait_until_gone(*pids_in(hands.root))


def test_what_a_command_leaves_running_is_ended_when_it_is_done(hands):
    began = time.perf_counter()
    assert hands.do("Bash", command="sleep 300 & echo $! > pids; echo started") == "started"
    assert wait_until_gone(*pids_in(hands.root))
    assert time.perf_counter() - began < 10


def test_a_process_that_left_the_group_does_not_hold_us(hands):
    began = time.perf_counter()
    command = "setsid sh -c 'echo $$ > pids; exec sleep 30' & while ! [ -s pids ]; do :; done; echo started"
    try:
        assert hands.do("Bash", command=command) == "started"
        assert time.perf_counter() - began < 10
    finally:
        os.kill(pids_in(hands.root)[0], signal.SIGKILL)


def test_an_interrupt_ends_the_whole_group_and_goes_on_up(hands):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    try:
        with pytest.raises(KeyboardInterrupt):
            hands.do("Bash", command="echo $$ > pids; sleep 300 & echo $! >> pids; wait")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert wait_until_gone(*pids_in(hands.root))


def test_a_command_that_closed_its_output_still_has_its_time(hands):
    assert hands.do("Bash", command="exec >&- 2>&-; sleep 0.2; touch done; exit 4") == "Exit code 4"
    assert (hands.root / "done").exists()


def test_the_person_sees_the_whole_command_and_can_say_no(hands):
    hands.says = "no"
    assert hands.fails("Bash", command="touch\nx").startswith("the user said no to: run touch x.")
    (request,) = hands.requests
    assert (request.tool, request.what, request.detail, request.kind) == (
        "Bash",
        "run touch x",
        "touch\nx",
        "command",
    )
    assert list(hands.root.iterdir()) == []


def test_always_for_a_plain_command_does_not_cover_what_is_joined_to_it(hands):
    hands.says = "always"
    for command in ("echo a", "echo b", "echo c; echo d"):
        hands.do("Bash", command=command)
    assert [request.detail for request in hands.requests] == ["echo a", "echo c; echo d"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Bash needs `command`: a non-empty string."),
        ({"command": "a\0b"}, "A command cannot contain a NUL character."),
        ({"command": "ls", "timeout": 0}, "`timeout` of Bash must be a whole number, 1 or more; it was '0'."),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(hands, fields, said):
    assert hands.fails("Bash", **fields) == said


def test_read_only_runs_nothing(hands):
    hands.permissions.mode = "read only"
    assert hands.fails("Bash", command="touch x").startswith("the session is read only")
    assert (list(hands.root.iterdir()), hands.requests) == ([], [])
