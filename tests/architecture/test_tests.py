"""Every test can fail: it asserts, expects an exception, or calls a function of its module that does."""

import ast

Function = ast.FunctionDef | ast.AsyncFunctionDef
CHECKS = ("assert", "check", "expect", "verify", "raises", "warns", "fail", "run_state_machine_as_test")


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def toothless(tree: ast.Module) -> list[str]:
    """The test functions that cannot fail by their own doing."""
    defined = functions(tree)
    biting = {function.name for function in defined if _asserts(function)}
    while more := {f.name for f in defined if f.name not in biting and _called(f) & biting}:
        biting |= more
    return [f.name for f in defined if f.name.startswith("test") and f.name not in biting]


def _asserts(function: Function) -> bool:
    asserts = any(isinstance(node, ast.Assert) for node in ast.walk(function))
    return asserts or any(name.startswith(CHECKS) for name in _called(function))


def _called(function: Function) -> set[str]:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    named = {call.id for call in calls if isinstance(call, ast.Name)}
    return named | {call.attr for call in calls if isinstance(call, ast.Attribute)}


def test_every_test_can_fail(root):
    trees = {path: ast.parse(path.read_text()) for path in sorted((root / "tests").rglob("test_*.py"))}
    found = {str(path.relative_to(root)): names for path, tree in trees.items() if (names := toothless(tree))}
    assert found == {}


def test_a_test_without_a_check_is_recognised():
    code = """
def compare(a, b): assert a == b
def test_calls_nothing(): print(1)
def test_delegates(): compare(1, 1)
def test_expects_an_error():
    with pytest.raises(ValueError): int("x")
async def test_only_runs(): await go()
"""
    assert toothless(ast.parse(code)) == ["test_calls_nothing", "test_only_runs"]
