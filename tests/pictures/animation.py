"""Screens of a terminal as one SVG that plays them, without a script: pages that show pictures show it too.

All screens stand on a strip, one below the other, and the strip moves by one screen at a time. Equal lines
are drawn once. Where nothing moves (a reader who prefers that, a program without animations), the last
screen is shown.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rich.ansi import AnsiDecoder
from rich.color import ColorType
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

_CELL, _LINE, _SIZE = 8.4, 18, 14
_PAD, _BAR = 14, 34
_INK = "#c5c8c6"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class Frame(NamedTuple):
    """One screen, as lines with color codes, and how long it is shown."""

    lines: tuple[str, ...]
    seconds: float


def draw_animation(frames: Sequence[Frame], *, columns: int, rows: int, title: str) -> str:
    width, inner = round(columns * _CELL + 2 * _PAD), rows * _LINE
    height = inner + _BAR + _PAD
    known: dict[str, str] = {}
    screens = "\n".join(_screen(frame, at * inner, known) for at, frame in enumerate(frames))
    lines = "\n".join(f'<g id="{name}">{drawn}</g>' for drawn, name in known.items())
    dots = "".join(
        f'<circle cx="{20 + 18 * at}" cy="17" r="5" fill="{color}"/>'
        for at, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size}>
<title>{escape(title)}</title>
<style>
text {{ font: {_SIZE}px {_FONT}; white-space: pre; }}
.b {{ font-weight: bold; }}
.strip {{ transform: translateY(-{(len(frames) - 1) * inner}px); {_animation(frames)} }}
@keyframes play {{
{_keyframes(frames, inner)}
}}
@media (prefers-reduced-motion: reduce) {{ .strip {{ animation: none; }} }}
</style>
<defs>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#1d1f21"/>
{dots}
<text x="{width / 2}" y="21" text-anchor="middle" fill="{_INK}" opacity="0.7">{escape(title)}</text>
<svg x="{_PAD}" y="{_BAR}" fill="{_INK}" width="{width - 2 * _PAD}" height="{inner}">
<g class="strip">
{screens}
</g>
</svg>
</svg>
"""


def _animation(frames: Sequence[Frame]) -> str:
    return f"animation: play {sum(each.seconds for each in frames):.2f}s step-end infinite;"


def _keyframes(frames: Sequence[Frame], inner: int) -> str:
    total, at = sum(each.seconds for each in frames), 0.0
    lines: list[str] = []
    for number, each in enumerate(frames):
        lines.append(f"{100 * at / total:.3f}% {{ transform: translateY(-{number * inner}px); }}")
        at += each.seconds
    return "\n".join(lines)


def _screen(frame: Frame, top: int, known: dict[str, str]) -> str:
    used: list[str] = []
    # A color holds until it is changed, also in the lines below.
    decoder = AnsiDecoder()
    for row, line in enumerate(map(decoder.decode_line, frame.lines)):
        if drawn := _line(line):
            name = known.setdefault(drawn, f"l{len(known)}")
            used.append(f'<use href="#{name}" y="{top + row * _LINE}"/>')
    return "".join(used)


def _line(line: Text) -> str:
    """Each piece at its own column, so that fonts with other widths cannot shift what follows."""
    console = Console(color_system="truecolor", force_terminal=True, width=1_000)
    column, drawn = 0, ""
    for piece in Segment.filter_control(line.render(console)):
        if piece.text.strip():
            look = _look(piece.style or Style())
            length = f'textLength="{piece.cell_length * _CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
            drawn += f'<text x="{column * _CELL:.1f}" y="{_SIZE}" {length}{look}>{escape(piece.text)}</text>'
        column += piece.cell_length
    return drawn


def _look(style: Style) -> str:
    look = ' class="b"' if style.bold else ""
    if style.color is not None and style.color.type != ColorType.DEFAULT:
        look += f' fill="{style.color.get_truecolor(SVG_EXPORT_THEME).hex}"'
    return look + (' opacity="0.65"' if style.dim else "")
