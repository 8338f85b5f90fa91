"""docs/glossary.md lists every term once: configuration sections, events, commands, policies, strategies."""

import re
from collections import Counter
from typing import get_args

import pytest

from everturn.cli import COMMANDS, RENAMED
from everturn.decide.compact.values import Strategy
from everturn.decide.events import Event
from everturn.decide.policy import POLICIES
from everturn.session.config.keys import KEYS, MODELS
from everturn.session.events.serialize import event_name

ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<earlier>[^|]*)\|$", re.MULTILINE)
HEADING = "term"


def rows(page: str) -> list[tuple[str, str, str]]:
    found = [
        (row["term"].strip("` "), row["meaning"], row["earlier"].strip("` ")) for row in ROW.finditer(page)
    ]
    return [row for row in found if row[0] != HEADING]


def sections(keys: list[str]) -> set[str]:
    """A key without a section is its own term; of any other, every section that it is in."""
    terms: set[str] = set()
    for key in keys:
        *parts, _ = key.split(".")
        terms |= {".".join([*parts[: at + 1], "*"]) for at in range(len(parts))} or {key}
    return terms


@pytest.fixture(scope="module")
def glossary(pages) -> list[tuple[str, str, str]]:
    return rows(pages["docs/glossary.md"])


@pytest.fixture(scope="module")
def terms(glossary) -> set[str]:
    return {term for term, _, _ in glossary}


def under(heading: str, pages: dict[str, str]) -> set[str]:
    _, _, after = pages["docs/glossary.md"].partition(f"\n## {heading}\n")
    return {term for term, _, _ in rows(after.partition("\n## ")[0])}


def test_every_configuration_section_is_in_the_glossary_and_no_other(pages):
    assert under("Configuration", pages) == sections([*KEYS, f"{MODELS}.*"])


def test_every_event_is_in_the_glossary_and_no_other(pages):
    assert under("Events", pages) == {event_name(event) for event in Event.__subclasses__()}


def test_every_command_is_in_the_glossary_and_no_other(pages):
    assert under("Commands", pages) == {f"everturn {name}" for name in COMMANDS}


def test_every_policy_and_strategy_is_in_the_glossary(terms):
    assert {*POLICIES, *get_args(Strategy)} - terms == set()


def test_an_old_command_name_stands_beside_the_new_one(glossary):
    earlier = {term: name for term, _, name in glossary if name.startswith("everturn ")}
    assert earlier == {f"everturn {new}": f"everturn {old}" for old, new in RENAMED.items()}


def test_every_term_is_explained_once_and_in_one_line(glossary):
    counted = Counter(term for term, _, _ in glossary)
    assert {term for term, count in counted.items() if count > 1} == set()


def test_sections_are_the_parts_of_keys():
    assert sections(["model", "notes.first", "micro.time.idle"]) == {
        "model",
        "notes.*",
        "micro.*",
        "micro.time.*",
    }


def test_a_row_is_read_without_its_quotes():
    page = "| term | meaning | earlier name |\n|---|---|---|\n| `everturn a` | b | `c` |\n| d | e | |\n"
    assert rows(page) == [("everturn a", "b", "c"), ("d", "e", "")]
