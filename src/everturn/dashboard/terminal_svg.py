"""Terminal lines as an SVG image that needs no font file.

The same lines give the same bytes, so an image in the manual changes only if its content does.
"""

from collections.abc import Iterable
from html import escape
from io import StringIO
from typing import Final

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

# Light text on a dark background, each colour with a contrast above 4.5:1 (WCAG AA), in ANSI order.
THEME: Final = TerminalTheme(
    background=(22, 24, 29),
    foreground=(214, 218, 224),
    normal=[
        *((90, 96, 108), (240, 113, 120), (145, 201, 122), (229, 192, 106)),
        *((108, 170, 240), (198, 146, 233), (98, 196, 206), (214, 218, 224)),
    ],
    bright=[
        *((140, 147, 160), (255, 140, 146), (166, 218, 149), (245, 212, 134)),
        *((138, 190, 255), (216, 170, 246), (128, 216, 224), (255, 255, 255)),
    ],
)
# Pixels: a character of a 14 px monospaced font is about 0.6 of that wide.
LETTER, LINE, SIZE, MARGIN = 8.4, 19, 14, 18
FONTS: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def svg(lines: Iterable[Text], *, columns: int, title: str) -> str:
    """An image of these lines on a background of this many columns; `title` is the alternative text."""
    console = Console(width=columns, file=StringIO(), force_terminal=True, color_system="truecolor")
    # A text without spans renders without its own style; a text that is part of another one has a span.
    rows = [list(Text.assemble(line).render(console)) for line in lines]
    width, height = columns * LETTER + 2 * MARGIN, len(rows) * LINE + 2 * MARGIN
    drawn = "\n".join(_row(row, MARGIN + SIZE + at * LINE) for at, row in enumerate(rows) if row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{_hex(THEME.background_color)}"/>\n'
        f'<g font-family="{FONTS}" font-size="{SIZE}">\n{drawn}\n</g>\n</svg>\n'
    )


def _row(row: list[Segment], baseline: int) -> str:
    """Each run of one style starts at its own column, so that columns are aligned in any font."""
    runs: list[str] = []
    column = 0
    for text, style, _ in row:
        if text.strip():
            runs.append(_run(text, style or Style(), MARGIN + column * LETTER, baseline))
        column += cell_len(text)
    return "".join(runs)


def _run(text: str, style: Style, left: float, baseline: int) -> str:
    weight = ' font-weight="bold"' if style.bold else ""
    opacity = ' opacity="0.7"' if style.dim else ""
    length = f'textLength="{cell_len(text) * LETTER:.1f}" lengthAdjust="spacingAndGlyphs"'
    colour = _hex(_triple(style.color))
    place = f'x="{left:.1f}" y="{baseline}" {length}'
    # Browsers collapse several spaces, unless they are no-break spaces.
    shown = escape(text).replace(" ", "\N{NO-BREAK SPACE}")
    return f'<text {place} fill="{colour}"{weight}{opacity}>{shown}</text>'


def _triple(color: Color | None) -> tuple[int, int, int]:
    return THEME.foreground_color if color is None else color.get_truecolor(THEME)


def _hex(triple: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*triple)
