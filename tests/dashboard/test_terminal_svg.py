"""Lines of a terminal as SVG."""

from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner
from rich.text import Text

from everturn.cli import main
from everturn.dashboard.terminal_svg import svg

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def runs(picture: str) -> list[tuple[str, str, str, str, str]]:
    found = ElementTree.fromstring(picture).iter(f"{SVG}text")
    names = ("x", "y", "fill", "font-weight")
    return [(*(each.get(name, "") for name in names), each.text or "") for each in found]


def test_every_run_of_one_style_stands_at_its_column_on_its_line():
    lines = [Text("Tools", "bold"), Text(), Text.assemble(("■ ", "blue"), "a <b> ", ("文x", "bold red"))]
    assert runs(svg(lines, columns=20, title="x")) == [
        ("18.0", "32", "#d6dae0", "bold", "Tools"),
        ("18.0", "70", "#6caaf0", "", "■\xa0"),
        ("34.8", "70", "#d6dae0", "", "a\xa0<b>\xa0"),
        ("85.2", "70", "#f07178", "bold", "文x"),
    ]


def test_the_picture_says_in_words_what_it_shows_and_asks_for_nothing_from_elsewhere():
    picture = svg([Text("a")], columns=4, title='The "context" of a & b')
    root = ElementTree.fromstring(picture)
    assert root.findtext(f"{SVG}title") == 'The "context" of a & b'
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_the_picture_in_the_manual_is_what_the_command_makes(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(ROOT)
    out = tmp_path / "context.svg"
    done = CliRunner().invoke(main, ["context", "examples/session.jsonl", "--svg", str(out)])
    assert (done.exit_code, done.output) == (0, "")
    assert out.read_bytes() == (ROOT / "docs" / "pictures" / "context.svg").read_bytes()


def test_a_picture_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path):
    out = tmp_path / "gone" / "context.svg"
    done = CliRunner().invoke(main, ["context", str(ROOT / "examples" / "session.jsonl"), "--svg", str(out)])
    assert (done.exit_code, done.output) == (
        1,
        f"Error: Cannot write {out}: No such file or directory.\n",
    )


def test_the_picture_is_written_beside_the_json(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(ROOT)
    out = tmp_path / "context.svg"
    both = ["context", "examples/session.jsonl", "--json", "--svg", str(out)]
    done = CliRunner().invoke(main, both)
    assert done.stdout == CliRunner().invoke(main, both[:3]).stdout
    assert out.read_bytes() == (ROOT / "docs" / "pictures" / "context.svg").read_bytes()
