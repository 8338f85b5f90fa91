"""How long modules and functions are in the median, and what no module is called.

The numbers are aims for the whole tree (docs/architecture.md): a long module is a sign, not an error, so
there is no ceiling for a single file and no list of exceptions.
"""

import ast
import statistics

MEDIAN_MODULE = 200
LONGEST_FUNCTION, P90_FUNCTION, MEDIAN_FUNCTION = 60, 30, 12
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "shared"}


def function_lengths(tree: ast.Module) -> dict[str, int]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {f"{node.lineno} {node.name}": _length_without_docstring(node) for node in functions}


def _length_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def p90(lengths: list[int]) -> float:
    return statistics.quantiles(lengths, n=10)[-1] if len(lengths) > 1 else sum(lengths)


def test_modules_are_short_in_the_median(modules):
    lengths = [len(module.text.splitlines()) for module in modules]
    assert statistics.median(lengths) <= MEDIAN_MODULE


def test_no_function_is_longer_than_the_ceiling(modules):
    lengths = {(module.name, at): n for module in modules for at, n in function_lengths(module.tree).items()}
    assert {where: n for where, n in lengths.items() if n > LONGEST_FUNCTION} == {}


def test_functions_are_short_in_the_median_and_at_the_ninetieth_percentile(modules):
    lengths = [n for module in modules for n in function_lengths(module.tree).values()]
    assert statistics.median(lengths or [0]) <= MEDIAN_FUNCTION
    assert p90(lengths) <= P90_FUNCTION


def test_every_module_has_a_name_that_says_something(modules):
    assert [module.name for module in modules if module.path.stem in SAYS_NOTHING] == []


def test_a_function_is_measured_without_its_docstring():
    code = (
        'def short():\n    """One.\n\n    Two.\n    """\n    return 1\n\n\nasync def long():\n'
        + "    x = 1\n" * 61
    )
    assert function_lengths(ast.parse(code)) == {"1 short": 2, "9 long": 62}
