"""A picture of cost against refetches, one point per policy, as a page of its own (EC-9)."""

from everturn.replay.compare import ComparisonRow, ComparisonTable, describe_saving
from everturn.replay.page.document import wrap_page
from everturn.replay.page.markup import Html, element

_WIDTH, _HEIGHT, _MARGIN = 720, 420, 60


def render_tuning(compared: ComparisonTable, said: str) -> str:
    """`said` is the recommendation in a sentence."""
    rows = [row for row in compared.rows if row.calls]
    heads = ("policy", "dollars", "saved against recorded", "refetches per 100 calls")
    table = element(
        "table",
        element("tr", [element("th", head) for head in heads]),
        [element("tr", [element("td", cell) for cell in _cells(row)]) for row in rows],
    )
    return wrap_page(
        "Cost against refetches",
        element(
            "main",
            element("h1", "Cost against refetches"),
            element("p", said),
            _figure(rows),
            element("div", table, class_="scroll"),
            element("footer", "Made by everturn. This file is self-contained and makes no network requests."),
        ),
    )


def _cells(row: ComparisonRow) -> tuple[str, str, str, str]:
    saved = describe_saving(row.against_recorded) if row.against_recorded is not None else "-"
    return row.policy, f"${row.dollars:,.2f}", saved, f"{row.refetches_per_100:.1f}"


def _figure(rows: list[ComparisonRow]) -> Html:
    """Left is cheaper, down is fewer refetches."""
    dollars = max((float(row.dollars) for row in rows), default=0.0) or 1.0
    refetches = max((row.refetches_per_100 for row in rows), default=0.0) or 1.0
    points: list[Html] = []
    for row in rows:
        x = _MARGIN + (_WIDTH - 3 * _MARGIN) * float(row.dollars) / dollars
        y = _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * row.refetches_per_100 / refetches
        points.append(element("circle", cx=round(x, 1), cy=round(y, 1), r=6, fill="#3c9d8b"))
        points.append(_text(row.policy, x + 10, y + 4))
    axis = _HEIGHT - _MARGIN
    return element(
        "svg",
        element("line", x1=_MARGIN, x2=_WIDTH - _MARGIN, y1=axis, y2=axis, stroke="currentColor"),
        element("line", x1=_MARGIN, x2=_MARGIN, y1=_MARGIN, y2=axis, stroke="currentColor"),
        _text(f"dollars, 0 to {dollars:,.2f}", _MARGIN, axis + 30),
        _text(f"refetches per 100 calls, 0 to {refetches:.1f}", _MARGIN, _MARGIN - 15),
        points,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label="Cost against refetches, one point per policy",
    )


def _text(words: str, x: float, y: float) -> Html:
    return element("text", words, x=round(x, 1), y=round(y, 1), fill="currentColor", font_size=13)
