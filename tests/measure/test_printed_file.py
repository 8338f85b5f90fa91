"""Commands that print one file and do nothing else."""

import pytest

from everturn.measure.printed_file import printed_file


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat a.py", "a.py"),
        ("cat -n a.py", "a.py"),
        ("cat -b -A a.py", "a.py"),
        ("cat -s a.py", ""),
        ("cat a.py b.py", ""),
        ("cat", ""),
        ("nl -ba a.py", "a.py"),
        ("head a.py", "a.py"),
        ("head -n 40 a.py", "a.py"),
        ("head -40 a.py", "a.py"),
        ("tail -n40 a.py", "a.py"),
        ("tail -n 5 a.py", "a.py"),
        ("tail -n", ""),
        ("tail -f a.py", ""),
        ("sed -n 1,80p a.py", "a.py"),
        ("sed -n '12p' a.py", "a.py"),
        ("sed 1,80p a.py", ""),
        ("sed -n 1,80d a.py", ""),
        ("sed -n xp a.py", ""),
        ("sed -n 3p", ""),
        ("cat 'with space.py'", "with space.py"),
        ("cat 'broken", ""),
        ("cat a.py | wc", ""),
        ("cat *.py", ""),
        ("wc a.py", ""),
        ("", ""),
        (7, ""),
        (["cat", "a.py"], "a.py"),
        (["cat", 7, "a.py"], "a.py"),
        (["/bin/bash", "-lc", "cat a.py"], "a.py"),
        (["sh", "-c", "cat a.py"], "a.py"),
        (["sh", "-x", "cat a.py"], ""),
        (["bash", "-lc", "cat a.py", "more"], ""),
    ],
)
def test_the_file_is_named_only_where_it_is_printed_unchanged(command, path):
    assert printed_file(command) == path
