"""Hooks, called as Claude Code calls them: standard input, standard output, exit code."""

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_session import SmallSession, call, text

from everturn.adapters.claude_code import hooks
from everturn.cli import main
from everturn.session.pin_file import append_pin, pin_file_path


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "everturn" / "claude-code"


@pytest.fixture
def hook(state, monkeypatch, capsys):
    """Calls a hook; gives its exit code, its answer and what it said on stderr."""

    def run(*arguments: str, given: object) -> tuple[int, object, str]:
        data = given if isinstance(given, bytes) else json.dumps(given).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = hooks.run(list(arguments))
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else None, said.err

    return run


def payload(event: str, session: Path | str = "", **fields: object) -> dict[str, object]:
    return {"session_id": "s-1", "transcript_path": str(session), "hook_event_name": event} | fields


@pytest.fixture
def session(tmp_path) -> Path:
    talk = (
        SmallSession()
        .human("Never push to main. Fix the parser.")
        .reply(
            "m1", call("c1", "Edit", file_path="/home/me/parser.py", old_string="a", new_string="b"), plain=9
        )
    )
    (tmp_path / "s.jsonl").write_bytes(talk.result("c1", "ok").to_bytes())
    return tmp_path / "s.jsonl"


@pytest.mark.parametrize("event", ["PreCompact", "pre-compact", "pre_compact", ""])
def test_before_a_compaction_a_marker_is_kept_and_nothing_is_blocked(hook, state, session, event):
    given = payload("PreCompact", session, trigger="auto", custom_instructions="")
    assert hook(*([event] if event else []), given=given) == (0, None, "")
    marker = json.loads((state / "s-1.json").read_text())
    del marker["at"]
    assert marker == {
        "transcript_path": str(session),
        "size": session.stat().st_size,
        "last_uuid": "u2",
        "trigger": "auto",
        "custom_instructions": "",
    }


def test_what_is_kept_is_its_owners_alone(hook, state, session):
    hook("PreCompact", given=payload("PreCompact", session))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (state, state / "s-1.json")]
    assert modes == [0o700, 0o600]


def test_a_session_that_ends_is_forgotten(hook, state, session):
    hook("PreCompact", given=payload("PreCompact", session))
    assert hook("SessionEnd", given=payload("SessionEnd", reason="clear")) == (0, None, "")
    assert os.listdir(state) == []
    assert hook("SessionEnd", given=payload("SessionEnd", reason="clear")) == (0, None, "")


@pytest.mark.parametrize("name", ["../../escape", "a/b", "", "x" * 300, 7])
def test_a_session_id_that_is_no_name_leads_nowhere(hook, state, session, name):
    given = payload("PreCompact", session) | {"session_id": name}
    assert hook("PreCompact", given=given) == (0, None, "")
    assert os.listdir(state) == ["unknown-session.json"]


def test_after_a_compaction_the_state_is_given_back(hook, session):
    answer = hook(given=payload("SessionStart", session, source="compact"))
    assert answer[0] == 0
    assert set(answer[1]) == {"hookSpecificOutput"}
    told = answer[1]["hookSpecificOutput"]
    assert told["hookEventName"] == "SessionStart"
    assert '- "Never push to main."' in told["additionalContext"].splitlines()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda pins: pins.write_bytes(pins.read_bytes().replace(b"tabs", b"\xe9abs")),
            "a pin is lost: line 2 of {} cannot be read; pin the text again and remove what is damaged",
        ),
        (
            lambda pins: (pins.unlink(), pins.mkdir()),
            "The pins in {} cannot be read: it is a directory.",
        ),
    ],
    ids=["a damaged line", "a directory"],
)
def test_after_a_compaction_the_user_is_told_of_pins_that_cannot_be_read(hook, session, damage, says):
    append_pin(session, "Use tabs.")
    append_pin(session, "Keep the API stable.")
    damage(pin_file_path(session))
    code, answer, said = hook(given=payload("SessionStart", session, source="compact"))
    assert (code, said, answer["systemMessage"]) == (0, "", says.format(pin_file_path(session)))
    assert '- "Never push to main."' in answer["hookSpecificOutput"]["additionalContext"].splitlines()


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "fork", None])
def test_any_other_start_gets_no_answer(hook, session, source):
    assert hook(given=payload("SessionStart", session, source=source)) == (0, None, "")


@pytest.mark.parametrize("event", ["Stop", "PostCompact", "UserPromptSubmit", "Notification", "FutureEvent"])
def test_other_events_get_no_answer(hook, state, event):
    assert hook(given=payload(event)) == (0, None, "")
    assert not state.exists()


def test_a_huge_result_is_moved_when_it_was_asked_for(hook, state):
    response = {"stdout": "x" * 9_000, "stderr": "", "interrupted": False, "isImage": False}
    given = payload("PostToolUse", tool_name="Bash", tool_response=response, tool_use_id="toolu_1")
    assert hook("PostToolUse", given=given) == (0, None, "")
    code, answer, _ = hook("PostToolUse", "--shrink", "5000", given=given)
    told = answer["hookSpecificOutput"]
    assert (code, told["hookEventName"], told["updatedToolOutput"]["stderr"]) == (0, "PostToolUse", "")
    assert (state / "s-1" / "toolu_1-stdout.txt").read_text() == "x" * 9_000


BAD_INPUT = [
    ([], b"", "the input is empty; expected"),
    ([], b" \n", "the input is empty; expected"),
    ([], b"{}", "the input has no hook_event_name"),
    ([], b'{"hook_event_name": 5}', "the input has no hook_event_name"),
    (["PostToolUse", "--shrink", "9000"], b"garbage", "the input is not valid JSON"),
    (["PostToolUse"], b'{"tool_name": ', "the input is not valid JSON"),
    (["SessionStart"], b'{"source": "compact"}', "everturn hook: The input has no transcript_path"),
    (["PreCompact"], b"{", "the input is not valid JSON"),
    (["PreCompact"], b"\xff", "the input is not valid JSON"),
    (["PreCompact"], b"[1]", "the input is a JSON list; expected"),
    (["PreCompact", "SessionEnd"], b"{}", "usage: everturn hook [EVENT]"),
    (["--force"], b"{}", "usage: everturn hook [EVENT]"),
    (["PostToolUse", "--shrink"], b"{}", "usage: everturn hook [EVENT]"),
    (["PostToolUse", "--shrink", "many"], b"{}", "usage: everturn hook [EVENT]"),
    (["SessionStart"], b'{"source": "compact"}', "has no transcript_path"),
    (["SessionStart"], b'{"source": "compact", "transcript_path": "/nowhere/s.jsonl"}', "No file "),
]


@pytest.mark.parametrize(("arguments", "given", "says"), BAD_INPUT)
def test_bad_input_is_told_and_never_blocks(hook, arguments, given, says):
    code, answer, said = hook(*arguments, given=given)
    assert (code, answer) == (1, None)
    assert says in said
    assert said.startswith("everturn hook: ")
    assert said.count("\n") == 1


def test_a_state_folder_that_cannot_be_made_is_told(hook, tmp_path, monkeypatch, session):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    code, answer, said = hook("PreCompact", given=payload("PreCompact", session))
    assert (code, answer, "Not a directory" in said) == (1, None, True)


@pytest.mark.parametrize("arguments", [["--force"], ["PreCompact", "more"], ["PostToolUse", "--shrink", "x"]])
def test_no_way_of_calling_exits_with_the_code_that_blocks(arguments, state):
    done = CliRunner().invoke(main, ["hook", *arguments], input="{}")
    assert done.exit_code == 1


def test_a_words_only_session_has_nothing_to_restore(hook, tmp_path):
    talk = SmallSession().human("Hello.").reply("m1", text("Hello."), plain=9).boundary(100)
    (tmp_path / "s.jsonl").write_bytes(talk.summary("The user said: Hello.").to_bytes())
    assert hook(given=payload("SessionStart", tmp_path / "s.jsonl", source="compact")) == (0, None, "")
