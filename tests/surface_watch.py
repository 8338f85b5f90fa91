"""Which public surfaces a test enters: a person reaches a requirement only through one of them.

`SURFACES` names the functions that user code calls first. Each is wrapped when its module is imported, so
that watching imports nothing by itself; a command is also seen when it runs in a process of its own. What a
test entered travels in its `user_properties` as `("surface", name)`, and so survives xdist. What a fixture
entered counts for every test that uses the fixture, also when an earlier test set it up.
"""

import functools
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import pairwise
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import pytest

PROPERTY = "surface"
# module -> {qualified name: surface}. Functions of `everturn.replay` do not count; its command does.
SURFACES: dict[str, dict[str, str]] = {
    "everturn.__main__": {"main": "command"},
    "everturn.adapters.anthropic_sdk.middleware": {
        "AnthropicSDKMiddleware.handle": "sdk middleware",
        "AnthropicSDKMiddleware.handle_async": "sdk middleware",
    },
    "everturn.adapters.langchain.middleware": {
        "EverturnMiddleware.wrap_model_call": "langchain",
        "EverturnMiddleware.awrap_model_call": "langchain",
    },
    "everturn.adapters.pydantic_ai.capability": {"Everturn.prepare_model_request": "pydantic-ai"},
    "everturn.cli": {"LazyGroup.main": "command"},
    "everturn.gateway.app": {"make_gateway": "gateway"},
    "everturn.mcp.server": {"build_server": "mcp"},
    "everturn.session.async_session": {"AsyncSession.open": "session"},
    "everturn.session.session": {"Session.open": "session"},
    "everturn.twin.app": {"make_app": "twin"},
    "everturn.web_dashboard.app": {"make_app": "dashboard"},
    "everturn.twin.transport": {
        "AsyncTwinTransport.handle_async_request": "twin",
        "TwinTransport.handle_request": "twin",
    },
}
# In a line for a shell: the program at the beginning of a command, by its name or path, or as a module.
RUNS_EVERTURN = re.compile(r"(?:^|[;&|]\s*|/)everturn\s|-m\s+everturn(?:\s|$)")

entered: set[str] = set()
# What each fixture entered while it was set up.
_by_fixture: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()


def is_command(arguments: object) -> bool:
    """Whether these arguments of `subprocess.Popen` start everturn."""
    words = [arguments] if isinstance(arguments, (str, bytes)) else arguments
    if not isinstance(words, Sequence):
        return False
    text = [str(word, "utf-8", "replace") if isinstance(word, bytes) else str(word) for word in words]
    # Other words may name everturn too: a folder, a package.
    first = bool(text) and text[0].rpartition("/")[2] == "everturn"
    in_line = any(RUNS_EVERTURN.search(word) for word in text if " " in word and "\n" not in word)
    return first or in_line or ("-m", "everturn") in pairwise(text)


def note_calls(function: Callable[..., Any], surface: str) -> Callable[..., Any]:
    """The same function, which notes the surface before it runs."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def noted_async(*args: Any, **options: Any) -> Any:
            entered.add(surface)
            return await function(*args, **options)

        return noted_async

    @functools.wraps(function)
    def noted(*args: Any, **options: Any) -> Any:
        entered.add(surface)
        return function(*args, **options)

    return noted


def watch(module: ModuleType) -> None:
    for qualified, surface in SURFACES[module.__name__].items():
        owner: Any = module
        *classes, name = qualified.split(".")
        for each in classes:
            owner = getattr(owner, each)
        found = vars(owner).get(name, getattr(owner, name))
        if isinstance(found, classmethod):
            setattr(owner, name, classmethod(note_calls(found.__func__, surface)))
        else:
            setattr(owner, name, note_calls(found, surface))


class _WatchingLoader(Loader):
    """Runs a module as its own loader does, then wraps its surfaces."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        watch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _WatchingFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in SURFACES:
            return None
        # All other finders, in their order: a test may have put one of its own in front.
        finders = [each for each in sys.meta_path if each is not self]
        specs = (each.find_spec(fullname, path, target) for each in finders)
        spec = next((found for found in specs if found is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _WatchingLoader(spec.loader)
        return spec


def _watch_processes() -> None:
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def noted(self: Any, args: Any, *more: Any, **options: Any) -> None:
        if is_command(args):
            entered.add("command")
        start(self, args, *more, **options)

    subprocess.Popen.__init__ = noted  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    sys.meta_path.insert(0, _WatchingFinder())
    for name in SURFACES:
        if name in sys.modules:
            watch(sys.modules[name])
    _watch_processes()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    before = set(entered)
    entered.clear()
    try:
        return (yield)
    finally:
        _by_fixture[fixturedef] = frozenset(entered)
        entered.update(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    entered.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        item.user_properties.extend((PROPERTY, name) for name in sorted(entered | _of_fixtures(item)))


def _of_fixtures(item: pytest.Item) -> set[str]:
    """pytest lists the fixtures of a test, those that it asked for at run time included, only privately."""
    request = getattr(item, "_request", None)
    used = request._fixture_defs.values() if request else ()
    return {name for each in used for name in _by_fixture.get(each, ())}
