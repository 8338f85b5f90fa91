"""How many breakpoints a request may have, where, and in which order of TTLs."""

from typing import Any

import pytest

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
TOO_MANY = "A maximum of 4 blocks with cache_control may be provided. Found 5."


def text(marker: Any = None, words: str = "t") -> dict[str, Any]:
    return {"type": "text", "text": words} | ({"cache_control": marker} if marker else {})


def tool(name: str, marker: Any = None) -> dict[str, Any]:
    schema = {"name": name, "input_schema": {"type": "object"}}
    return schema | ({"cache_control": marker} if marker else {})


def body(*content: Any, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": list(content)}]
    return {"model": "claude-opus-5", "max_tokens": 100, "messages": messages, **more}


def too_late(path: str) -> str:
    return (
        f"{path}cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
        "cache_control block. Note that blocks are processed in the following order: "
        "`tools`, `system`, `messages`."
    )


NESTED = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [text(SHORT)] * 5}]},
]
PARTS = {"type": "document", "source": {"type": "content", "content": [text(SHORT)] * 5}}
REQUESTS = {
    "five in the parts of a document": (body(PARTS), TOO_MANY),
    "four": (body(*[text(SHORT)] * 4), "accepted"),
    "five": (body(*[text(SHORT)] * 5), TOO_MANY),
    "five over all sections": (
        body(text(SHORT), text(SHORT), tools=[tool("a", SHORT)], system=[text(SHORT), text(SHORT)]),
        TOO_MANY,
    ),
    "five nested in a result": (body() | {"messages": NESTED}, TOO_MANY),
    "automatic": (body(text(), cache_control=SHORT), "accepted"),
    "three and automatic": (body(*[text(SHORT)] * 3, text(), cache_control=SHORT), "accepted"),
    "four and automatic": (body(*[text(SHORT)] * 4, text(), cache_control=SHORT), TOO_MANY),
    "automatic on a block that has it": (body(*[text(SHORT)] * 4, cache_control=SHORT), "accepted"),
    "automatic on a block that has another": (
        body(text(SHORT), cache_control=LONG),
        "cache_control: ttl='1h' conflicts with the ttl='5m' cache_control of the last cacheable block.",
    ),
    "automatic 1h after 5m": (body(text(SHORT), text(), cache_control=LONG), too_late("")),
    "1h before 5m": (body(text(SHORT), system=[text(LONG)]), "accepted"),
    "1h after 5m": (body(text(LONG), system=[text(SHORT)]), too_late("messages.0.content.0.")),
    "1h after 5m in the tools": (
        body(text(), tools=[tool("a", SHORT), tool("b", LONG)]),
        too_late("tools.1."),
    ),
    "1h in the system after 5m in the tools": (
        body(text(), tools=[tool("a", SHORT)], system=[text(LONG)]),
        too_late("system.0."),
    ),
    "on empty system text": (
        body(text(), system=[text(SHORT, "")]),
        "system.0: cache_control cannot be set for empty text blocks",
    ),
    "on empty text": (
        body(text(), text(SHORT, "")),
        "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
    ),
}


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_breakpoint_errors_have_the_wording_of_the_api(sent, expected, verdict):
    assert verdict(sent) == expected


def test_the_automatic_breakpoint_skips_blocks_that_cannot_have_one(verdict):
    thinking = {"type": "thinking", "thinking": "hm", "signature": "elsewhere"}
    sent = body(*[text(SHORT)] * 4, cache_control=SHORT)
    sent["messages"].append({"role": "assistant", "content": [thinking]})
    sent["compaction"] = {"type": "summarize"}
    assert verdict(sent, betas="compact-2026-09-04") == "accepted"
