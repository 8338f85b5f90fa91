"""HTML and SVG values that are always escaped: a plain string cannot become markup.

Only `element` and `raw` create `Html`, and `raw` is only called with files of this package. Text from
sessions (paths, reasons, names) is a plain string, so it is escaped when it becomes a child or an attribute.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

Child = str | Iterable[str]
Attribute = str | int | float | bool | None

_VOID: Final = {"meta", "br", "line", "rect", "path", "polyline", "circle"}
_OPENING_ANGLE, _CLOSING_ANGLE, _AMPERSAND = "\\u003c", "\\u003e", "\\u0026"


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def element(name: str, *children: Child, **attributes: Attribute) -> Html:
    """`element("a", "text", class_="b", data_x=1)`. True is an attribute without value; False and None omit
    it.
    """
    inside = "".join(_text(child) for child in children)
    opening = f"<{name}{_spelled(attributes)}>"
    if name in _VOID and not inside:
        return Html(opening[:-1] + "/>")
    return Html(f"{opening}{inside}</{name}>")


def joined(children: Child) -> Html:
    return Html(_text(children))


def raw(text: str) -> Html:
    """Markup, style or script from this package."""
    return Html(text)


def json_script(spelled: str, **attributes: Attribute) -> Html:
    """JSON inside a script element, escaped so that nothing in it can close the element."""
    safe = spelled.replace("&", _AMPERSAND).replace("<", _OPENING_ANGLE).replace(">", _CLOSING_ANGLE)
    return Html(f'<script type="application/json"{_spelled(attributes)}>{safe}</script>')


def _text(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(child)
    return "".join(_text(each) for each in child)


def _spelled(attributes: Mapping[str, Attribute]) -> str:
    return "".join(_attribute(name, value) for name, value in attributes.items())


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    spelled = name.rstrip("_").replace("_", "-")
    return f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'
