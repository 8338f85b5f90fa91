"""docs/twin.md lists every option, every fault and every control path."""

import re
from dataclasses import MISSING, fields
from datetime import date, datetime
from pathlib import Path

from everturn.twin.faults import FAULT_KINDS, FAULT_VENDORS, InjectedFault
from everturn.twin.options import TwinOptions
from everturn.twin.routes import _ROUTES

PAGE = (Path(__file__).parents[2] / "docs" / "twin.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))


def shown(value):
    """A default in the format of the page."""
    if value is None or value == {} or value == frozenset():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_page_lists_every_option_with_its_default():
    options = TwinOptions()
    defaults = {field.name: shown(getattr(options, field.name)) for field in fields(TwinOptions)}
    assert {name: ROWS.get(name, "").strip("`") for name in defaults} == defaults


def test_the_page_lists_every_kind_of_fault_its_fields_and_its_vendors():
    assert [kind for kind in FAULT_KINDS if f"`{kind}`" not in PAGE] == []
    assert [vendor for vendor in FAULT_VENDORS if vendor not in PAGE] == []
    settable = [
        field.name
        for field in fields(InjectedFault)
        if field.default is not MISSING or field.name == "headers"
    ]
    assert [name for name in settable if f"`{name}`" not in PAGE] == []


def test_the_page_lists_every_control_path():
    assert [path for path in _ROUTES if path.startswith("/twin") and path not in PAGE] == []
