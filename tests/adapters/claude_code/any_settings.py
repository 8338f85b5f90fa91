"""Settings as people write them: any JSON object, laid out in any way that JSON allows."""

import json
from typing import Any

from hypothesis import strategies as st

WORDS = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
OTHER_HANDLER = st.fixed_dictionaries({"type": st.just("command"), "command": WORDS}) | VALUES
GROUP = st.fixed_dictionaries({"hooks": st.lists(OTHER_HANDLER, max_size=2)}, optional={"matcher": WORDS})
EVENTS = st.sampled_from(["PreCompact", "SessionStart", "SessionEnd", "PostToolUse", "Stop"])
HOOKS = st.dictionaries(EVENTS, st.lists(GROUP | VALUES, max_size=2), max_size=3)
STATUS_LINE = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["x", "~/a.sh 'b"])}
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """A settings object, its keys in any order."""
    extra: dict[str, st.SearchStrategy[Any]] = {
        "hooks": HOOKS,
        "statusLine": STATUS_LINE | st.none(),
        "mcpServers": st.dictionaries(WORDS, VALUES, max_size=2),
    }
    found = draw(st.dictionaries(WORDS.filter(lambda name: name not in extra), VALUES, max_size=3))
    for name in draw(st.permutations(list(extra)))[: draw(st.integers(0, 3))]:
        found[name] = draw(extra[name])
    return {name: found[name] for name in draw(st.permutations(list(found)))}


SPACE = st.text(" \t\n\r", max_size=2)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The text of a settings file: dumped in the ways that programs do, or with white space anywhere."""
    value = draw(objects())
    if draw(st.booleans()):
        indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
        separators = draw(st.sampled_from([None, (",", ":")])) if indent is None else None
        text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
        newline = draw(st.sampled_from(["\n", "\r\n"]))
        return text.replace("\n", newline) + draw(st.sampled_from(["", newline]))
    return draw(SPACE) + _scattered(draw, value) + draw(SPACE)


def _scattered(draw: st.DrawFn, value: Any) -> str:
    def space() -> str:
        return draw(SPACE)

    if isinstance(value, dict):
        members = (
            f"{space()}{json.dumps(key)}{space()}:{space()}{_scattered(draw, each)}{space()}"
            for key, each in value.items()
        )
        return "{" + (",".join(members) or space()) + "}"
    if isinstance(value, list):
        return (
            "[" + (",".join(f"{space()}{_scattered(draw, each)}{space()}" for each in value) or space()) + "]"
        )
    return json.dumps(value)
