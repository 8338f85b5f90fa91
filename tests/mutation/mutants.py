"""Every mutation of a module: small changes of its source, each of which a test should notice.

Not drawn, because no test can or should notice it: docstrings, annotations, type aliases, `__all__`, imports,
decorators, base classes and options of classes, assertions, `if TYPE_CHECKING`, overloads, texts (a string
with a space, everything within an f-string), `encoding=` and `strict=`, what follows a `return`.
"""

import ast
import copy
import re
from collections.abc import Iterator
from difflib import unified_diff
from functools import cache
from typing import Final, NamedTuple

# Names of types begin with a capital and have a small letter; constants have none.
TYPE_NAME: Final = re.compile(r"[A-Z]\w*[a-z]\w*$")
NOT_DRAWN_NAMES: Final = frozenset({"__all__", "__slots__", "__match_args__"})
# `encoding="utf-8"` is the default of most systems; `zip(strict=True)` guards what holds by construction.
NOT_DROPPED: Final = frozenset({"encoding", "strict"})
# Calls whose arguments are for type checkers only.
OF_TYPES: Final = frozenset({"cast", "TypeVar", "ParamSpec", "NewType", "isinstance", "issubclass"})
NEGATED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OFF_BY_ONE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.Pow: ast.Mult, ast.BitXor: ast.BitAnd,
}  # fmt: skip
OTHER_TEXT: Final = "mutant"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Owner(NamedTuple):
    """The outermost function around a statement, as its code object names it."""

    qualname: str
    line: int


class Mutant(NamedTuple):
    """One change: the bytes from `start` to `end` become `text`."""

    kind: str
    # First line of the statement that is changed, and the function whose code it belongs to.
    line: int
    owner: Owner | None
    start: int
    end: int
    text: str
    # What an import of the module runs defines these names.
    names: tuple[str, ...]


def apply(source: str, mutant: Mutant) -> str:
    raw = source.encode()
    return (raw[: mutant.start] + mutant.text.encode() + raw[mutant.end :]).decode()


def show(source: str, mutant: Mutant, name: str) -> str:
    changed = apply(source, mutant)
    lines = unified_diff(source.splitlines(), changed.splitlines(), name, name, n=1, lineterm="")
    return "\n".join(lines)


def find_mutants(source: str) -> list[Mutant]:
    """The same source gives the same list. Some of them change nothing; see `is_change`."""
    return list(dict.fromkeys(_Finder(source).find(ast.parse(source))))


def is_change(source: str, mutant: Mutant) -> bool:
    """Whether the changed module still parses, and means something else."""
    try:
        return ast.dump(ast.parse(apply(source, mutant))) != _dumped(source)
    except SyntaxError:
        return False


@cache
def _dumped(source: str) -> str:
    return ast.dump(ast.parse(source))


class _Finder:
    def __init__(self, source: str) -> None:
        raw = source.encode()
        self._starts = [0]
        for line in raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._statement: ast.stmt = ast.Pass()
        self._owner: Owner | None = None
        self._names: tuple[str, ...] = ()
        self._path: tuple[str, ...] = ()

    def find(self, tree: ast.Module) -> Iterator[Mutant]:
        for statement in tree.body:
            self._names = tuple(_defined_by(statement))
            yield from self._of_statement(statement)

    def _of_statement(self, statement: ast.stmt) -> Iterator[Mutant]:
        outer = self._statement
        self._statement = statement
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._of_function(statement)
            case ast.ClassDef():
                yield from self._of_class(statement)
            case _ if not is_skipped(statement):
                yield from self._of_plain(statement)
                for body in _bodies(statement):
                    for inner in _reachable(body):
                        yield from self._of_statement(inner)
            case _:
                pass
        self._statement = outer

    def _of_function(self, function: Function) -> Iterator[Mutant]:
        if any(_name(each) == "overload" for each in function.decorator_list):
            return
        for default in [*function.args.defaults, *function.args.kw_defaults]:
            yield from self._of_expression(default)
        was = self._owner, self._path
        self._path = (*self._path, function.name)
        if self._owner is None:
            first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
            self._owner = Owner(".".join(self._path), first)
        for inner in _reachable(function.body):
            yield from self._of_statement(inner)
        self._owner, self._path = was

    def _of_class(self, made: ast.ClassDef) -> Iterator[Mutant]:
        was = self._path
        self._path = (*self._path, made.name)
        for inner in made.body:
            yield from self._of_statement(inner)
        self._path = was

    def _of_plain(self, statement: ast.stmt) -> Iterator[Mutant]:
        yield from self._of_whole(statement)
        for expression in _expressions(statement):
            yield from self._of_expression(expression)

    def _of_whole(self, statement: ast.stmt) -> Iterator[Mutant]:
        """Changes of a statement other than those of its expressions."""
        match statement:
            case ast.Return(value=value) if value is not None and not _is_none(value):
                yield self._change("return", value, "None")
            case ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
                yield self._change("statement", statement, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._change("statement", statement, "pass")
            case ast.AugAssign(op=operator):
                yield self._change("statement", statement, "pass")
                if type(operator) in ARITHMETIC:
                    yield self._swap("arithmetic", statement, "op", ARITHMETIC[type(operator)]())
            case ast.If(test=test) | ast.While(test=test):
                yield from self._force(test, ("False",) if isinstance(statement, ast.While) else BOTH)
            case _:
                pass

    def _force(self, test: ast.expr, values: tuple[str, ...]) -> Iterator[Mutant]:
        if not isinstance(test, ast.Constant):
            yield from (self._change("condition", test, value) for value in values)

    def _of_expression(self, node: ast.AST | None) -> Iterator[Mutant]:
        if node is None or isinstance(node, ast.JoinedStr):
            return
        yield from self._of_node(node)
        for inner in _within(node):
            yield from self._of_expression(inner)

    def _of_node(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(ops=operators):
                for at, operator in enumerate(operators):
                    for kind, table in (("comparison", NEGATED), ("boundary", OFF_BY_ONE)):
                        if other := table.get(type(operator)):
                            yield self._swap(kind, node, "ops", _with(operators, at, other()))
            case ast.BoolOp(op=operator):
                yield self._swap(
                    "and/or", node, "op", ast.Or() if isinstance(operator, ast.And) else ast.And()
                )
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._change("boolean", node, f"({ast.unparse(operand)})")
            case ast.BinOp(op=operator) if type(operator) in ARITHMETIC and not _joins_texts_or_types(node):
                yield self._swap("arithmetic", node, "op", ARITHMETIC[type(operator)]())
            case ast.IfExp(test=test):
                yield from self._force(test, BOTH)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self._force(test, ("True",))
            case ast.Call(keywords=keywords):
                for at, keyword in enumerate(keywords):
                    if keyword.arg is not None and keyword.arg not in NOT_DROPPED:
                        rest = [*keywords[:at], *keywords[at + 1 :]]
                        yield self._swap("argument", node, "keywords", rest)
            case ast.Constant():
                yield from self._of_constant(node)
            case _:
                pass

    def _of_constant(self, node: ast.Constant) -> Iterator[Mutant]:
        match node.value:
            case bool(value):
                yield self._change("boolean", node, str(not value))
            case int(value):
                # One more is nothing to a limit of 200,000.
                yield self._change("constant", node, str(value + 1 if value < 10 else value * 2))
            case float(value):
                yield self._change("constant", node, repr(value * 2 or 1.0))
            case str(value) if " " not in value and "\n" not in value:
                yield self._change("constant", node, repr(OTHER_TEXT if value != OTHER_TEXT else ""))
            case bytes(value) if b" " not in value:
                yield self._change("constant", node, repr(OTHER_TEXT.encode()))
            case _:
                pass

    def _swap(self, kind: str, node: ast.AST, field: str, value: object) -> Mutant:
        """The node with another value of one field, in parentheses: its surroundings may bind tighter."""
        changed = copy.copy(node)
        setattr(changed, field, value)
        text = ast.unparse(changed)
        return self._change(kind, node, text if isinstance(node, ast.stmt) else f"({text})")

    def _change(self, kind: str, node: ast.AST, text: str) -> Mutant:
        start, end = self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)
        return Mutant(kind, self._statement.lineno, self._owner, start, end, text, self._names)

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


BOTH: Final = ("True", "False")


def is_skipped(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Pass() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=test):
            return _name(test) == "TYPE_CHECKING"
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            is_alias = TYPE_NAME.match(name) and isinstance(value, ast.Subscript | ast.BinOp | ast.Name)
            return name in NOT_DRAWN_NAMES or bool(is_alias)
        case _:
            return False


def _reachable(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Up to the first statement that leaves; a `yield` behind it only makes a function a generator."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
            return


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    yield from (each.body for each in getattr(statement, "handlers", []))
    yield from (each.body for each in getattr(statement, "cases", []))


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement computes itself: not its annotation, not its inner statements."""
    for field, value in ast.iter_fields(statement):
        if field in ("annotation", "body", "orelse", "finalbody", "handlers"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.match_case):
                yield from (part for part in (each.pattern, each.guard) if part is not None)
            elif isinstance(each, ast.AST):
                yield each


def _within(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and _name(node.func) in OF_TYPES:
        yield from node.args[1:] if _name(node.func) == "cast" else node.args[:1]
    elif isinstance(node, ast.keyword) and node.arg in NOT_DROPPED:
        return
    elif isinstance(node, ast.Lambda):
        yield from [*node.args.defaults, node.body]
    else:
        yield from ast.iter_child_nodes(node)


def _joins_texts_or_types(node: ast.BinOp) -> bool:
    def is_text_or_type(side: ast.expr) -> bool:
        is_text = isinstance(side, ast.JoinedStr) or (
            isinstance(side, ast.Constant) and isinstance(side.value, str | bytes)
        )
        return is_text or _is_none(side) or bool(TYPE_NAME.match(_name(side)))

    return is_text_or_type(node.left) or is_text_or_type(node.right)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _with(values: list[ast.cmpop], at: int, value: ast.cmpop) -> list[ast.cmpop]:
    return [*values[:at], value, *values[at + 1 :]]


def _defined_by(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.If() | ast.With():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
        case _:
            pass


def names_used(node: ast.AST) -> set[str]:
    return {name for each in ast.walk(node) if (name := _name(each))}


def names_at_import(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module uses when the module is imported: no bodies of functions."""
    if isinstance(statement, Function):
        given = [*statement.args.defaults, *statement.args.kw_defaults, *statement.decorator_list]
        return {name for each in given if each is not None for name in names_used(each)}
    if isinstance(statement, ast.ClassDef):
        return {name for each in statement.body for name in names_at_import(each)}
    return names_used(statement)


def function_lines(tree: ast.AST) -> Iterator[tuple[Function, set[int]]]:
    """Each function with the first lines of its statements, those of inner functions included."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node, {each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt)} - {node.lineno}
