"""A break leaves a file that its owner can read, and a disk that fails leaves the turn alone."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from view.talks import HEAD, tool

from everturn.decide.cache_breaks import CacheBreakDetector, DetectedBreak, Diagnosis
from everturn.decide.cache_key_snapshot import take_key_snapshot
from everturn.history.blocks import text_block
from everturn.history.records import Usage
from everturn.measure.outline import Preamble
from everturn.session.cache_break_reports import ReportNotWritten, write_cache_break_report
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters, TtlChoice

AT = datetime(2026, 11, 15, 12, 30, 5, 7000, tzinfo=UTC)
BEFORE = Preamble((tool("Read"),), (text_block("first line\nsecond line\nthird line"),))
AFTER = Preamble((tool("Read"),), (text_block("first line\nanother line\nthird line"),))
FOUND = DetectedBreak("main", 91_000, "system prompt changed (+1 chars)", (), 12.4)


def written(found: DetectedBreak, heads: tuple[Preamble | None, Preamble], folder: Path) -> str:
    path = write_cache_break_report(found, heads, folder, at=AT)
    assert isinstance(path, Path), path
    return path.read_text(encoding="utf-8")


@pytest.mark.spec("CB-4")
def test_a_break_leaves_the_difference_of_the_two_prompts_under_its_explanation(tmp_path: Path):
    lines = written(FOUND, (BEFORE, AFTER), tmp_path).splitlines()
    assert lines[:3] == [
        "cache break: system prompt changed (+1 chars)",
        "source main, 91,000 tokens lost, 12 s after the previous call",
        "",
    ]
    assert lines[3:9] == [
        "--- before",
        "+++ after",
        "@@ -1,5 +1,5 @@",
        " first line",
        "-second line",
        "+another line",
    ]


@pytest.mark.spec("CB-4")
def test_from_a_detector_to_the_file(tmp_path: Path):
    detector = CacheBreakDetector()
    for at, (head, read) in enumerate([(BEFORE, 50_000), (AFTER, 0)]):
        note = take_key_snapshot("m", head, KeyParameters(TtlChoice("5m", "")), Breakpoints())
        detector.before_call("main", note, head, float(at))
        verdict = detector.after_call("main", Usage(cache_read_input_tokens=read))
    heads = detector.preambles("main")
    assert isinstance(verdict, DetectedBreak)
    assert heads is not None
    assert (verdict.tokens_lost, verdict.why) == (50_000, "system prompt changed (+1 chars)")
    assert "+another line" in written(verdict, heads, tmp_path)


@pytest.mark.spec("CB-4")
def test_the_file_is_for_its_owner_alone_also_when_it_was_there_before(tmp_path: Path):
    path = write_cache_break_report(FOUND, (BEFORE, AFTER), tmp_path / "deep" / "down", at=AT)
    assert isinstance(path, Path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    assert write_cache_break_report(FOUND, (BEFORE, AFTER), tmp_path / "deep" / "down", at=AT) == path
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.spec("PC-2")
def test_a_section_that_changes_with_every_request_is_named_with_its_reason(tmp_path: Path):
    why = {"servers": "servers come and go within a turn"}
    path = write_cache_break_report(FOUND, (BEFORE, AFTER), tmp_path, at=AT, dangers=why)
    assert isinstance(path, Path)
    told = "section 'servers' is computed for every request: servers come and go within a turn"
    assert told in path.read_text().splitlines()


@pytest.mark.parametrize(
    ("source", "part"),
    [("main", "main"), ("agent:a/../../etc", "agent-a-..-..-etc"), ("", "source"), ("é" * 300, "source")],
)
def test_the_name_says_source_and_time_and_stays_in_its_folder(tmp_path: Path, source: str, part: str):
    found = msgspec.structs.replace(FOUND, source=source)
    path = write_cache_break_report(
        found, (BEFORE, AFTER), tmp_path, at=AT.astimezone(timezone(timedelta(hours=2)))
    )
    assert path == tmp_path / f"cache-break-{part}-20261115T123005007000.diff"


@pytest.mark.spec("CB-4")
def test_a_disk_that_fails_is_an_answer_and_raises_nothing(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    found = write_cache_break_report(FOUND, (BEFORE, AFTER), blocked, at=AT)
    assert isinstance(found, ReportNotWritten)
    assert found.why.startswith(f"{found.path} could not be written: ")


@pytest.mark.spec("CB-4", "CB-8")
def test_what_the_provider_said_and_a_disagreement_stand_beside_ours(tmp_path: Path):
    found = msgspec.structs.replace(
        FOUND, diagnosis=Diagnosis("tools_changed", 90_000), disagreement="they differ"
    )
    assert written(found, (BEFORE, AFTER), tmp_path).splitlines()[2:4] == [
        "the provider: tools_changed, 90,000 tokens missed",
        "they differ",
    ]


def test_equal_prompts_and_an_unknown_one_are_said_in_words(tmp_path: Path):
    assert "System prompt and tools are the same." in written(FOUND, (HEAD, HEAD), tmp_path)
    assert "restarted in between" in written(FOUND, (None, HEAD), tmp_path)
