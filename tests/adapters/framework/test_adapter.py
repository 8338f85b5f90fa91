"""The options that adapters of frameworks share."""

import msgspec
import pytest

from everturn.adapters.framework import FrameworkAdapter
from everturn.decide.options import Options
from everturn.decide.policy import get_policy
from everturn.errors import UsageError


def test_only_messages_are_decided_about():
    for chosen in ("claude-code", Options()):
        parts = FrameworkAdapter(chosen, folder=None).tracker.parts
        assert (parts.options.declares, parts.breakpoints) == (False, "caller")


def test_a_window_is_the_models():
    assert FrameworkAdapter(folder=None, window=128_000).tracker.parts.options.window == 128_000
    assert FrameworkAdapter(Options(window=64_000), folder=None).tracker.parts.options.window == 64_000


def test_a_keyword_wins_over_the_same_key_of_the_options():
    chosen = msgspec.structs.replace(get_policy("masking").options, window=64_000)
    options = FrameworkAdapter(chosen, folder=None, window=128_000).tracker.parts.options
    assert (options.policy, options.steps, options.window) == ("masking", ("masking",), 128_000)


def test_an_option_that_is_none_is_named():
    with pytest.raises(UsageError, match="colour"):
        FrameworkAdapter(folder=None, colour="blue")  # type: ignore[call-arg]


def test_recall_without_a_conversation_says_where_to_look():
    with pytest.raises(UsageError, match="see `conversations`"):
        FrameworkAdapter(folder=None).recall("anything")
