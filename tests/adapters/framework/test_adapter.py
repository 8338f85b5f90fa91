"""The options that adapters of frameworks share."""

import msgspec
import pytest

import everturn
from everturn.adapters.framework import FrameworkAdapter
from everturn.adapters.langchain import EverturnMiddleware
from everturn.adapters.pydantic_ai import Everturn
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


@pytest.mark.parametrize(
    ("make", "name", "near"),
    [
        (everturn.middleware, "foldr", "folder"),
        (everturn.middleware, "breakpoint", "breakpoints"),
        (everturn.middleware, "summary_modle", "summary_model"),
        (EverturnMiddleware, "listn", "listen"),
        (EverturnMiddleware, "readables", "readable"),
        (Everturn, "hook", "hooks"),
        (Everturn, "foldr", "folder"),
    ],
)
def test_a_misspelt_argument_is_told_with_the_nearest_one(make, name, near):
    wrong = rf"{name!r} is neither an argument nor a key\. Did you mean {near}\?"
    with pytest.raises(UsageError, match=wrong):
        make(config=None, **{name: "x"})


def test_an_argument_that_a_framework_does_not_have_is_not_suggested():
    with pytest.raises(UsageError, match="no key is named 'breakpoint'"):
        EverturnMiddleware(config=None, breakpoint="caller")


def test_an_option_that_is_none_is_named():
    with pytest.raises(UsageError, match="colour"):
        FrameworkAdapter(folder=None, colour="blue")  # type: ignore[call-arg]


def test_recall_without_a_conversation_says_where_to_look():
    with pytest.raises(UsageError, match="see `conversations`"):
        FrameworkAdapter(folder=None).recall("anything")
