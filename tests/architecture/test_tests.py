"""Every test can fail: it asserts, expects an exception, or calls a function of its module that does."""

import ast

Function = ast.FunctionDef | ast.AsyncFunctionDef
CHECKS = ("assert", "check", "expect", "verify", "raises", "warns", "fail", "run_state_machine_as_test")


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def toothless(tree: ast.Module) -> list[str]:
    """The test functions that cannot fail by their own doing."""
    called = [(function.name, _called(function)) for function in functions(tree)]
    biting = {name for name, names in called if any(each.startswith(CHECKS) for each in names)}
    while more := {name for name, names in called if name not in biting and names & biting}:
        biting |= more
    return [name for name, _ in called if name.startswith("test") and name not in biting]


def _called(function: Function) -> set[str]:
    """The names of what it calls; "assert" if it asserts."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            found.add("assert")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.add(node.func.attr)
    return found


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
