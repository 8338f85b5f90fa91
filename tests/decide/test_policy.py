"""Policies: named bundles, and a manual that says what is in them."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from everturn.decide.options import Options
from everturn.decide.policy import POLICIES, get_policy
from everturn.decide.settings import MicroSettings
from everturn.decide.tools import DEFAULT_TOOLS
from everturn.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "micro-compaction.md"


@pytest.mark.spec("CF-3")
def test_the_named_policies_are_there_and_each_goes_by_its_name():
    assert {"claude-code", "frugal", "none", "sliding-window", "clear-keep-3", "masking"} <= set(POLICIES)
    named = {name: (get_policy(name).name, get_policy(name).options.policy) for name in POLICIES}
    assert named == {name: (name, name) for name in POLICIES}


@pytest.mark.spec("CF-3")
def test_a_name_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(UsageError) as raised:
        get_policy("clod")
    assert str(raised.value) == f"No policy is named 'clod'. Choose one of: {', '.join(sorted(POLICIES))}."


def policy_rows() -> list[str]:
    rows = ["| policy | steps | tools | API clears | what it is |", "|---|---|---|---|---|"]
    for each in POLICIES.values():
        tools = "sorted" if each.options.tools == DEFAULT_TOOLS else "all alike"
        asks, steps = "yes" if each.options.declares else "no", ", ".join(each.options.steps) or "none"
        rows.append(f"| `{each.name}` | {steps} | {tools} | {asks} | {each.about} |")
    return rows


def test_the_manual_shows_the_policies_as_they_are():
    """Set EVERTURN_WRITE_DOCS=1 to write the table again. Numbers are in docs/configuration.md."""
    pattern = re.compile(r"(<!-- policies -->\n)(.*?)(<!-- /policies -->)", re.DOTALL)
    page = PAGE.read_text(encoding="utf-8")
    table = "\n".join(policy_rows()) + "\n"
    if os.environ.get("EVERTURN_WRITE_DOCS"):
        page = pattern.sub(lambda found: found[1] + table + found[3], page)
        PAGE.write_text(page, encoding="utf-8")
    found = pattern.search(page)
    assert found is not None
    assert found[2] == table


def test_every_number_can_be_replaced_and_a_policy_is_a_plain_value():
    preset = get_policy("economic").options
    changed = msgspec.structs.replace(preset, micro=MicroSettings(main="sdk"))
    assert changed != preset
    assert preset == Options()
