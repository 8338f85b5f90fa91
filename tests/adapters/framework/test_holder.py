"""The options that adapters of frameworks share."""

import pytest

from everturn.adapters.framework import FrameworkAdapter
from everturn.decide.policy import get_policy
from everturn.errors import UsageError
from everturn.session.config.shape import Config


def test_only_messages_are_decided_about():
    for chosen in ("claude-code", Config()):
        manner = FrameworkAdapter(chosen, folder=None).tracker.manner
        assert (manner.policy.declares, manner.markers) == (False, "the caller's")


def test_a_window_is_the_models():
    assert FrameworkAdapter(folder=None, window=128_000).tracker.manner.config.window == 128_000
    assert FrameworkAdapter(Config(window=64_000), folder=None).tracker.manner.config.window == 64_000


def test_a_policy_of_ones_own_has_no_window():
    with pytest.raises(UsageError, match="together with `window`"):
        FrameworkAdapter(get_policy("masking"), folder=None, window=128_000)


def test_an_option_that_is_none_is_named():
    with pytest.raises(UsageError, match="colour"):
        FrameworkAdapter(folder=None, colour="blue")  # type: ignore[call-arg]


def test_recall_without_a_conversation_says_where_to_look():
    with pytest.raises(UsageError, match="see `conversations`"):
        FrameworkAdapter(folder=None).recall("anything")
