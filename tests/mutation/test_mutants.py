"""Which mutants are found, how they are applied, and how a sum of them is told."""

import ast

import pytest
from mutation.drawing import Module, draw
from mutation.mutants import Owner, apply, find_mutants, is_change, names_at_import, show
from mutation.score import Row, Share, page_table, shares, text_table, write_into


def changes(source: str) -> set[tuple[str, str]]:
    """Each mutant by its kind and the source that it leaves."""
    return {
        (each.kind, apply(source, each)) for each in find_mutants(source) if is_change(source, each)
    }  # fmt: skip


def of_body(statement: str) -> set[tuple[str, str]]:
    """The same for one statement of a function."""
    before = "def f(a, b):\n    "
    return {(kind, text.removeprefix(before)) for kind, text in changes(before + statement)}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a = a < b", {("comparison", "a = (a >= b)"), ("boundary", "a = (a <= b)")}),
        ("a = a is b", {("comparison", "a = (a is not b)")}),
        ("a = a and b", {("and/or", "a = (a or b)")}),
        ("a = not b", {("boolean", "a = (b)")}),
        ("a = True", {("boolean", "a = False")}),
        ("a = 4", {("constant", "a = 5")}),
        ("a = 1_000", {("constant", "a = 2000")}),
        ("a = 0.5", {("constant", "a = 1.0")}),
        ("a = 'key'", {("constant", "a = 'mutant'")}),
        ("return a", {("return", "return None")}),
        ("a(b)", {("statement", "pass")}),
        ("a.x = b", {("statement", "pass")}),
        ("raise a", {("statement", "pass")}),
        ("a += b", {("statement", "pass"), ("arithmetic", "a -= b")}),
        ("a = a // b", {("arithmetic", "a = (a * b)")}),
        ("a = f(a, key=b)", {("argument", "a = (f(a))")}),
        (
            "a = a if b else a",
            {("condition", "a = a if True else a"), ("condition", "a = a if False else a")},
        ),
        ("a = [x for x in a if x]", {("condition", "a = [x for x in a if True]")}),
        ("while a: b = a", {("condition", "while False: b = a")}),
    ],
)
def test_a_statement_has_these_mutants_and_no_others(statement, expected):
    assert of_body(statement) == expected


def test_both_outcomes_of_a_condition_and_what_is_inside_are_drawn():
    assert of_body("if a:\n        b()\n    elif b:\n        pass") == {
        ("condition", "if True:\n        b()\n    elif b:\n        pass"),
        ("condition", "if False:\n        b()\n    elif b:\n        pass"),
        ("condition", "if a:\n        b()\n    elif True:\n        pass"),
        ("condition", "if a:\n        b()\n    elif False:\n        pass"),
        ("statement", "if a:\n        pass\n    elif b:\n        pass"),
    }


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        'def f(a: "int" = None) -> "str":\n    """A docstring."""',
        "__all__ = ['f']",
        "import a",
        "if TYPE_CHECKING:\n    a = 1",
        "Kind = Literal['a', 'b']",
        "Number = int | None",
        "class A(B, frozen=True):\n    x: Literal[1]",
        "@cache(maxsize=3)\ndef f(): pass",
        "@overload\ndef f(a: int = 1): ...",
        "TEXT = 'A sentence for people.'",
        "a = f'{b + 1} tokens'",
        "assert a > 1",
        "a = cast('int', b)",
        "a = isinstance(b, int | str)",
        "a = f(encoding=b)",
        "a = zip(b, c, strict=True)",
        "def f():\n    return\n    yield g()",
    ],
)
def test_what_no_test_should_notice_is_not_drawn(source):
    assert changes(source) == set()


def test_a_mutant_knows_the_outermost_function_as_its_code_object_does():
    method = "    @property\n    def b(self):\n        def c():\n            return 1\n        return c\n"
    source = f"class A:\n{method}"
    namespace: dict[str, type] = {}
    exec(compile(source, "a.py", "exec"), namespace)
    code = vars(namespace["A"])["b"].fget.__code__
    owners = {each.owner for each in find_mutants(source)}
    assert owners == {Owner(code.co_qualname, code.co_firstlineno)} == {Owner("A.b", 2)}


def test_only_the_changed_bytes_differ_also_behind_other_alphabets():
    source = "def f(a):\n    b = 'Größe', a < 1\n"
    boundary = next(each for each in find_mutants(source) if each.kind == "boundary")
    assert show(source, boundary, "f.py").splitlines()[2:] == [
        "@@ -1,2 +1,2 @@", " def f(a):", "-    b = 'Größe', a < 1", "+    b = 'Größe', (a <= 1)",
    ]  # fmt: skip


def test_a_longer_run_of_a_seed_begins_with_the_mutants_of_a_shorter_one():
    source = "".join(f"def f{n}(a):\n    return a < {n}\n" for n in range(30))
    modules = [Module("src/p/q/m.py", "p.q.m", source)]
    long, short = list(draw(modules, 7, 20)), list(draw(modules, 7, 5))
    assert long[:5] == short
    assert len({each.mutant.line for each in long}) == 20
    assert list(draw(modules, 8, 5)) != short


def test_every_mutant_of_a_module_can_be_compiled():
    lines = ["def f(a, *, b=2):", "    if a < b and not a:", "        return {a: 1}", "    a[0] += f(b, b=3)"]
    source = "\n".join([*lines, "    return [a]", ""])
    mutants = [each for each in find_mutants(source) if is_change(source, each)]
    assert len({ast.dump(ast.parse(apply(source, each))) for each in mutants}) == len(mutants) > 10


def row(package: str, outcome: str) -> Row:
    return Row(1, f"src/everturn/{package}/a.py", 3, "constant", outcome, "", 1, "")


def test_the_sum_counts_what_died_in_any_way_and_has_wilson_s_interval():
    rows = [row("view", "killed"), row("view", "hung"), row("wire", "crashed"), row("wire", "survived")]
    found = shares(rows, ("view", "wire", "engine"))
    assert found == [Share("view", 2, 2), Share("wire", 1, 2), Share("all", 3, 4)]
    assert [round(value, 3) for value in Share("all", 90, 100).interval] == [0.826, 0.945]
    assert text_table([Share("all", 90, 100)]).splitlines() == [
        "package  mutants  killed  share  95 % interval",
        "all          100      90  90.0%     83% to 94%",
    ]


def test_the_table_replaces_the_earlier_one_in_a_page():
    page = "a\n<!-- mutants -->\nold\n<!-- /mutants -->\nb\n"
    table = page_table([Share("all", 90, 100)], "seed 7")
    assert write_into(page, table) == (
        "a\n<!-- mutants -->\n"
        "| package | mutants | killed | share | 95 % interval |\n|---|---:|---:|---:|---:|\n"
        "| all | 100 | 90 | 90.0% | 83% to 94% |\n\nseed 7\n<!-- /mutants -->\nb\n"
    )
    with pytest.raises(SystemExit, match="has no <!-- mutants -->"):
        write_into("a\n", table)


def test_what_an_import_uses_is_told_from_what_functions_use_later():
    source = "class A(B):\n    x: C = D(e)\n\n    @f\n    def g(self, h: I = J) -> K:\n        return L\n"
    assert names_at_import(ast.parse(source).body[0]) == {"x", "C", "D", "e", "f", "J"}
