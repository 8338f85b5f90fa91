"""The tree in docs/architecture.md shows every tracked source file with its docstring's first words.

The words are written once, in the module. To update the tree:

    EVERTURN_WRITE_GOLDEN=1 pytest tests/architecture/test_tree.py
"""

import ast
import os
import re
from pathlib import Path

from source_trees import tree_of

TREE = re.compile(r"^```text tree\n(?P<tree>.*?)^```\n", re.MULTILINE | re.DOTALL)
WIDTH = 110
# A clause shorter than this says too little by itself.
LEAST = 15
# From the top down, as imports go. A package that is missing here comes first.
ORDER = (
    "cli", "chat", "mcp", "web_dashboard", "dashboard", "gateway", "adapters", "replay", "twin", "session",
    "engine", "decide", "view", "measure", "wire", "history", "errors.py", "redaction.py",
)  # fmt: skip
# The top level of the repository.
GROUNDS = {
    "CHANGELOG.md": "what is new, by version",
    "CONTRIBUTING.md": "rules, tests and commits",
    "LICENSE": "MIT",
    "Makefile": "commands for development",
    "README.md": "what it does, with examples",
    "bench/": "benchmarks",
    "deploy/": "container image, compose file, nginx and systemd for the gateway",
    "docs/": "the documentation, by task and by package",
    "examples/": "a recorded session, and short agents",
    "pyproject.toml": "the package and its tools",
    "requirements-peers.txt": "pinned versions of what bench/peers/ measures against",
    "requirements.txt": "pinned versions",
    "src/": "the package, below",
    "tests/": "one folder per package; architecture/ checks the conventions",
}


def phrase(tree: ast.Module) -> str:
    """The first sentence of a docstring, without its requirement ids, on one line."""
    docstring = ast.get_docstring(tree) or ""
    first = " ".join(docstring.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z`)\d])\. ", first, maxsplit=1)[0]
    return re.sub(r" \([A-Z]+-\d[^)]*\)", "", sentence).rstrip(".")


def line(depth: int, name: str, said: str) -> str:
    start = f"{'  ' * depth}{name}".ljust(26) + " "
    return (start + shortened(said, WIDTH - len(start))).rstrip()


def shortened(said: str, width: int) -> str:
    """Up to the end of the last clause that fits, or of the last word."""
    if len(said) <= width:
        return said
    clauses = [found.start() for found in re.finditer(r"[:;,] | \(", said) if LEAST <= found.start() <= width]
    if clauses:
        return said[: clauses[-1]]
    return said[: width - 3].rpartition(" ")[0] + "..."


def tree(folder: Path, files: set[Path], depth: int = 0) -> list[str]:
    """The packages of a folder in their order, and below each its modules by name."""
    inside = {folder / path.relative_to(folder).parts[0] for path in files if folder in path.parents}
    lines: list[str] = []
    for path in sorted(inside, key=lambda path: (_place(path.name) if depth == 1 else 0, path.name)):
        if path in files and path.suffix == ".py":
            said = "" if path.name == "__init__.py" else phrase(tree_of(path))
            lines += [line(depth, path.name, said)] if said else []
        elif path not in files:
            init = path / "__init__.py"
            said = phrase(tree_of(init)) if init in files else ""
            lines += [line(depth, f"{path.name}/", said), *tree(path, files, depth + 1)]
    return lines


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else -1


def test_the_tree_in_the_documentation_lists_every_source_file(root, tracked):
    page = root / "docs" / "architecture.md"
    text = page.read_text(encoding="utf-8")
    found = TREE.search(text)
    assert found is not None
    grounds = [line(0, name, said) for name, said in GROUNDS.items()]
    package = tree(root / "src" / "everturn", set(tracked), depth=1)
    drawn = "\n".join([*grounds, "", "src/everturn/", *package]) + "\n"
    if os.environ.get("EVERTURN_WRITE_GOLDEN"):
        page.write_text(text[: found.start("tree")] + drawn + text[found.end("tree") :], encoding="utf-8")
        return
    assert found["tree"] == drawn, "update it: EVERTURN_WRITE_GOLDEN=1 pytest tests/architecture/test_tree.py"


def test_every_file_and_folder_at_the_top_level_has_a_phrase(root, tracked):
    parts = {path.relative_to(root).parts for path in tracked}
    found = {f"{first}/" if rest else first for first, *rest in parts}
    assert {name for name in found if not name.startswith(".")} == set(GROUNDS)


def test_every_module_says_in_a_phrase_what_it_is(modules):
    assert [module.name for module in modules if not phrase(module.tree)] == []


def test_a_phrase_is_the_first_sentence_on_one_line():
    text = '"""Which marks\nare passed (TOK-12 to 16). See `a.py`.\n\nMore.\n"""\n'
    assert phrase(ast.parse(text)) == "Which marks are passed"
    assert phrase(ast.parse('"""Reads `a.jsonl`. And writes."""')) == "Reads `a.jsonl`"


def test_a_phrase_that_is_too_long_ends_with_a_clause_or_a_word():
    assert line(1, "a.py", "what it is") == "  a.py".ljust(26) + " what it is"
    assert (
        shortened("one clause is here, another is there: and more", 40)
        == "one clause is here, another is there"
    )
    assert shortened("no clause at all in all of this", 20) == "no clause at all..."
    assert shortened("so, no clause that says enough is in this", 20) == "so, no clause..."
