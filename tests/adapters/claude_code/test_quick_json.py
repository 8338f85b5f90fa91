"""JSON without `json` reads what `json` reads."""

import json
import subprocess
import sys
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.adapters.claude_code.quick_json import decode, get_number, get_path, get_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_every_value_is_read_as_json_reads_it(value, indent, ascii_only):
    spelled = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert decode(f"\n {spelled}\t\n") == json.loads(spelled)


@given(st.text())
def test_any_text_is_read_or_refused_as_json_does(words):
    try:
        expected = json.loads(words.strip(" \t\r\n\ufeff"))
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011, any kind will do
            decode(words)
    else:
        assert repr(decode(words)) == repr(expected)


@pytest.mark.parametrize("words", ["", "  ", "{}{}", "[1,]", "{" * 100_000, '{"a"'])
def test_what_is_no_json_is_a_value_error(words):
    with pytest.raises(ValueError):  # noqa: PT011, any kind will do
        decode(words)


def test_looking_into_a_value_never_fails():
    value = {"a": {"b": 3, "c": "words", "yes": True, "endless": inf}}
    assert [get_number(value, "a", name) for name in ("b", "c", "yes", "endless", "none")] == [
        3,
        None,
        None,
        None,
        None,
    ]
    assert [get_text(value, "a", name) for name in ("b", "c", "none")] == ["", "words", ""]
    assert [get_path(value, "a", "b", "deeper"), get_path([], "a"), get_path(None)] == [None, None, None]


TRUNCATED = """
import sys
from everturn.adapters.claude_code.quick_json import decode
whole = '{"model": {"id": "m", "n": [1, -2.5e3]}, "s": "a\\\\u00e9", "t": true}'
for end in range(len(whole)):
    # As in a new process: the scanner looks for its exception in the module, and does not import it.
    for name in [name for name in sys.modules if name.partition(".")[0] == "json"]:
        del sys.modules[name]
    try:
        decode(whole[:end])
    except ValueError as problem:
        assert str(problem)
    else:
        raise AssertionError(whole[:end])
print(decode(whole)["model"]["id"])
"""


def test_input_that_is_cut_anywhere_is_a_value_error_also_before_json_is_imported():
    done = subprocess.run([sys.executable, "-c", TRUNCATED], capture_output=True, encoding="utf-8")
    assert (done.stdout, done.stderr) == ("m\n", "")
