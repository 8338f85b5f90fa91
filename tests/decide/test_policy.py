"""Policies: named bundles, and a manual that says what is in them."""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everturn.decide.policy import POLICIES, get_policy
from everturn.decide.settings import MicroSettings
from everturn.decide.tools import DEFAULT_TOOLS
from everturn.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "micro-compaction.md"


@pytest.mark.spec("CF-3")
def test_the_named_policies_are_there_and_each_goes_by_its_name():
    assert {"claude-code", "frugal", "none", "sliding-window", "clear-keep-3", "masking"} <= set(POLICIES)
    assert {name: get_policy(name).name for name in POLICIES} == {name: name for name in POLICIES}


@pytest.mark.spec("CF-3")
def test_a_name_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(UsageError, match=r"no policy 'clod'\. Choose one of: claude-code, clear-keep-3, "):
        get_policy("clod")


def shown(value: Any) -> str:
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds() // 60)} minutes"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    return str(value)


def policy_rows() -> list[str]:
    rows = ["| policy | steps | tools | API clears | what it is |", "|---|---|---|---|---|"]
    for each in POLICIES.values():
        tools = "sorted" if each.tools == DEFAULT_TOOLS else "all alike"
        asks = "yes" if each.declares else "no"
        rows.append(
            f"| `{each.name}` | {', '.join(each.steps) or 'none'} | {tools} | {asks} | {each.about} |"
        )
    return rows


def number_rows() -> list[str]:
    rows = ["| setting | default |", "|---|---|"]
    settings = MicroSettings()
    for kind in settings.__struct_fields__:
        value = getattr(settings, kind)
        if not isinstance(value, msgspec.Struct):
            rows.append(f"| `{kind}` | {shown(value)} |")
            continue
        rows += [
            f"| `{kind}.{name}` | {shown(getattr(value, name))} |" for name in type(value).__struct_fields__
        ]
    return rows


@pytest.mark.parametrize(("part", "rows"), [("policies", policy_rows()), ("numbers", number_rows())])
def test_the_manual_shows_the_values_as_they_are(part: str, rows: list[str]):
    """Set EVERTURN_WRITE_DOCS=1 to write the tables anew."""
    pattern = re.compile(rf"(<!-- {part} -->\n)(.*?)(<!-- /{part} -->)", re.DOTALL)
    page = PAGE.read_text(encoding="utf-8")
    table = "\n".join(rows) + "\n"
    if os.environ.get("EVERTURN_WRITE_DOCS"):
        page = pattern.sub(lambda found: found[1] + table + found[3], page)
        PAGE.write_text(page, encoding="utf-8")
    found = pattern.search(page)
    assert found is not None
    assert found[2] == table


def test_every_number_can_be_replaced_and_a_policy_is_a_plain_value():
    changed = msgspec.structs.replace(get_policy("claude-code"), micro=MicroSettings(main="sdk"))
    assert changed != get_policy("claude-code")
    assert hash(get_policy("claude-code")) == hash(get_policy("claude-code"))
