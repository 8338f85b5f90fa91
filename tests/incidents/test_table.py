"""The table in docs/incidents.md is what the tests of this folder say of themselves.

A docstring tells in a sentence what happened, and ends with the threads in brackets.
"""

import ast
import os
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "incidents.md"
CITED = re.compile(r"^(?P<what>.+?) \((?P<threads>[^()]*#\d+[^()]*)\)\.$", re.DOTALL)
THREAD = re.compile(r"[\w-]+ ?(?:PR)?#\d+")
TABLE = re.compile(r"(<!-- incidents -->\n)(.*?)(<!-- /incidents -->)", re.DOTALL)
# The house's own aim; the catalogue has more, many of one class.
FEWEST = 60


class Incident(NamedTuple):
    file: str
    test: str
    said: str

    @property
    def threads(self) -> list[str]:
        found = CITED.match(self.said)
        return THREAD.findall(found["threads"]) if found else []

    @property
    def row(self) -> str:
        found = CITED.match(self.said)
        what = found["what"] if found else self.said
        return f"| {what}. | {', '.join(self.threads)} | `{self.file}::{self.test}` |"


def incidents() -> list[Incident]:
    found: list[Incident] = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.append(
                    Incident(path.name, node.name, " ".join((ast.get_docstring(node) or "").split()))
                )
    return found


def test_every_incident_says_what_happened_and_where():
    assert [each.test for each in incidents() if not each.threads] == []


def test_no_two_tests_stand_for_the_same_threads():
    cited = Counter(tuple(sorted(each.threads)) for each in incidents())
    assert {threads for threads, times in cited.items() if times > 1} == set()


def test_the_museum_is_as_large_as_it_should_be():
    assert len(incidents()) >= FEWEST


def test_the_manual_shows_the_incidents_as_they_are():
    """Set EVERTURN_WRITE_DOCS=1 to write the table anew."""
    heading = ["| what happened | thread | our test in `tests/incidents/` |", "|---|---|---|"]
    table = "\n".join([*heading, *(each.row for each in incidents())]) + "\n"
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("EVERTURN_WRITE_DOCS"):
        page = TABLE.sub(lambda found: found[1] + table + found[3], page)
        PAGE.write_text(page, encoding="utf-8")
    found = TABLE.search(page)
    assert found is not None
    assert found[2] == table
