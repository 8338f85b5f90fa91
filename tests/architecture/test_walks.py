"""Every function that docs/architecture.md names exists.

A name is written as a path below `src/everturn/` and a name in that module, in backticks:
`session/session.py: Session.send`.
"""

import re
from functools import reduce
from importlib import import_module

import pytest

NAMED = re.compile(r"`([\w/]+)\.py: ([\w.]+)`")
WALK = re.compile(r"^## Walk \d: (.*)$", re.MULTILINE)
MIN_NAMES_IN_A_WALK = 12


def named_in(text: str) -> list[tuple[str, str]]:
    return NAMED.findall(text)


def find(path: str, name: str) -> object:
    module = import_module("everturn." + path.removesuffix("/__init__").replace("/", "."))
    return reduce(getattr, name.split("."), module)


def is_missing(path: str, name: str) -> bool:
    try:
        find(path, name)
    except (ImportError, AttributeError):
        return True
    return False


@pytest.fixture(scope="module")
def page(pages) -> str:
    return pages["docs/architecture.md"]


def test_every_function_that_the_architecture_page_names_exists(page):
    assert sorted({each for each in named_in(page) if is_missing(*each)}) == []


def test_there_are_four_walks_and_each_names_its_functions(page):
    _, *parts = WALK.split(page)
    walks = dict(zip(parts[::2], parts[1::2], strict=True))
    counts = {title: len(set(named_in(text.partition("\n## ")[0]))) for title, text in walks.items()}
    assert list(walks) == ["one message", "one SDK call", "one twin request", "one replay"]
    assert {title: count for title, count in counts.items() if count < MIN_NAMES_IN_A_WALK} == {}


def test_every_module_that_the_page_names_without_a_function_exists(page, root):
    # The list of files at the end quotes docstrings, which name a neighbour by its file name alone.
    paths = re.findall(r"`([\w/]+\.py)`", page.partition("\n## Every file\n")[0])
    folders = (root, root / "src" / "everturn")
    assert [path for path in paths if not any((folder / path).is_file() for folder in folders)] == []


def test_a_name_that_does_not_exist_is_found():
    text = (
        "`session/session.py: Session.send`, `session/session.py: Session.sends`, `no/such.py: name`, `a: b`"
    )
    assert [each for each in named_in(text) if is_missing(*each)] == [
        ("session/session", "Session.sends"),
        ("no/such", "name"),
    ]
