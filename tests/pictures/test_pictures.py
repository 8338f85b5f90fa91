"""The pictures of the README say what their sources say."""

from xml.etree import ElementTree

from .animation import Frame, draw_animation
from .results import Row, draw, read_rows

PAGE = """
<!-- replay: economic -->
### 2 sessions: total cost

| policy | dollars | words kept | refetches/100 |
| --- | --: | --: | --: |
| none* | $1.00 | 99.6% | 0.0 |
| recorded | $1,304.17 | 64.8% | 0.0 |
| frugal | $652.00 | 99.6% | 1.2 |

| policy | other |
| --- | --- |
"""
SVG = "{http://www.w3.org/2000/svg}"


def test_the_chart_has_the_rows_of_the_table_that_can_be_compared():
    title, rows = read_rows(PAGE)
    assert (title, rows) == (
        "2 sessions: total cost",
        [Row("recorded", 1304.17, 64.8, 0.0), Row("frugal", 652.0, 99.6, 1.2)],
    )
    drawn = ElementTree.fromstring(draw(title, rows))
    texts = [each.text for each in drawn.iter(f"{SVG}text")]
    assert texts[-4:] == ["frugal", "$652", "99.6 %", "1.2"]
    widths = [float(each.get("width", 0)) for each in drawn.iter(f"{SVG}rect")]
    assert widths[1:] == [340.0, 170.0]


def test_a_recording_keeps_colours_over_lines_and_draws_equal_lines_once():
    frames = [
        Frame(("\x1b[33ma < b", "still", ""), 1.0),
        Frame(("\x1b[33ma < b", "\x1b[39mplain", ""), 3.0),
    ]
    drawn = ElementTree.fromstring(draw_animation(frames, columns=10, rows=3, title="t"))
    lines = {each.get("id"): next(iter(each)) for each in drawn.iter(f"{SVG}g") if each.get("id")}
    texts = [(line.text, line.get("fill")) for line in lines.values()]
    assert texts == [("a < b", "#d0b344"), ("still", "#d0b344"), ("plain", None)]
    uses = [(each.get("href"), each.get("y")) for each in drawn.iter(f"{SVG}use")]
    assert uses == [("#l0", "0"), ("#l1", "18"), ("#l0", "54"), ("#l2", "72")]
    (style,) = drawn.iter(f"{SVG}style")
    assert "25.000% { transform: translateY(-54px); }" in (style.text or "")
