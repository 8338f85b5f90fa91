"""What a program passes to an adapter by mistake is refused when the adapter is made, not in each request."""

import pytest

import everturn
from everturn import PROVIDERS, CallbackHook, Hooks, LocalTokenizer, UsageError
from everturn.adapters.langchain import EverturnMiddleware
from everturn.adapters.pydantic_ai import Everturn
from everturn.adapters.tracking import make_parts


def told(_):
    return None


WRONG = [
    ({"hooks": [told]}, "`hooks` takes Hooks((CallbackHook("),
    ({"hooks": CallbackHook("PreCompact", told)}, "this is CallbackHook("),
    (
        {"hooks": Hooks((told,))},
        "`hooks` takes a `Hooks` of `CallbackHook`s; this is a value of type function",
    ),
    ({"hooks": Hooks((CallbackHook("PreCompct", told),))}, "Did you mean 'PreCompact'?"),
    ({"estimator": len}, "takes a `LocalTokenizer` or `ProviderCounts`"),
    ({"capabilities": "bedrock"}, "a row of `everturn.PROVIDERS`"),
    ({"listen": []}, "`listen` takes a callable"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
@pytest.mark.parametrize("adapter", [everturn.middleware, EverturnMiddleware, Everturn])
def test_an_object_that_cannot_be_what_it_stands_for_is_refused_at_once(adapter, given, says):
    with pytest.raises(UsageError) as refused:
        adapter(config=None, folder=None, **given)
    assert says in str(refused.value)


def test_an_owner_of_breakpoints_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="Did you mean 'everturn'"):
        everturn.middleware(config=None, folder=None, breakpoints="everturns")


def test_the_objects_that_the_manual_names_are_taken():
    hooks, counts = Hooks((CallbackHook("PreCompact", told),)), LocalTokenizer(str.split)
    parts = make_parts(
        None, config=None, hooks=hooks, estimator=counts, capabilities=PROVIDERS["bedrock"], listen=told
    )
    assert (parts.hooks.hooks, parts.estimator) == (hooks.hooks, counts)


@pytest.mark.parametrize("kind", [str, lambda path: path, lambda path: [path]])
def test_one_readable_folder_need_not_be_in_a_list_and_its_characters_are_no_folders(kind, tmp_path):
    parts = make_parts(None, config=None, folder=None, readable=kind(tmp_path))
    assert parts.readable is not None
    assert parts.readable.folders == (str(tmp_path),)
