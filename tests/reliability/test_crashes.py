"""Processes die, disks fail, the power goes out: nothing acknowledged is lost, and nothing is half done."""

import os
import stat
from pathlib import Path

import msgspec
import pytest
from reliability.crashes import forked, points, theatre
from reliability.kinds import KINDS
from reliability.saboteur import ENDINGS, Point
from reliability.scenes import SCENES
from reliability.score import Row, Tally, tally

from everturn.errors import StoreError
from everturn.history.records import Record
from everturn.session.store import JsonlStore

FIRST = 20_261_115
SHARES = 2
# Beside those at every call of every scene; `make soak` kills more.
KILLS_EACH = 100
CUTS_EACH = 250
# The user that owns nothing: what a process may do that is not root.
NOBODY = 65_534


@pytest.mark.spec("TR-10", "CP-28")
@pytest.mark.parametrize("scene", SCENES)
def test_a_kill_before_within_and_after_every_call_of_a_scene_loses_nothing(scene, settle):
    found = points(scene)
    for point in found:
        theatre().trial(scene, point)
    row = Row(kind="kills at every call", trials=len(found), faults=len(found), survived=len(found))
    assert settle(row, 0) > 0


@pytest.mark.spec("TR-10", "CP-28")
@pytest.mark.parametrize("share", range(SHARES))
def test_kills_by_chance_at_any_byte_lose_nothing(share, settle):
    first = FIRST + share * KILLS_EACH
    done = tally(KINDS["kills"], range(first, first + KILLS_EACH))
    settle(done.row, first)
    assert min(done.counts[what] for what in (*SCENES, "before", "inside", "after")) > 0


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("scene", SCENES)
def test_a_disk_that_fails_at_any_call_once_or_for_ever_loses_nothing(scene, settle):
    calls = [point for point in points(scene) if point.when == "before"]
    every = [
        Point(point.at, "before", 0.5, ending, for_ever)
        for point in calls
        for ending in ENDINGS
        for for_ever in (False, True)
    ]
    # Each call fails in one of the ten ways here; `make soak` draws all of them by chance.
    chosen = [every[at * len(ENDINGS) * 2 + at % (len(ENDINGS) * 2)] for at in range(len(calls))]
    for point in chosen:
        theatre().trial(scene, point)
    row = Row(kind="failures at every call", trials=len(chosen), faults=len(chosen), survived=len(chosen))
    assert settle(row, 0) > 0


@pytest.mark.spec("TR-10")
def test_disk_failures_by_chance_are_told_and_lose_nothing(settle):
    done = tally(KINDS["disk-failures"], range(FIRST, FIRST + 100))
    settle(done.row, FIRST)
    assert min(done.counts[what] for what in (*SCENES, *ENDINGS, "told")) > 0


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("share", range(4))
def test_power_cuts_with_pages_lost_in_any_order_leave_the_old_view_or_the_new(share, settle):
    first = FIRST + share * CUTS_EACH
    assert settle(tally(KINDS["power-cuts"], range(first, first + CUTS_EACH)).row, first) == CUTS_EACH


def test_an_index_that_the_kernel_cut_off_finds_what_a_new_one_finds(settle):
    done: Tally = tally(KINDS["index-kills"], range(FIRST, FIRST + 30))
    settle(done.row, FIRST)
    assert done.counts["killed"] > 15


def test_a_batch_of_one_trial_is_a_row_that_another_process_can_read():
    """A slow machine gets batches of one. A count that was a bool could not be read."""
    for seed in range(FIRST, FIRST + 5):
        row = tally(KINDS["index-kills"], [seed]).row
        assert msgspec.json.decode(msgspec.json.encode(row), type=Row) == row


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give up its rights to see what others meet")
def test_a_folder_that_cannot_be_written_is_told_and_the_session_stays_readable(tmp_path: Path):
    path = tmp_path / "kept" / "session.jsonl"
    with JsonlStore.open(path, fsync="never") as store:
        store.append([Record(kind="user", uuid="1")])
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"{folder} is closed to others")
    path.parent.chmod(0o755)
    path.chmod(0o644)

    def child(pipe: int) -> None:
        os.setuid(NOBODY)
        try:
            JsonlStore.open(path)
        except StoreError as problem:
            os.write(pipe, str(problem).encode() + b"\n")
        with JsonlStore.open(path, access="read") as store:
            os.write(pipe, store.records[0].uuid.encode())
        os._exit(0)

    told, code = forked(child)
    refused = "cannot be opened: Permission denied. Check the permissions of the file and of its folder."
    assert (code, told.decode().splitlines()) == (0, [f"{path} {refused}", "1"])
