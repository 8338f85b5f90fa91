import time
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.tools.search.glob_patterns import MAX_CHOICES, TooManyChoices, compile_glob, expand_braces

PATHS = ["a.py", "src/a.py", "src/b/c.py", "src/b/c.ts", "docs/x.md", "src/.hidden"]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("*.py", ["a.py", "src/a.py", "src/b/c.py"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/b/c.py"]),
        ("**/c.*", ["src/b/c.py", "src/b/c.ts"]),
        ("./src/a.py", ["src/a.py"]),
        ("src/**", ["src/a.py", "src/b/c.py", "src/b/c.ts", "src/.hidden"]),
        ("src/", ["src/a.py", "src/b/c.py", "src/b/c.ts", "src/.hidden"]),
        ("**/*", PATHS),
        ("*.{ts,md}", ["src/b/c.ts", "docs/x.md"]),
        ("{src/b,docs}/*.{md,ts}", ["src/b/c.ts", "docs/x.md"]),
        ("[ab].py", ["a.py", "src/a.py"]),
        ("?.md", ["docs/x.md"]),
        ("src/a.py/**", []),
        ("A.py", []),
    ],
)
def test_a_pattern_means_these_paths(pattern, meant):
    assert list(filter(compile_glob(pattern), PATHS)) == meant


NAMES = st.sampled_from(["a", "b", "ab", "ba"])
PARTS = st.sampled_from(["**", "*", "a", "b", "a*", "?b"])


@given(st.lists(NAMES, min_size=1, max_size=5), st.lists(PARTS, min_size=2, max_size=5))
def test_matching_agrees_with_trying_everything(names, parts):
    def fits(names, parts):
        if not parts:
            return not names
        if parts[0] == "**":
            return any(fits(names[at:], parts[1:]) for at in range(len(names) + 1))
        return bool(names) and PurePosixPath(names[0]).match(parts[0]) and fits(names[1:], parts[1:])

    asked = [*parts, "*"] if parts[-1] == "**" else parts
    assert compile_glob("/".join(parts))("/".join(names)) == fits(names, asked)


def test_braces_are_spelled_out_and_bounded():
    assert expand_braces("a{b,{c,d}}e") == ["abe", "ace", "ade"]
    assert expand_braces("{x}{a,b}") == ["{x}a", "{x}b"]
    assert expand_braces("{a}{") == ["{a}{"]
    with pytest.raises(TooManyChoices, match=str(MAX_CHOICES)):
        expand_braces("{a,b}" * 20)
    with pytest.raises(TooManyChoices):
        expand_braces("{a,a}" * 3_000)


def test_a_malicious_pattern_takes_no_long_time():
    began = time.perf_counter()
    assert not compile_glob("**/" * 40 + "*a" * 60 + "b")("/".join(["a" * 60] * 40))
    assert time.perf_counter() - began < 1
