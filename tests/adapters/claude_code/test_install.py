"""Installing and uninstalling, file by file: laws over any settings, and everything that can be wrong."""

import json
import os
import stat
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from adapters.claude_code.any_settings import texts
from hypothesis import given
from hypothesis import strategies as st

from everturn.adapters.claude_code.settings import files, install, receipts, uninstall
from everturn.adapters.claude_code.settings.edit_entries import (
    StatusLineTaken,
    add_entries,
    find_empty_containers,
    remove_entries,
)
from everturn.adapters.claude_code.settings.entries import InstallOptions, check_settings, hook_entries
from everturn.errors import EverturnError, InputError, StoreError

NOW = datetime(2026, 11, 15, 10, 41, 5)
ALL = InstallOptions(("/opt/every turn/everturn",), shrink=30_000, server=True)
WANTED = st.sampled_from(
    [
        InstallOptions(),
        ALL,
        InstallOptions(status_line=False),
        InstallOptions(hooks=False),
        InstallOptions(("/usr/bin/python3", "-m", "everturn")),
    ]
)


def installed(
    path: Path | str, wanted: InstallOptions = ALL, *, replacing: bool = True
) -> install.Installation:
    planned = install.plan_installation(str(path), wanted, replacing=replacing)
    if planned.is_needed:
        install.apply_installation(planned, NOW)
    return planned


def uninstalled(path: Path | str) -> uninstall.Removal:
    removal = uninstall.plan_removal(str(path))
    uninstall.apply_removal(removal)
    return removal


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


@given(texts(), WANTED, st.sampled_from(["", "\ufeff"]))
def test_uninstalling_gives_back_the_same_bytes(text, wanted, mark):
    with TemporaryDirectory() as folder:
        path = Path(folder, "settings.json")
        path.write_bytes((mark + text).encode())
        planned = installed(path, wanted)
        json.loads(path.read_bytes().decode("utf-8-sig"))
        assert uninstalled(path).is_needed == planned.is_needed
        assert path.read_bytes() == (mark + text).encode()
        assert os.listdir(folder) == ["settings.json"]


@given(texts(), WANTED)
def test_installing_twice_is_installing_once(text, wanted):
    once = add_entries(text, wanted, replace=True).text
    assert add_entries(once, wanted, replace=False) == (once, (), "")


@given(texts(), WANTED)
def test_everything_that_was_there_is_still_there(text, wanted):
    before, after = json.loads(text), json.loads(add_entries(text, wanted, replace=True).text)
    ours = hook_entries(wanted) if wanted.hooks else {}
    assert {name: after[name] for name in before if name not in ("hooks", "statusLine", "mcpServers")} == {
        name: value for name, value in before.items() if name not in ("hooks", "statusLine", "mcpServers")
    }
    for event, groups in before.get("hooks", {}).items():
        assert after["hooks"][event] == [*groups, *([ours[event]] if event in ours else [])]
    for name, server in before.get("mcpServers", {}).items():
        assert after["mcpServers"][name] == server


@given(texts(), WANTED, st.sampled_from(["before", "after"]))
def test_what_somebody_wrote_since_stays_and_only_our_entries_go(text, wanted, where):
    """The file is changed after us, so the backup cannot be put back: our entries are cut out of the text."""
    change = add_entries(text, wanted, replace=True)
    with_theirs = dict(json.loads(text))
    names = find_empty_containers(text)
    if where == "before":
        start = change.text.index("{") + 1
        comma = "," if json.loads(change.text) else ""
        changed = f'{change.text[:start]} "theirs" : 1.50{comma}{change.text[start:]}'
    else:
        end = change.text.rindex("}")
        comma = "," if json.loads(change.text) else ""
        changed = f'{change.text[:end]}{comma} "theirs" : 1.50{change.text[end:]}'
    left = remove_entries(changed, replaced=change.replaced, empty_before=names).text
    assert json.loads(left) == with_theirs | {"theirs": 1.5}
    assert '"theirs" : 1.50' in left


@given(texts(), WANTED)
def test_without_a_receipt_nothing_of_ours_is_left(text, wanted):
    left = remove_entries(add_entries(text, wanted, replace=True).text).text
    check_settings(left, "settings")
    assert remove_entries(left).messages == ()


def test_the_entries_are_as_claude_code_reads_them(settings):
    installed(settings, InstallOptions(("/opt/every turn/everturn",), shrink=30_000))

    def handler(*arguments: str, timeout: int = 30) -> dict:
        return {
            "type": "command",
            "command": "/opt/every turn/everturn",
            "args": ["hook", *arguments],
            "timeout": timeout,
        }

    assert json.loads(settings.read_text()) == {
        "statusLine": {
            "type": "command",
            "command": "'/opt/every turn/everturn' statusline",
            "padding": 0,
            "refreshInterval": 10,
        },
        "hooks": {
            "PreCompact": [{"hooks": [handler("PreCompact")]}],
            "SessionStart": [{"matcher": "compact", "hooks": [handler("SessionStart")]}],
            "SessionEnd": [{"hooks": [handler("SessionEnd", timeout=1)]}],
            "PostToolUse": [
                {
                    "matcher": "Bash|Grep|WebFetch|mcp__.*",
                    "hooks": [handler("PostToolUse", "--shrink", "30000")],
                }
            ],
        },
    }


def test_a_handler_of_ours_among_others_goes_alone():
    ours = {"type": "command", "command": "everturn", "args": ["hook", "Stop"]}
    text = json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "x"}, ours, {"command": "y"}]}]}}
    )
    assert json.loads(remove_entries(text).text) == {
        "hooks": {"Stop": [{"hooks": [{"type": "http", "url": "x"}, {"command": "y"}]}]}
    }


def test_another_program_of_a_similar_name_is_not_ours():
    handler = {"type": "command", "command": "everturned", "args": ["hook"]}
    line = {"command": "echo everturn statusline"}
    text = json.dumps({"statusLine": line, "hooks": {"Stop": [{"hooks": [handler]}]}})
    assert remove_entries(text) == (text, (), "")


def test_installing_from_another_place_changes_only_what_is_called(settings):
    settings.write_text('{"a":  1.50}')
    installed(settings, InstallOptions(("/old/everturn",), shrink=5_000, server=True))
    settings.write_text(settings.read_text().replace('"refreshInterval": 10', '"refreshInterval":   99'))
    moved = installed(settings, ALL, replacing=False)
    assert [line.split(":")[0] for line in moved.messages] == [
        "status line",
        "hook PreCompact",
        "hook SessionStart",
        "hook SessionEnd",
        "hook PostToolUse",
        "MCP server",
    ]
    after = settings.read_text()
    assert ("/old/everturn" in after, "5000" in after, '"refreshInterval":   99' in after) == (
        False,
        False,
        True,
    )
    assert not installed(settings, ALL, replacing=False).is_needed
    uninstalled(settings)
    assert settings.read_text() == '{"a":  1.50}'


def test_our_handler_among_others_is_made_to_call_this_program():
    old = {"type": "command", "command": "/old/everturn", "args": ["hook", "PreCompact"]}
    text = json.dumps(
        {"hooks": {"PreCompact": [{"hooks": [{"command": "x"}]}, {"hooks": [{"command": "y"}, old]}]}}
    )
    changed = json.loads(add_entries(text, InstallOptions(status_line=False), replace=False).text)["hooks"][
        "PreCompact"
    ]
    ours = hook_entries(InstallOptions())["PreCompact"]["hooks"]
    assert changed == [{"hooks": [{"command": "x"}]}, {"hooks": [{"command": "y"}, *ours]}]


def test_a_server_of_our_name_that_is_not_ours_is_left_alone():
    text = '{"mcpServers": {"everturn": {"url": "x"}}}'
    assert add_entries(text, InstallOptions(status_line=False, hooks=False, server=True), replace=True) == (
        text,
        (),
        "",
    )


def test_a_status_line_of_somebody_else_is_kept_unless_replaced(settings):
    text = '{"statusLine": {"command": "mine.sh",   "padding": 1}}'
    settings.write_text(text)
    with pytest.raises(StatusLineTaken, match=r"A status line is configured already: 'mine\.sh'"):
        installed(settings, replacing=False)
    assert settings.read_text() == text
    installed(settings, InstallOptions(status_line=False), replacing=False)
    installed(settings, InstallOptions(), replacing=True)
    settings.write_text(settings.read_text().replace('"hooks"', '"theirs": 1, "hooks"'))
    uninstalled(settings)
    assert json.loads(settings.read_text()) == json.loads(text) | {"theirs": 1}
    assert '{"command": "mine.sh",   "padding": 1}' in settings.read_text()


def test_the_backup_is_beside_the_file_and_private(settings, tmp_path):
    settings.write_text("{}")
    settings.chmod(0o644)
    installed(settings)
    backup = tmp_path / "settings.json.everturn-20261115-104105.bak"
    assert backup.read_text() == "{}"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {settings.name: 0o644, backup.name: 0o600, "settings.json.everturn.json": 0o600}


def test_a_file_that_was_changed_since_keeps_its_backup(settings, tmp_path):
    settings.write_text("{}")
    installed(settings)
    settings.write_text(settings.read_text().replace("{", '{"theirs": 1,', 1))
    removal = uninstalled(settings)
    assert (removal.is_exact, json.loads(settings.read_text())) == (False, {"theirs": 1})
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".bak", ".json"]


def test_a_backup_never_overwrites_another(settings, tmp_path):
    for content in ('{"a": 1}', '{"a": 2}'):
        settings.write_text(content)
        installed(settings)
    assert {path.read_text() for path in tmp_path.glob("*.bak")} == {'{"a": 1}', '{"a": 2}'}


def test_two_installations_are_undone_to_what_was_before_the_first(settings, tmp_path):
    settings.write_text('{"a":  1}')
    installed(settings, InstallOptions(hooks=False))
    installed(settings, ALL)
    uninstalled(settings)
    assert (settings.read_text(), len(list(tmp_path.iterdir()))) == ('{"a":  1}', 1)


def test_entries_that_were_taken_out_by_hand_come_back_and_go_for_good(settings):
    installed(settings, InstallOptions())
    value = json.loads(settings.read_text())
    del value["hooks"]["PreCompact"]
    settings.write_text(json.dumps(value))
    assert [line.split(":")[0] for line in installed(settings, InstallOptions()).messages] == [
        "hook PreCompact"
    ]
    uninstalled(settings)
    assert json.loads(settings.read_text()) == {}


def test_a_file_and_folder_that_we_made_are_gone_again(tmp_path):
    path = tmp_path / "new" / "settings.json"
    planned = install.plan_installation(str(path), ALL)
    install.apply_installation(planned, NOW, may_make_folder=True)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert uninstalled(path).messages == ("the file was deleted: it did not exist before",)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", " \n", "\ufeff"])
def test_an_empty_file_is_an_empty_object(settings, content):
    settings.write_text(content)
    installed(settings)
    assert "statusLine" in json.loads(settings.read_text(encoding="utf-8-sig"))
    uninstalled(settings)
    assert settings.read_text() == content


def test_a_link_is_followed_and_stays_a_link(settings, tmp_path):
    target = tmp_path / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_text("{}")
    settings.symlink_to(target)
    planned = installed(settings)
    assert planned.file.display_path == f"{settings} (a link to {target})"
    assert settings.is_symlink()
    assert "statusLine" in json.loads(target.read_text())
    assert os.listdir(target.parent) == ["claude.json"]
    uninstalled(settings)
    assert (settings.is_symlink(), target.read_text()) == (True, "{}")


def test_somebody_else_writing_meanwhile_is_noticed(settings):
    settings.write_text("{}")
    planned = install.plan_installation(str(settings), ALL)
    settings.write_text('{"theirs": 1}')
    with pytest.raises(StoreError, match="was changed by another program"):
        install.apply_installation(planned, NOW)
    assert settings.read_text() == '{"theirs": 1}'
    uninstalled(settings)
    assert settings.read_text() == '{"theirs": 1}'


def test_a_crash_before_the_settings_are_written_leaves_them_as_they_were(settings, monkeypatch):
    settings.write_text("{}")
    planned = install.plan_installation(str(settings), ALL)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(install, "replace_file", crash)
    with pytest.raises(KeyboardInterrupt):
        install.apply_installation(planned, NOW)
    assert uninstalled(settings).messages == ()
    assert settings.read_text() == "{}"


def test_a_disk_that_fails_leaves_no_half_file(settings, monkeypatch, tmp_path):
    settings.write_text("{}")
    planned = install.plan_installation(str(settings), ALL)
    replacing = os.replace

    def fail(source: str, target: str) -> None:
        if target == str(settings):
            raise OSError(28, "No space left on device")
        replacing(source, target)

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(StoreError, match="could not be written: No space left on device"):
        install.apply_installation(planned, NOW)
    assert settings.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def test_a_read_only_file_is_left_alone(settings, tmp_path):
    settings.write_text("{}")
    settings.chmod(0o444)
    with pytest.raises(StoreError, match=r"is read-only. Nothing was changed\. Run `chmod u\+w"):
        installed(settings)
    assert (settings.read_text(), len(list(tmp_path.iterdir()))) == ("{}", 1)


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(StoreError, match="Folder not found"):
        installed(tmp_path / "nowhere" / "settings.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b"{\n  // mine\n}",
            "is not valid JSON: comments are not allowed in JSON, remove the one at line 2, column 3",
        ),
        (b"{,}", "is not valid JSON"),
        (b"[]", "contains a list, not a JSON object"),
        (b'"text"', "contains a string, not a JSON object"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 (byte 0)"),
        (b'{"hooks": []}', "hooks is a list, not an object"),
        (b'{"hooks": null}', "hooks is null, not an object"),
        (b'{"hooks": {"Stop": {}}}', "hooks.Stop is an object, not a list"),
        (b'{"mcpServers": 3}', "mcpServers is a number, not an object"),
    ],
)
def test_settings_that_cannot_be_changed_are_refused_with_words(settings, content, says):
    settings.write_bytes(content)
    with pytest.raises(InputError) as caught:
        installed(settings)
    assert says in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    assert settings.read_bytes() == content


def test_a_directory_in_its_place_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        installed(tmp_path)


def test_a_backup_that_is_lost_or_changed_is_told(settings):
    settings.write_text('{"a": 1}')
    installed(settings)
    after = settings.read_bytes()
    receipt = receipts.read_receipt(str(settings))
    assert receipt
    Path(receipt.backup).write_text("{}")
    with pytest.raises(StoreError, match="was modified"):
        uninstalled(settings)
    Path(receipt.backup).unlink()
    with pytest.raises(StoreError, match="could not be read"):
        uninstalled(settings)
    assert settings.read_bytes() == after
    Path(receipts.receipt_path(str(settings))).unlink()
    uninstalled(settings)
    assert settings.read_text() == '{"a": 1}'


def test_a_broken_receipt_is_no_receipt(settings):
    installed(settings)
    Path(receipts.receipt_path(str(settings))).write_text("{")
    uninstalled(settings)
    assert json.loads(settings.read_text()) == {}


def test_settings_that_are_gone_need_no_cleaning(settings, tmp_path):
    settings.write_text("{}")
    installed(settings)
    settings.unlink()
    assert uninstalled(settings).messages == ()
    assert not Path(receipts.receipt_path(str(settings))).exists()


def test_a_broken_file_without_anything_of_ours_is_passed_over(settings):
    settings.write_text("{ not json")
    assert uninstalled(settings).messages == ()


def test_a_broken_file_with_something_of_ours_is_told(settings):
    settings.write_text('{ "everturn"')
    with pytest.raises(EverturnError, match="is not valid JSON"):
        uninstalled(settings)
