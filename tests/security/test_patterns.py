"""Every regular expression takes time in proportion to its text, also for text made against it (S08).

All modules are imported and all compiled patterns collected. For each, texts are made from its own parse
tree: what it repeats, once and in pairs, behind the beginning of a match, and never with its end. The time
for n and 4n letters is compared, the smallest of several runs: a quadratic pattern takes sixteen times as
long for 4n, and far longer than a linear one.
"""

import ast
import importlib
import itertools
import json
import pkgutil
import re
import re._constants as ops
import re._parser as parser
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from source_trees import tree_of

import everturn
from everturn.session.hooks.settings import could_be_slow, matches, parse_hooks

ROOT = Path(everturn.__file__).parent
SIZES = (250, 2_000, 8_000)
# So much time is far more than a linear pattern needs for any of these sizes; a quadratic one needs it for
# the last of them at the latest.
SUSPICIOUS_SECONDS = 0.008
# A quadratic pattern that needs as much for the last size needs a sixteenth for the one before; half of that
# is not worth the longer text.
FAST_SECONDS = SUSPICIOUS_SECONDS / 32
MAX_GROWTH = 9.0
REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
# Patterns whose text is cut before they see it, and the length that it is cut to.
CUT_TEXTS = {"everturn.decide.extractive.reading.earlier:_PATH": 300}


@cache
def modules() -> tuple[Any, ...]:
    found = []
    for each in pkgutil.walk_packages([str(ROOT)], "everturn."):
        if each.name.endswith("__main__"):
            continue
        try:
            found.append(importlib.import_module(each.name))
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith("everturn"):
                raise
    return tuple(found)


@cache
def patterns() -> dict[str, "re.Pattern[Any]"]:
    """Every compiled pattern that a module holds, also in a table, by module and name."""
    found: dict[str, re.Pattern[Any]] = {}
    for module in modules():
        for name, value in vars(module).items():
            for at, pattern in enumerate(_patterns_in(value)):
                place = f"{module.__name__}:{name}" + (f"[{at}]" if at else "")
                if pattern not in found.values():
                    found[place] = pattern
    return found


# Inline patterns that are made of a value: it is escaped, or comes from a table of ours, or the text is cut.
# Grep runs a model's pattern in a process with a time limit.
MADE_OF_VALUES = {
    "everturn.chat.tools.command_scope: family.options",
    "everturn.chat.tools.search.glob_patterns: translate(part)",
    "everturn.chat.tools.search.grep_worker: asked['pattern']",
    "everturn.decide.retention.score: f'(?<![\\\\w-]){re.escape(end)}(?![\\\\w-])'",
    "everturn.measure.model_table: re.escape(each) + _END_OF_ID",
    "everturn.replay.refetches.strings: f'(?<![\\\\w-]){re.escape(string)}(?!\\\\w)'",
    "everturn.replay.refetches.strings: f'(?<![\\\\w-]){re.escape(folder)}(?![\\\\w-])'",
    "everturn.replay.synthetic.workspace.project: language_of(path).signature",
    "everturn.session.hooks.settings: matcher",
    "everturn.session.hooks.settings: matcher if matcher != '*' else ''",
    "everturn.session.store.folder: re.escape(message_id).encode()",
    "everturn.web_dashboard.pages.recall: f\"\\\\b(?:{'|'.join(terms)})\\\\w*\"",
    "everturn.session.recall.search: '|'.join((_stem_pattern(term) for term in query.terms))",
    "everturn.twin.read_only_tools: asked",
    "everturn.twin.validate.grammar: pattern.removesuffix('$') + '\\\\Z'",
    "everturn.wire.overflow: pattern",
}
TAKES_A_PATTERN = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")


@cache
def inline_patterns() -> tuple[dict[str, "re.Pattern[Any]"], set[str]]:
    """Patterns that are written where they are used, by module and text; and those made of values."""
    found: dict[str, re.Pattern[Any]] = {}
    made: set[str] = set()
    for module in modules():
        tree = tree_of(Path(str(module.__file__)))
        # What is compiled at the top of a module is in `patterns`.
        for call in filter(_takes_a_pattern, _inside_functions(tree)):
            place = f"{module.__name__}: {ast.unparse(call.args[0])}"
            try:
                text = eval(compile(ast.Expression(call.args[0]), "", "eval"), dict(vars(module)))
                found[place] = re.compile(text)
            except (NameError, AttributeError, TypeError):
                made.add(place)
    return found, made


def _inside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from (ast.walk if is_function else _inside_functions)(node)


def _takes_a_pattern(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    owner = node.func.value
    return isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr in TAKES_A_PATTERN


def _patterns_in(value: object, depth: int = 0) -> Iterator["re.Pattern[Any]"]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, dict):
        for each in (*value.keys(), *value.values()):
            yield from _patterns_in(each, depth + 1)
    elif depth < 4 and isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _patterns_in(each, depth + 1)


def pumps(pattern: "re.Pattern[Any]") -> list[str]:
    """Texts to repeat: what the pattern repeats, letters of its own, and pairs of both."""
    spelled = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(spelled, pattern.flags & ~re.DEBUG)
    repeated = [sample(inner) for inner in _repeated(tree)]
    letters = sorted({letter for text in (sample(tree), *repeated) for letter in text})
    singles = list(dict.fromkeys([*filter(None, repeated), "\n", " ", "a", "0", *letters]))[:14]
    pairs = ["".join(pair) for pair in itertools.permutations(singles[:7], 2)]
    return list(dict.fromkeys([*singles, *pairs]))


def _repeated(tree: Any) -> Iterator[Any]:
    for op, given in tree:
        if op in REPEATS:
            yield given[2]
        for inner in _inner(op, given):
            yield from _repeated(inner)


def _inner(op: Any, given: Any) -> Iterable[Any]:
    if op in REPEATS:
        return [given[2]]
    if op is ops.SUBPATTERN:
        return [given[-1]]
    if op is ops.BRANCH:
        return given[1]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [given[1]]
    return [given] if op is ops.ATOMIC_GROUP else []


def sample(tree: Any) -> str:
    """A short text that the tree matches, or nearly."""
    return "".join(_sample(op, given) for op, given in tree)


def _sample(op: Any, given: Any) -> str:
    if op is ops.LITERAL:
        return chr(given)
    if op is ops.NOT_LITERAL:
        return "b" if given == ord("a") else "a"
    if op is ops.IN:
        return _letter(given)
    if op in REPEATS:
        return sample(given[2]) * max(1, min(given[0], 4))
    if op is ops.BRANCH:
        return sample(given[1][0])
    if op in (ops.SUBPATTERN,):
        return sample(given[-1])
    return sample(given) if op is ops.ATOMIC_GROUP else "a" if op is ops.ANY else ""


def _letter(given: Any) -> str:
    wanted = re.compile(_class(given))
    return next((letter for letter in "a0 \n\t-_./<>\"'`:=#*é" if wanted.match(letter)), "a")


def _class(given: Any) -> str:
    parts = []
    for op, value in given:
        if op is ops.NEGATE:
            parts.append("^")
        elif op is ops.LITERAL:
            parts.append(re.escape(chr(value)))
        elif op is ops.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        elif op is ops.CATEGORY:
            name = str(value).rpartition("_")[2].lower()[0]
            parts.append("\\" + (name.upper() if "_NOT_" in str(value) else name))
    return f"[{''.join(parts)}]"


@cache
def methods_called() -> dict[str, set[str]]:
    """For each name in the sources the methods that are called on it: of a private one, in its own module."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for name, method in re.findall(r"\b(\w+)\.(\w+)\(", path.read_text(encoding="utf-8")):
            found[f"{module}:{name}" if name.startswith("_") else name].add(method)
    return found


def only_matched(place: str) -> bool:
    """Whether the pattern is only ever tried at one place of a text, so that it need not be fast at all."""
    whole = place.partition("[")[0]
    name = whole.partition(":")[2]
    used = methods_called().get(whole if name.startswith("_") else name, set())
    return bool(used) and used <= {"match", "fullmatch"}


def probes(pattern: "re.Pattern[Any]") -> list[tuple[str, str]]:
    """Beginnings, and what is repeated behind them."""
    spelled = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    whole = sample(parser.parse(spelled, pattern.flags & ~re.DEBUG))
    befores = dict.fromkeys(("", whole[: len(whole) // 2]))
    return [(before, pump) for pump in pumps(pattern) for before in befores]


def seconds(pattern: "re.Pattern[Any]", probe: tuple[str, str], size: int, *, is_matched: bool) -> float:
    before, pump = probe
    spelled = before + pump * (size // len(pump)) + "\x00"
    text: Any = spelled if isinstance(pattern.pattern, str) else spelled.encode("latin-1", "replace")
    began = time.process_time()
    if is_matched:
        pattern.match(text)
        pattern.fullmatch(text)
    else:
        for _ in pattern.finditer(text):
            pass
    return time.process_time() - began


def slow_text(place: str, pattern: "re.Pattern[Any]", most: int = SIZES[-1]) -> str:
    """A text that takes too long; "" if none does. Sizes grow until one is suspicious."""
    is_matched = only_matched(place)
    for probe in probes(pattern):
        for size in SIZES:
            if size > most or (taken := seconds(pattern, probe, size, is_matched=is_matched)) < FAST_SECONDS:
                if size == SIZES[-2]:
                    break
                continue
            if taken < SUSPICIOUS_SECONDS:
                continue
            small, large = (
                min(seconds(pattern, probe, each, is_matched=is_matched) for _ in range(3))
                for each in (size // 4, size)
            )
            if large / max(small, 1e-5) > MAX_GROWTH:
                return f"{place}: {probe} takes {large / small:.0f} times as long for four times as much"
            break
    return ""


def test_every_pattern_takes_time_in_proportion_to_its_text():
    found = [
        slow
        for place, pattern in patterns().items()
        if (slow := slow_text(place, pattern, CUT_TEXTS.get(place, SIZES[-1])))
    ]
    assert found == []
    assert len(patterns()) > 150


def test_every_pattern_that_is_written_where_it_is_used_is_linear_too():
    written, made = inline_patterns()
    found = [slow for place, pattern in written.items() if (slow := slow_text(place, pattern))]
    assert (found, made) == ([], MADE_OF_VALUES)
    assert len(written) > 5


@pytest.mark.parametrize(
    "matcher", ["(a+)+b", "(?:a|aa)*c", "(a*){4}", ".*.*.*.*x", r"(\w+\s?)*", "([^)]+)+"]
)
def test_a_matcher_of_a_hook_that_could_be_slow_is_refused(matcher: str):
    settings = {
        "hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [{"type": "command", "command": "x"}]}]}
    }
    parsed = parse_hooks(json.dumps(settings).encode(), origin="", trusted=())
    assert parsed.hooks == ()
    assert "could take very long to match" in parsed.problems[0]


@pytest.mark.parametrize(
    "matcher", ["Edit|Write", "mcp__.*", r"mcp__(github|gitlab)__\w+", "(Edit|Write)?", "a+b+c+"]
)
def test_a_matcher_that_is_kept_is_fast_for_any_name(matcher: str):
    assert not could_be_slow(matcher)
    began = time.process_time()
    for pump in ("a", "b", "mcp__", "mcp__github__", "_"):
        matches(matcher, pump * 20_000)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "bad", [r"(?m)^\s*\d+", r"\w+@", r"<a.*?b", r"(?s)`.*?`x", r" +$", r"\[[^\]]*\]x", r"(a|b)*c", r"\s+\n"]
)
def test_a_quadratic_pattern_is_found(bad: str):
    assert slow_text("here:none", re.compile(bad)) != ""
