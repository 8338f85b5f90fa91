"""What an import contract cannot see: asking for the time, the disk or the terminal through allowed names."""

import ast

import pytest

ASKS_THE_TIME = {"now", "utcnow", "today"}
ASKS_THE_WORLD = {"open", "print", "input", "breakpoint", "exec", "eval", "__import__"}


def impure_calls(tree: ast.AST) -> list[str]:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if _is_impure(call)]


def _is_impure(call: ast.expr) -> bool:
    if isinstance(call, ast.Name):
        return call.id in ASKS_THE_WORLD
    if not isinstance(call, ast.Attribute):
        return False
    # `time` as a module; a field called time is no name and passes.
    return call.attr in ASKS_THE_TIME or (isinstance(call.value, ast.Name) and call.value.id == "time")


def test_pure_rooms_ask_neither_clock_nor_disk_nor_terminal(pure_modules):
    found = {module.name: calls for module in pure_modules if (calls := impure_calls(module.tree))}
    assert found == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("datetime.now(UTC)", ["datetime.now"]),
        ("when = datetime.datetime.utcnow()", ["datetime.datetime.utcnow"]),
        ("def f(d=date.today()): ...", ["date.today"]),
        ("time.monotonic()", ["time.monotonic"]),
        ("with open(path) as file: print(file)", ["open", "print"]),
        ("record.time.isoformat(); datetime.fromisoformat(text); reopen(path)", []),
    ],
)
def test_an_impure_call_is_recognised(code, found):
    assert impure_calls(ast.parse(code)) == found
