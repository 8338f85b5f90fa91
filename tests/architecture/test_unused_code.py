"""Code that only tests use is found. `make lint` looks at the whole tree, which takes seconds."""

from pathlib import Path

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


def test_new_entries_and_needless_ones_fail_the_check_and_are_named(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "part.py").write_text("def forgotten(): pass\n")
    listed = tmp_path / "list.txt"
    listed.write_text("src/part.py gone  click calls it\n")
    monkeypatch.setattr(unused_code, "ROOT", tmp_path)
    monkeypatch.setattr(unused_code, "ALLOWED", listed)
    assert unused_code.main() == 1
    assert capsys.readouterr().out == (
        "Nothing in src, bench, examples uses:\n  src/part.py forgotten\n"
        "Use it, delete it, or give a reason in list.txt.\n"
        "Used by now, or gone; remove from list.txt:\n  src/part.py gone\n"
    )
    listed.write_text("src/part.py forgotten  click calls it\n")
    assert unused_code.main() == 0


def test_a_list_is_read_with_its_reasons(tmp_path: Path):
    file = tmp_path / "list.txt"
    file.write_text("# a comment\n\nsrc/a.py name  click calls it\nsrc/b.py other\n")
    assert unused_code.read_entries(file) == {
        ("src/a.py", "name"): "click calls it",
        ("src/b.py", "other"): "",
    }
