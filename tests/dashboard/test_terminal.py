"""What people see, to the letter. After a wanted change: EVERTURN_WRITE_GOLDEN=1 pytest tests/dashboard"""

import io
import os
from decimal import Decimal
from pathlib import Path

import pytest
from rich.cells import cell_len
from small_session import SmallSession, call, compacted, reading, text

from everturn.dashboard.layout import Screen
from everturn.dashboard.report import ContextReport, context_report
from everturn.dashboard.terminal import draw, drawn
from everturn.decide.options import Options
from everturn.measure.money import format_dollars
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.recorded import measure_transcript, open_session
from everturn.wire.claude_code_reader import parse_session_file

GOLDEN = Path(__file__).parent / "golden"
EXAMPLE = Path(__file__).parents[2] / "examples" / "session.jsonl"


def report_of(session: SmallSession, **settings) -> ContextReport:
    return context_report(
        measure_transcript(parse_session_file(session.to_bytes()), source="session.jsonl", **settings)
    )


def lines_of(report: ContextReport, screen: Screen) -> list[str]:
    return [line.plain.rstrip() for line in drawn(report, screen)]


def check_golden(name: str, lines: list[str]) -> None:
    path = GOLDEN / name
    found = "\n".join(lines) + "\n"
    if os.environ.get("EVERTURN_WRITE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8"), (
        "after a wanted change: EVERTURN_WRITE_GOLDEN=1 pytest tests/dashboard"
    )


def odd() -> SmallSession:
    """Everything at once that is rare: a model nobody knows, a steering path, a wide one, an open call."""
    return (
        SmallSession("some-model")
        .human("Hi.")
        .reply("m1", call("c1", "Read", file_path="/home/me/\x1b[31mred\u202e.py"), plain=3_000)
        .result("c1", "x" * 4_000)
        .reply("m2", call("c2", "Read", file_path="/home/me/" + "長い名前" * 20), plain=4_300)
        .result("c2", "x" * 400)
        .reply("m3", call("c3", "mcp__" + "long" * 20 + "__tool"), plain=4_500)
        .human("Stop.")
    )


def test_the_example_session_at_80_columns():
    report = context_report(open_session(EXAMPLE))
    report = ContextReport(
        **{field: getattr(report, field) for field in report.__struct_fields__}
        | {"source": "examples/session.jsonl"}
    )
    check_golden("example-80.txt", lines_of(report, Screen(80)))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_small_session(width):
    check_golden(f"reading-{width}.txt", lines_of(report_of(reading()), Screen(width)))


def test_a_compacted_session_in_letters():
    check_golden("compacted-ascii-80.txt", lines_of(report_of(compacted()), Screen(80, ascii_only=True)))


def test_an_odd_session():
    check_golden("odd-60.txt", lines_of(report_of(odd()), Screen(60)))


def test_an_empty_session_says_that_there_is_nothing_in_it():
    report = context_report(measure_transcript(parse_session_file(b""), source="new.jsonl"))
    assert lines_of(report, Screen(80)) == ["new.jsonl", "The session is empty."]


@pytest.mark.parametrize("width", [1, 5, 12, 20, 39, 40, 41, 59, 60, 61, 79, 80, 100, 120, 200])
@pytest.mark.parametrize("session", [reading, compacted, odd])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_nothing_is_wider_than_the_screen(width, session, ascii_only):
    lines = lines_of(report_of(session()), Screen(width, ascii_only))
    assert max(map(cell_len, lines)) <= width
    assert all(line.isprintable() and (line.isascii() or not ascii_only) for line in lines)


@pytest.mark.parametrize(
    ("context", "says"),
    [
        (150_000, "Warning: 10% left until automatic compaction at 167k"),
        (168_000, "Due for compaction: the threshold is 167,000 tokens"),
        (178_000, "Full: the blocking limit is 177,000 tokens"),
    ],
)
def test_the_headline_says_what_is_about_to_happen(context, says):
    report = report_of(SmallSession().human("Hi.").reply("m1", text(""), plain=context))
    assert lines_of(report, Screen(80))[3] == says


@pytest.mark.spec("TOK-15")
def test_without_automatic_compaction_the_headline_names_the_effective_window():
    session = SmallSession().human("Hi.").reply("m1", text(""), plain=90_000)
    off = Options(thresholds=ThresholdSettings(auto_compaction=False))
    report = report_of(session, options=off)
    assert lines_of(report, Screen(80))[3] == "50% left of 180k; automatic compaction is off"
    assert (report.free, report.buffer) == (90_000, 20_000)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class AsciiPipe(io.StringIO):
    encoding = "ascii"


@pytest.fixture
def _plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def drawn_on(file: io.StringIO, **settings) -> str:
    draw(report_of(reading()), file, **settings)
    return file.getvalue()


@pytest.mark.usefixtures("_plain_environment")
def test_a_terminal_gets_colours_and_a_pipe_gets_the_golden_text(monkeypatch):
    assert "\x1b[34m■" in drawn_on(Terminal())
    piped = [line.rstrip() for line in drawn_on(io.StringIO()).splitlines()]
    assert all(line.isascii() for line in piped), "a StringIO has no encoding: letters"
    assert "\x1b" not in "".join(piped)


@pytest.mark.usefixtures("_plain_environment")
def test_no_color_leaves_no_colour(monkeypatch):
    assert "\x1b[3" not in drawn_on(Terminal(), color=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in drawn_on(Terminal())
    assert "■" in drawn_on(Terminal())


@pytest.mark.usefixtures("_plain_environment")
def test_a_terminal_without_shapes_gets_letters():
    written = drawn_on(AsciiPipe())
    assert written.isascii()
    assert "S System prompt, tools" in written


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "$0.00"),
        ("0.00001", "<$0.0001"),
        ("0.00005", "<$0.0001"),
        ("0.5", "$0.5000"),
        ("1234.5", "$1,234.50"),
        ("-0.25", "-$0.2500"),
        ("-0.00001", ">-$0.0001"),
    ],
)
def test_a_price_that_is_not_nothing_is_never_shown_as_nothing(amount, shown):
    assert format_dollars(Decimal(amount)) == shown
