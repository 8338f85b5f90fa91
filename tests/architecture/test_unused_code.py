"""Code that only tests use is found, and the list of exceptions holds nothing that is not needed."""

from pathlib import Path

import pytest
from architecture import unused_code

SOURCE = """
LIMIT, SPARE = 3, 4

class Used:
    size: int

    def shown(self): return LIMIT

    def hidden(self): return self.size

def only_tested(): return Used().shown()

only_called_by_bench = 1
"""


@pytest.fixture(scope="module")
def unused(root: Path) -> set[unused_code.Entry]:
    return unused_code.find_unused(root)


def test_nothing_is_unused_beyond_what_is_listed(unused):
    allowed = unused_code.read_entries(unused_code.ALLOWED)
    assert unused_code.describe(unused - allowed.keys()) == ""


def test_an_entry_that_is_no_longer_needed_has_to_go(unused):
    assert unused_code.describe(unused_code.read_entries(unused_code.ALLOWED).keys() - unused) == ""


def test_every_allowed_name_has_a_reason_in_words():
    reasons = unused_code.read_entries(unused_code.ALLOWED)
    assert {entry for entry, reason in reasons.items() if len(reason.split()) < 3} == set()


def test_what_only_tests_use_is_unused_and_what_a_benchmark_uses_is_not(tmp_path: Path):
    files = {
        "src/everturn/part.py": SOURCE,
        "src/everturn/__init__.py": "from everturn.part import Used\n__all__ = ['Used']\n",
        "src/everturn/sub/__init__.py": "from everturn.part import SPARE\n__all__ = ['SPARE']\n",
        "bench/speed.py": "from everturn.part import only_called_by_bench\nprint(only_called_by_bench)\n",
        "tests/test_part.py": "from everturn.part import only_tested\nonly_tested()\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert unused_code.find_unused(tmp_path) == {
        ("src/everturn/part.py", name) for name in ("SPARE", "hidden", "only_tested")
    }


def test_a_list_is_read_with_its_reasons(tmp_path: Path):
    file = tmp_path / "list.txt"
    file.write_text("# a comment\n\nsrc/a.py name  click calls it\nsrc/b.py other\n")
    assert unused_code.read_entries(file) == {
        ("src/a.py", "name"): "click calls it",
        ("src/b.py", "other"): "",
    }
