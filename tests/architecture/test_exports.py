"""The public doors: what `__all__` promises can be imported, and the front door shows nothing else.

The order inside `__all__` is ruff's (RUF022).
"""

import ast
import importlib
from types import ModuleType

import everturn
from everturn import errors

MAX_PUBLIC_NAMES = 55


def dotted(name: str) -> str:
    return "everturn." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def broken_promises(module: ModuleType) -> list[str]:
    promised = getattr(module, "__all__", [])
    twice = [name for name in set(promised) if promised.count(name) > 1]
    return sorted(twice + [name for name in promised if not hasattr(module, name)])


def visible(module: ModuleType) -> set[str]:
    names = (name for name in dir(module) if not name.startswith("_"))
    return {name for name in names if not isinstance(getattr(module, name), ModuleType)}


def test_what_a_module_promises_can_be_imported(modules):
    inner = [dotted(module.name) for module in modules if not module.name.startswith("__")]
    found = {name: broken for name in inner if (broken := broken_promises(importlib.import_module(name)))}
    assert found == {}


def test_the_front_door_shows_exactly_what_it_promises():
    promised = set(getattr(everturn, "__all__", []))
    assert visible(everturn) == promised - {"__version__"}
    assert broken_promises(everturn) == []
    assert len(promised) <= MAX_PUBLIC_NAMES


def test_every_error_is_public():
    raised = {each.__name__ for each in vars(errors).values() if isinstance(each, type)}
    assert raised - set(everturn.__all__) == set()


def test_what_a_session_takes_from_a_program_and_returns_to_it_is_public():
    """`send` returns a RawResponse, `run_hooks` a HookOutcome; `capabilities` takes a row of PROVIDERS."""
    assert {"Capabilities", "HookOutcome", "PROVIDERS", "RawResponse", "end_holds"} <= set(everturn.__all__)


def test_every_public_class_has_a_name_of_its_own(modules):
    """One name, one thing: whoever searches for a class finds it, and nothing else."""
    places: dict[str, list[str]] = {}
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_broken_promise_is_noticed():
    door = ModuleType("door")
    door.__dict__.update(__all__=["here", "here", "gone"], here=1, extra=2, os=importlib)
    assert broken_promises(door) == ["gone", "here"]
    assert visible(door) == {"here", "extra"}
