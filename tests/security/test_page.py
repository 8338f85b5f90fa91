"""docs/security.md claims what tests hold, and every test here holds something that it claims."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def names_here() -> set[str]:
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        if path.name != Path(__file__).name:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name for name in found if name.startswith("test_")}


def linked_elsewhere() -> list[tuple[str, str]]:
    """Tests of a promise that stand beside the other tests of their package."""
    links = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", PAGE)
    return [(name, file) for name, file in links if not file.startswith("tests/security/")]


def test_every_claim_names_a_test_and_every_test_has_its_claim():
    assert set(re.findall(r"`(test_\w+)`", PAGE)) - {name for name, _ in linked_elsewhere()} == names_here()


def test_every_file_that_is_named_is_there():
    named = set(re.findall(r"`((?:tests|bench)/[\w/]+(?:\.py|/))`", PAGE))
    assert {name for name in named if not (ROOT / name).exists()} == set()
    assert len(named) > 3


def test_every_test_is_linked_in_the_file_that_holds_it():
    links = re.findall(r"\[`(test_\w+)`\]\(\.\./tests/security/(test_\w+\.py)\)", PAGE)
    assert len(links) > 50
    wrong = [
        (name, file)
        for name, file in links
        if f"def {name}(" not in (Path(__file__).parent / file).read_text(encoding="utf-8")
    ]
    wrong += [
        (name, file)
        for name, file in linked_elsewhere()
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert wrong == []
